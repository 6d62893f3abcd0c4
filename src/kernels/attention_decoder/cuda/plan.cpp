#include "kernels/attention_decoder/cuda/plan.h"

#include <fmt/format.h>

#include "kernels/attention_decoder/arguments.h"
#include "kernels/attention_decoder/cuda/persistent/launch.h"
#include "kernels/attention_decoder/cuda/run.h"
#include "runtime/cuda/blas.h"
#include "runtime/cuda/cuda_device.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

template <typename S>
class StepwisePlan final : public Plan {
 public:
  StepwisePlan(const Descriptor& d, std::string_view name, bool in_one_launch)
      : d_(d), name_(name), persistent_(in_one_launch) {
    Carver packed;
    carve_packed<S>(d, packed);
    packed_bytes_ = packed.used();
    const Extents capacity{d.target_time, d.source_time, d.rows};
    workspace_bytes_ = std::max(forward_bytes(capacity, !d.training),
                                forward_bytes({1, d.source_time, d.rows}, true));
    if (!d.training) return;
    Carver reserve, backward;
    carve_trace<S>(d, capacity, true, true, reserve);
    reserve_bytes_ = reserve.used();
    carve_backward<S>(d, capacity, backward);
    if (persistent_) persistent::carve_backward_scratch<S>(capacity, padded(d.output), backward);
    workspace_bytes_ = std::max(workspace_bytes_, backward.used());
  }

  std::string_view implementation() const override { return name_; }
  std::size_t packed_bytes() const override { return packed_bytes_; }
  std::string packed_layout() const override {
    return fmt::format("{} {}", name_, base::name_of(d_.dtype));
  }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t reserve_bytes() const override { return reserve_bytes_; }
  std::int64_t key_stride() const override { return padded(d_.key_width()); }
  std::int64_t value_stride() const override { return padded(d_.memory); }

  void pack(const Context& context, const Weights& weights, const Memory& memory) override {
    check_memory(*this, memory, false);
    check_weights(d_, weights);
    // What runs must not take while they are captured.
    runtime::cuda::blas_of(context);
    static_cast<runtime::cuda::CudaStream&>(context.stream()).workspace();
    pack_weights<S>(context, d_, weights, memory);
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory, true);
    check_forward(d_, args);
    run_forward<S>(context, d_, args, memory, persistent_);
  }

  void backward(const Context& context, const BackwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory, true);
    check_backward(d_, args);
    run_backward<S>(context, d_, args, memory, nullptr, persistent_);
  }

  void prepare_memory(const Context& context, const PrepareArgs& args,
                      const Memory& memory) override {
    check_memory(*this, memory, false);
    check_prepare(d_, *this, args);
    run_prepare<S>(context, d_, args, memory);
  }

  void step(const Context& context, const StepArgs& args, const Memory& memory) override {
    check_memory(*this, memory, false);
    check_step(d_, *this, args);
    run_step<S>(context, d_, args, memory);
  }

 private:
  /// Of forward, or of a step, which with its trace in the workspace needs no reserve.
  std::size_t forward_bytes(const Extents& extents, bool with_trace) const {
    Carver carver;
    carve_forward<S>(d_, extents, carver);
    if (with_trace) carve_trace<S>(d_, extents, false, true, carver);
    if (persistent_) persistent::carve_scratch<S>(extents, padded(d_.output), carver);
    return carver.used();
  }

  Descriptor d_;
  std::string_view name_;
  bool persistent_;
  std::size_t packed_bytes_ = 0;
  std::size_t workspace_bytes_ = 0;
  std::size_t reserve_bytes_ = 0;
};

}  // namespace

template <typename S>
std::unique_ptr<Plan> make_plan(const Descriptor& descriptor, std::string_view name,
                                bool in_one_launch) {
  return std::make_unique<StepwisePlan<S>>(descriptor, name, in_one_launch);
}

template std::unique_ptr<Plan> make_plan<double>(const Descriptor&, std::string_view, bool);
template std::unique_ptr<Plan> make_plan<float>(const Descriptor&, std::string_view, bool);
template std::unique_ptr<Plan> make_plan<__nv_bfloat16>(const Descriptor&, std::string_view, bool);
template std::unique_ptr<Plan> make_plan<__half>(const Descriptor&, std::string_view, bool);

}  // namespace sluice::kernels::attention_decoder::cuda
