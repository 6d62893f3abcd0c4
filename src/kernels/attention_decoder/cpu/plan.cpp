#include "kernels/attention_decoder/cpu/plan.h"

#include <fmt/format.h>
#include <omp.h>

#include "kernels/attention_decoder/arguments.h"
#include "kernels/attention_decoder/cpu/backward.h"
#include "kernels/attention_decoder/cpu/pack.h"

namespace sluice::kernels::attention_decoder::cpu {
namespace {

template <typename T>
class DecoderPlan final : public Plan {
 public:
  DecoderPlan(const Descriptor& d, std::string_view name, Leaves<T> leaf) : name_(name) {
    const int threads = omp_get_max_threads();
    decoder_ = std::make_shared<const Decoder<T>>(Decoder<T>{
        d, leaf, threads, std::make_unique<SpinBarrier[]>(static_cast<std::size_t>(threads))});
    Carver packed;
    carve_packed(d, *leaf.cells, packed);
    packed_bytes_ = packed.used();
    const Extents capacity{d.target_time, d.source_time, d.rows};
    workspace_bytes_ = std::max(forward_bytes(capacity, !d.training),
                                forward_bytes({1, d.source_time, d.rows}, true));
    if (d.training) plan_training(capacity);
  }

  std::string_view implementation() const override { return name_; }
  std::size_t packed_bytes() const override { return packed_bytes_; }
  std::string packed_layout() const override {
    return fmt::format("{} {}{}", name_, base::name_of(decoder_->d.dtype),
                       decoder_->d.training ? " and transposed" : "");
  }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t reserve_bytes() const override { return reserve_bytes_; }
  std::int64_t key_stride() const override { return padded(decoder_->d.key_width()); }
  std::int64_t value_stride() const override { return padded(decoder_->d.memory); }

  void pack(const Context& context, const Weights& weights, const Memory& memory) override {
    check_memory(*this, memory, false);
    check_weights(decoder_->d, weights);
    context.stream().launch([decoder = decoder_, weights, memory] {
      pack_weights(decoder->d, *decoder->leaf.cells, weights, memory);
    });
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory, true);
    check_forward(decoder_->d, args);
    context.stream().launch(
        [decoder = decoder_, args, memory] { run_forward(*decoder, args, memory); });
  }

  void backward(const Context& context, const BackwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory, true);
    check_backward(decoder_->d, args);
    context.stream().launch(
        [decoder = decoder_, args, memory] { run_backward(*decoder, args, memory); });
  }

  void prepare_memory(const Context& context, const PrepareArgs& args,
                      const Memory& memory) override {
    check_memory(*this, memory, false);
    check_prepare(decoder_->d, *this, args);
    context.stream().launch([decoder = decoder_, args, memory] {
      Carver packed(memory.packed);
      const Leaf<T>& leaf = *decoder->leaf.cells;
      cpu::prepare_memory(decoder->d, leaf, carve_packed(decoder->d, leaf, packed),
                          {0, args.source_time, args.inputs}, args.memory.data_as<const T>(),
                          args.source_lengths.data_as<const std::int32_t>(),
                          args.values.data_as<T>(), args.keys.data_as<T>());
    });
  }

  void step(const Context& context, const StepArgs& args, const Memory& memory) override {
    check_memory(*this, memory, false);
    check_step(decoder_->d, *this, args);
    context.stream().launch(
        [decoder = decoder_, args, memory] { run_step(*decoder, args, memory); });
  }

 private:
  void plan_training(const Extents& capacity) {
    const Descriptor& d = decoder_->d;
    Carver reserve, backward;
    carve_trace<T>(d, capacity, true, true, reserve);
    reserve_bytes_ = reserve.used();
    carve_backward<T>(d, capacity, backward);
    const auto pack_bytes = static_cast<std::size_t>(pack_scratch_size(d)) * sizeof(T);
    workspace_bytes_ = std::max({workspace_bytes_, backward.used(), pack_bytes});
  }

  /// Of forward, or of a step, which with its trace in the workspace needs no reserve.
  std::size_t forward_bytes(const Extents& extents, bool with_trace) const {
    Carver carver;
    carve_forward<T>(decoder_->d, extents, carver);
    if (with_trace) carve_trace<T>(decoder_->d, extents, false, true, carver);
    return carver.used();
  }

  std::string_view name_;
  std::shared_ptr<const Decoder<T>> decoder_;
  std::size_t packed_bytes_ = 0;
  std::size_t workspace_bytes_ = 0;
  std::size_t reserve_bytes_ = 0;
};

}  // namespace

template <typename T>
std::unique_ptr<Plan> make_plan(const Descriptor& descriptor, std::string_view name,
                                Leaves<T> leaf) {
  return std::make_unique<DecoderPlan<T>>(descriptor, name, leaf);
}

template std::unique_ptr<Plan> make_plan(const Descriptor&, std::string_view, Leaves<double>);
template std::unique_ptr<Plan> make_plan(const Descriptor&, std::string_view, Leaves<float>);

}  // namespace sluice::kernels::attention_decoder::cpu
