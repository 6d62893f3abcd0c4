#include "kernels/recurrent/cpu/sequence.h"

#include <fmt/format.h>
#include <omp.h>

#include "kernels/recurrent/arguments.h"
#include "runtime/launch.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

template <typename T>
class SequencePlan final : public Plan {
 public:
  SequencePlan(std::string_view name, std::shared_ptr<const Sequence<T>> sequence)
      : name_(name), sequence_(std::move(sequence)) {}

  std::string_view implementation() const override { return name_; }
  std::size_t packed_bytes() const override { return sequence_->packed.bytes; }
  std::string packed_layout() const override {
    const Descriptor& descriptor = sequence_->descriptor;
    return fmt::format("{} {}{}", name_, base::name_of(descriptor.dtype),
                       descriptor.training ? " and transposed" : "");
  }
  std::size_t workspace_bytes() const override { return sequence_->workspace.bytes; }
  std::size_t reserve_bytes() const override { return sequence_->reserve.bytes; }

  void pack(const Context& context, const std::vector<LayerWeights>& weights,
            const Memory& memory) override {
    check_memory(*this, memory);
    check_weights(sequence_->descriptor, weights);
    context.stream().launch(
        [sequence = sequence_, weights, memory] { run_pack(*sequence, weights, memory); });
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory);
    check_forward(sequence_->descriptor, args);
    runtime::launch(context.stream(),
                    [sequence = sequence_, args, memory, profiler = context.profiler()] {
                      run_forward(*sequence, args, memory, profiler);
                    });
  }

  void backward(const Context& context, const BackwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory);
    check_backward(sequence_->descriptor, args);
    context.stream().launch([sequence = sequence_, args, memory, profiler = context.profiler()] {
      run_backward(*sequence, args, memory, profiler);
    });
  }

 private:
  std::string_view name_;
  std::shared_ptr<const Sequence<T>> sequence_;
};

/// Weights that stay in a thread's own cache cost no reading, so few rows of its own will do.
template <typename T>
std::int64_t own_rows(const Sizes& sizes, const Leaf<T>& leaf) {
  if (sizes.norms) return 1;
  constexpr std::int64_t kCache = std::int64_t{1} << 20;  // half of today's L2
  constexpr std::int64_t kFew = 8;
  const auto bytes =
      sizes.gate_width * (sizes.max_input + sizes.output) * static_cast<std::int64_t>(sizeof(T));
  return bytes <= kCache ? kFew : leaf.own_rows;
}

}  // namespace

template <typename T>
std::unique_ptr<Plan> make_sequence(const Descriptor& descriptor, std::string_view name,
                                    const Leaf<T>& leaf) {
  const int threads = omp_get_max_threads();
  const Sizes sizes = widest_sizes(descriptor);
  auto sequence = std::make_shared<const Sequence<T>>(
      Sequence<T>{descriptor, sizes, sizes_of_layers(descriptor), &leaf, threads,
                  own_rows(sizes, leaf), book_packed(descriptor, leaf), book_reserve<T>(descriptor),
                  book_workspace(descriptor, leaf, threads),
                  std::make_unique<SpinBarrier[]>(static_cast<std::size_t>(threads))});
  return std::make_unique<SequencePlan<T>>(name, std::move(sequence));
}

template std::unique_ptr<Plan> make_sequence(const Descriptor&, std::string_view,
                                             const Leaf<double>&);
template std::unique_ptr<Plan> make_sequence(const Descriptor&, std::string_view,
                                             const Leaf<float>&);
template std::unique_ptr<Plan> make_sequence(const Descriptor&, std::string_view,
                                             const Leaf<base::BFloat16>&);

}  // namespace sluice::kernels::recurrent::cpu
