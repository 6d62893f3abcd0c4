#include "layers/parameters.h"

#include <algorithm>

namespace sluice::layers {
namespace {

// Each parameter starts on a 64-byte boundary in float32.
constexpr std::int64_t kAlignment = 16;

}  // namespace

ParameterId Parameters::declare(std::string name, const Shape& shape, Initializer initializer,
                                bool trained) {
  SLUICE_ASSERT(!values_);
  for (const ParameterSpec& spec : specs_) SLUICE_ASSERT(spec.name != name);
  offsets_.push_back(flat_size_);
  flat_size_ += (shape.element_count() + kAlignment - 1) / kAlignment * kAlignment;
  specs_.push_back({std::move(name), shape, initializer, trained});
  return specs_.size() - 1;
}

void Parameters::set_marked(ParameterId id, bool marked) {
  SLUICE_ASSERT(!values_);
  specs_[id].marked = marked;
}

void Parameters::allocate(const Context& context, DType master, bool with_gradients) {
  SLUICE_ASSERT(master == DType::kFloat32 || master == DType::kFloat64);
  dtype_ = master;
  const std::size_t bytes =
      base::checked_mul(static_cast<std::size_t>(flat_size_), base::size_of(master));
  value_memory_ = Buffer(context.device(), bytes);
  values_ = value_memory_.tensor(master, {flat_size_});
  context.zero(values_);
  note_change();
  if (with_gradients) {
    gradient_memory_ = Buffer(context.device(), bytes);
    gradients_ = gradient_memory_.tensor(master, {flat_size_});
    context.zero(gradients_);
    make_marks(context);
  }
}

// Gradients are zero so far. What is between parameters stays so.
void Parameters::make_marks(const Context& context) {
  if (std::none_of(specs_.begin(), specs_.end(), [](const auto& spec) { return spec.marked; })) {
    return;
  }
  std::vector<std::uint8_t> marks(static_cast<std::size_t>(kernels::mark_count(flat_size_)),
                                  kernels::kUnmarked);
  for (ParameterId id = 0; id < specs_.size(); ++id) {
    if (specs_[id].marked) continue;
    const std::int64_t end = offsets_[id] + specs_[id].shape.element_count();
    std::fill(marks.begin() + kernels::mark_of(offsets_[id]),
              marks.begin() + kernels::mark_count(end), kernels::kAlwaysMarked);
  }
  mark_memory_ = Buffer(context.device(), marks.size());
  marks_ = mark_memory_.tensor(DType::kUInt8, {static_cast<std::int64_t>(marks.size())});
  context.upload<std::uint8_t>(marks_, marks);
}

Tensor Parameters::gradient(ParameterId id) const {
  return gradients_ ? view(gradients_, id) : Tensor();
}

std::int64_t Parameters::element_count() const {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : specs_) count += spec.shape.element_count();
  return count;
}

void Parameters::initialize(const Context& context, std::uint64_t seed,
                            const Initialization& chosen) const {
  for (ParameterId id = 0; id < specs_.size(); ++id) {
    base::dispatch_master(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const ParameterSpec& spec = specs_[id];
      upload<T>(context, id, draw<T>(spec.initializer, chosen, spec.name, spec.shape, seed));
    });
  }
}

Tensor Parameters::view(const Tensor& flat, ParameterId id) const {
  const ParameterSpec& spec = specs_[id];
  return flat.slice(0, offsets_[id], offsets_[id] + spec.shape.element_count()).reshape(spec.shape);
}

}  // namespace sluice::layers
