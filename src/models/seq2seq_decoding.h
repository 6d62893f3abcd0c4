#pragma once

#include <memory>

#include "models/seq2seq.h"
#include "models/step_model.h"
#include "runtime/arena.h"

namespace sluice::models {

/// Encodes inputs once and steps a decoder over any rows that read them.
class Seq2SeqDecoding final : public StepModel {
 public:
  struct Capacity {
    std::int64_t inputs = 0;
    std::int64_t source_time = 0;
    std::int64_t rows = 0;  ///< of the decoder, e.g. inputs x beams
  };

  /// Owns its memory; weights are packed once, now, so the parameters must not change while it
  /// lives.
  Seq2SeqDecoding(const Context& context, const Seq2Seq& model, const Capacity& capacity);
  /// The same with the memory that `planner` books, which must lie in `arena` whenever it is used
  /// (runtime::PlanStore). To be packed before each use.
  Seq2SeqDecoding(const Context& context, const Seq2Seq& model, const Capacity& capacity,
                  runtime::ArenaPlanner& planner, const runtime::Arena& arena);
  /// Packs the weights that aren't packed yet.
  void pack(const Context& context);
  /// Bytes that it takes of the device.
  static std::size_t bytes(const Context& context, const Seq2Seq& model, const Capacity& capacity);
  ~Seq2SeqDecoding() override;

  /// source int32 [source_time, inputs] time-major, lengths int32 [inputs]. To be called before
  /// `start`.
  void encode(const Context& context, const Tensor& source, const Tensor& lengths);

  std::int64_t vocabulary() const override;
  std::int64_t max_rows() const override;
  std::int64_t source_time() const override;
  void start(const Context& context, const Tensor& input_of_row, std::int64_t rows) override;
  void step(const Context& context, const Tensor& tokens, const Tensor& logits,
            const Tensor& attention) override;
  void reorder(const Context& context, const Tensor& parents) override;
  std::optional<runtime::GraphKey> steps_key() const override;
  std::vector<StateTensor> state() const override;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace sluice::models
