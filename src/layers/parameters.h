#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gradient_marks.h"
#include "layers/initializer.h"
#include "runtime/context.h"

namespace sluice::layers {

using runtime::Buffer;
using runtime::Context;
using runtime::DType;
using runtime::Shape;
using runtime::Tensor;

/// One named tensor of a model.
struct ParameterSpec {
  std::string name;  ///< canonical, e.g. "encoder.weight_ih_l0_reverse"
  Shape shape;
  Initializer initializer;
  bool trained = true;  ///< whether optimisers may change it
  bool marked = false;  ///< whether who adds to its gradient marks what it adds to
};

using ParameterId = std::size_t;

/// The name of a layout of a layer's weights among those of its model; none if it has none.
inline std::string layout_of(const std::string& layer, const std::string& layout) {
  return layout.empty() ? layout : layer + ": " + layout;
}

/// All parameters of a model, in canonical order, as views into one flat arena of values and,
/// when training, one of gradients of the same layout. First every layer declares its own, then
/// `allocate` is called once. Layers keep ids, not tensors.
class Parameters {
 public:
  ParameterId declare(std::string name, const Shape& shape, Initializer initializer,
                      bool trained = true);

  /// Says whether all that add to a parameter's gradient mark what they add to
  /// (kernels/gradient_marks.h), which is worth it for those of which a step touches little; at
  /// first nobody does. Before allocate.
  void set_marked(ParameterId id, bool marked);

  /// Takes memory on the context's device. `master` is float32, or float64 for gradient checks.
  void allocate(const Context& context, DType master, bool with_gradients);

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  DType dtype() const { return dtype_; }
  /// What activations are stored in under a context's precision: float64 for float64 parameters.
  DType storage(const Context& context) const {
    return dtype_ == DType::kFloat64 ? dtype_ : context.precision().storage;
  }
  bool has_gradients() const { return static_cast<bool>(gradients_); }

  Tensor value(ParameterId id) const { return view(values_, id); }
  /// Absent when allocated without gradients.
  Tensor gradient(ParameterId id) const;
  /// [N] over all parameters, padding between them (kept zero) included.
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  /// Which of all gradients, or of a parameter's, may be other than zero.
  kernels::GradientMarks gradient_marks() const { return {marks_, 0}; }
  kernels::GradientMarks gradient_marks(ParameterId id) const { return {marks_, offsets_[id]}; }
  /// Number of parameters proper, without padding.
  std::int64_t element_count() const;
  /// Where a parameter starts in the flat arenas, in elements.
  std::int64_t offset(ParameterId id) const { return offsets_[id]; }
  std::int64_t flat_size() const { return flat_size_; }

  /// Counts changes of values by `allocate`, `initialize` and `upload`: what was packed of an
  /// earlier version has to be packed again. Who writes to `value` or `values` says so by
  /// `note_change`; but training need not, for its plans pack each time they run.
  std::uint64_t version() const { return version_; }
  void note_change() const { ++version_; }

  /// Draws every parameter from (seed, its name, element index): the same on every device.
  void initialize(const Context& context, std::uint64_t seed,
                  const Initialization& chosen = {}) const;

  /// Whole parameters to and from the host, in float32 or float64 as allocated.
  template <typename T>
  void upload(const Context& context, ParameterId id, std::span<const T> values) const {
    context.upload<T>(value(id), values);
    note_change();
  }
  template <typename T>
  std::vector<T> download(const Context& context, ParameterId id) const {
    return context.download<T>(value(id));
  }

 private:
  Tensor view(const Tensor& flat, ParameterId id) const;
  void make_marks(const Context& context);

  std::vector<ParameterSpec> specs_;
  std::vector<std::int64_t> offsets_;
  std::int64_t flat_size_ = 0;
  DType dtype_ = DType::kFloat32;
  Buffer value_memory_;
  Buffer gradient_memory_;
  Buffer mark_memory_;
  Tensor values_;
  Tensor gradients_;
  Tensor marks_;                       ///< absent if no parameter is marked
  mutable std::uint64_t version_ = 1;  ///< of what stands on the device, as `upload` changes it
};

}  // namespace sluice::layers
