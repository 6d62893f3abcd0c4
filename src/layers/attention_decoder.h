#pragma once

#include <string>

#include "kernels/attention_decoder/attention_decoder.h"
#include "layers/parameters.h"
#include "runtime/arena.h"

namespace sluice::layers {

/// The parameters of a decoder with attention and input feeding behind a prefix: cells as in
/// RecurrentStack (`<prefix>.weight_ih_l0` has columns [embedding ; attentional output]), and
/// `.attention.query_weight`, `.memory_weight`, `.score_vector` (additive) or `.bilinear_weight`
/// (multiplicative), `.output_weight`, `.output_bias`. Each starts uniform in +-1/sqrt(its inputs),
/// the cells in +-1/sqrt(hidden), the bias at zero.
class AttentionDecoder {
 public:
  /// `architecture` needs no extent, dtype or training flag: those belong to plans.
  AttentionDecoder(Parameters& parameters, const std::string& prefix,
                   const kernels::attention_decoder::Descriptor& architecture);

  const kernels::attention_decoder::Descriptor& architecture() const { return architecture_; }
  const std::string& name() const { return name_; }
  kernels::attention_decoder::Weights weights(const Parameters& parameters) const;
  kernels::attention_decoder::Weights gradients(const Parameters& parameters) const;

 private:
  struct CellIds {
    ParameterId weight_ih, weight_hh, bias_ih, bias_hh;
  };

  template <typename View>
  kernels::attention_decoder::Weights collect(View&& view) const;

  std::string name_;
  kernels::attention_decoder::Descriptor architecture_;
  std::vector<CellIds> cells_;
  ParameterId query_ = 0;
  ParameterId memory_ = 0;
  ParameterId score_ = 0;
  ParameterId bilinear_ = 0;
  ParameterId output_weight_ = 0;
  ParameterId output_bias_ = 0;
};

/// A plan for one decoder at one capacity, with its memory booked.
class AttentionDecoderPlan {
 public:
  AttentionDecoderPlan(const Context& context, const AttentionDecoder& decoder,
                       runtime::ArenaPlanner& planner, std::int64_t target_time,
                       std::int64_t source_time, std::int64_t rows, DType dtype, bool training,
                       std::string_view implementation = "auto");

  std::string_view implementation() const { return choice_.plan->implementation(); }
  const std::vector<kernels::recurrent::Declined>& declined() const { return choice_.declined; }
  std::int64_t key_stride() const { return choice_.plan->key_stride(); }
  std::int64_t value_stride() const { return choice_.plan->value_stride(); }

  /// To be called whenever the parameters have changed.
  void pack(const Context& context, const runtime::Arena& arena, const Parameters& parameters);
  void forward(const Context& context, const runtime::Arena& arena,
               const kernels::attention_decoder::ForwardArgs& args);
  /// Fills in the gradients of the decoder's parameters and adds to them.
  void backward(const Context& context, const runtime::Arena& arena, const Parameters& parameters,
                kernels::attention_decoder::BackwardArgs args);
  void prepare_memory(const Context& context, const runtime::Arena& arena,
                      const kernels::attention_decoder::PrepareArgs& args);
  void step(const Context& context, const runtime::Arena& arena,
            const kernels::attention_decoder::StepArgs& args);

 private:
  kernels::attention_decoder::Memory memory(const runtime::Arena& arena) const;

  const AttentionDecoder* decoder_;
  kernels::attention_decoder::Choice choice_;
  runtime::Slot packed_;
  runtime::Slot reserve_;
  runtime::Slot workspace_;
};

}  // namespace sluice::layers
