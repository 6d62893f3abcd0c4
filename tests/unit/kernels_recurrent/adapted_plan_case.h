#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "kernels/recurrent/adapted_plan.h"
#include "runtime/buffer.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

/// Plans for the caller's own dtypes and strides, held against plans for contiguous float32.
namespace sluice::kernels::recurrent::testing {

using runtime::Shape;
using Vector = std::vector<double>;
using Bytes = std::vector<std::uint8_t>;

inline constexpr std::uint8_t kGuard = 0xa5;

inline double rounded(double value, DType dtype) {
  if (dtype == DType::kFloat64) return value;
  const auto single = static_cast<float>(value);
  if (dtype == DType::kBFloat16) return static_cast<float>(base::BFloat16(single));
  if (dtype == DType::kFloat16) return static_cast<float>(base::Float16(single));
  return single;
}

inline void round(Vector& values, DType dtype) {
  for (double& value : values) value = rounded(value, dtype);
}

inline void round(std::vector<oracle::Weights>& weights, DType dtype) {
  for (oracle::Weights& set : weights) {
    for (Vector* values :
         {&set.weight_ih, &set.weight_hh, &set.bias_ih, &set.bias_hh, &set.weight_hr, &set.peephole,
          &set.gain_ih, &set.gain_hh, &set.gain_c, &set.shift_c}) {
      round(*values, dtype);
    }
  }
}

/// How x, y, dx and dy lie in memory, in elements behind their first one.
struct Layout {
  bool rows_first = false;
  std::int64_t before = 0;   ///< elements in front
  std::int64_t row_gap = 0;  ///< behind the features of a step of a row
  std::int64_t gap = 0;      ///< behind a whole step, or a whole row
};

struct Variant {
  bool adapted = true;
  CallerTensors tensors = {};
  Layout layout = {};
  bool biases = true;
};

/// Bytes of device memory between two guards.
class Guarded {
 public:
  Guarded(runtime::Device& device, const Context& context, std::size_t bytes)
      : context_(context), bytes_(bytes), buffer_(device, bytes + 2 * kRoom) {
    const Bytes guards(bytes + 2 * kRoom, kGuard);
    context.stream().upload(buffer_.data(), guards.data(), guards.size());
    sluice::testing::poison(context, data(), bytes);
  }
  void* data() const { return static_cast<std::byte*>(buffer_.data()) + kRoom; }
  bool is_intact() const {
    const Tensor all =
        buffer_.tensor(DType::kUInt8, {static_cast<std::int64_t>(bytes_ + 2 * kRoom)});
    const Bytes now = context_.download<std::uint8_t>(all);
    const auto is_guard = [](std::uint8_t byte) { return byte == kGuard; };
    return std::all_of(now.begin(), now.begin() + kRoom, is_guard) &&
           std::all_of(now.end() - kRoom, now.end(), is_guard);
  }

 private:
  static constexpr std::ptrdiff_t kRoom = 256;
  const Context& context_;
  std::size_t bytes_;
  runtime::Buffer buffer_;
};

/// A tensor and all memory around it.
struct Placed {
  Tensor tensor;
  Tensor memory;  ///< contiguous, one axis
};

/// Runs stacks by a plan and by the same plan adapted, on each device of the tests.
class AdaptedPlan : public sluice::testing::OnDevice {
 protected:
  /// Uploads values in any dtype; absent if there are none.
  Tensor put_as(DType dtype, const Vector& values, const Shape& shape) {
    if (values.empty()) return {};
    const Tensor tensor = poisoned(dtype, shape);
    upload(tensor, values);
    return tensor;
  }
  void upload(const Tensor& tensor, const Vector& values) {
    base::dispatch_float(tensor.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      std::vector<T> stored;
      for (const double value : values) stored.push_back(narrowed<T>(value));
      context_.upload<T>(tensor, stored);
    });
  }
  Vector values_of(const Tensor& tensor) const {
    Vector values;
    base::dispatch_float(tensor.dtype(), [&](auto tag) {
      values = sluice::testing::widened(get<typename decltype(tag)::type>(tensor));
    });
    return values;
  }

  /// Memory for [time, rows, width] in that layout; absent values leave it poisoned.
  Placed place(const Layout& layout, DType dtype, const Shape& shape, const Vector& values = {}) {
    const std::int64_t time = shape[0], rows = shape[1], width = shape[2];
    const std::int64_t row = width + layout.row_gap;
    const std::int64_t outer = (layout.rows_first ? time : rows) * row + layout.gap;
    const std::array strides{layout.rows_first ? row : outer, layout.rows_first ? outer : row,
                             std::int64_t{1}};
    const std::int64_t count = layout.before + (layout.rows_first ? rows : time) * outer;
    const Tensor memory = poisoned(dtype, {count});
    auto* first = static_cast<std::byte*>(memory.data()) +
                  layout.before * static_cast<std::int64_t>(base::size_of(dtype));
    const Placed placed{Tensor(first, dtype, shape, strides), memory};
    if (!values.empty()) {
      Vector all = values_of(memory);
      for_each(placed, [&](std::size_t i, std::size_t at) { all[at] = values[i]; });
      upload(memory, all);
    }
    return placed;
  }
  /// Calls body(index of the element, its index in memory).
  template <typename Body>
  static void for_each(const Placed& placed, const Body& body) {
    const Tensor& t = placed.tensor;
    const auto size = static_cast<std::int64_t>(base::size_of(t.dtype()));
    const std::int64_t first =
        (static_cast<std::byte*>(t.data()) - static_cast<std::byte*>(placed.memory.data())) / size;
    std::size_t i = 0;
    for (std::int64_t a = 0; a < t.size(0); ++a) {
      for (std::int64_t b = 0; b < t.size(1); ++b) {
        for (std::int64_t c = 0; c < t.size(2); ++c) {
          body(i++, static_cast<std::size_t>(first + a * t.stride(0) + b * t.stride(1) + c));
        }
      }
    }
  }
  /// The tensor's values; fails unless all around them is as it was.
  Vector taken(const Placed& placed) {
    const Vector all = values_of(placed.memory);
    Vector values;
    std::vector<bool> inside(all.size());
    for_each(placed, [&](std::size_t, std::size_t at) {
      values.push_back(all[at]);
      inside[at] = true;
    });
    for (std::size_t at = 0; at < all.size(); ++at) {
      EXPECT_TRUE(inside[at] || std::isnan(all[at])) << "a gap holds " << all[at] << " at " << at;
    }
    return values;
  }

  std::vector<LayerWeights> put_weights(const Descriptor& d, DType dtype,
                                        const std::vector<oracle::Weights>& weights, bool biases) {
    std::vector<LayerWeights> sets;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::int64_t layer = static_cast<std::int64_t>(i) / d.directions;
      const std::int64_t hidden = d.hidden_of(layer), sums = d.gates() * hidden;
      const std::int64_t input = d.input_of(layer), output = d.output_of(layer);
      const oracle::Weights& w = weights[i];
      sets.push_back(
          {put_as(dtype, w.weight_ih, {sums, input}), put_as(dtype, w.weight_hh, {sums, output}),
           biases ? put_as(dtype, w.bias_ih, {sums}) : Tensor(),
           biases ? put_as(dtype, w.bias_hh, {sums}) : Tensor(),
           put_as(dtype, w.weight_hr, {output, hidden}), put_as(dtype, w.peephole, {3, hidden}),
           put_as(dtype, w.gain_ih, {sums}), put_as(dtype, w.gain_hh, {sums}),
           put_as(dtype, w.gain_c, {hidden}), put_as(dtype, w.shift_c, {hidden})});
    }
    return sets;
  }

  std::unique_ptr<Plan> plan_of(const StackCase& stack, const Variant& variant) {
    auto plan = make_plan(context_, stack.descriptor).plan;
    return variant.adapted ? adapt(stack.descriptor, variant.tensors, std::move(plan))
                           : std::move(plan);
  }

  /// All that a run writes, by name. The memory is as large as the plan says, and guarded.
  Tensors run(const StackCase& stack, const Variant& variant) {
    const Descriptor& d = stack.descriptor;
    const std::int64_t time = stack.time, rows = stack.rows;
    const auto plan = plan_of(stack, variant);
    const Guarded packed(*device_, context_, plan->packed_bytes()),
        workspace(*device_, context_, plan->workspace_bytes()),
        reserve(*device_, context_, plan->reserve_bytes());
    const Memory memory{packed.data(), workspace.data(), reserve.data()};
    const auto forget = [&] {
      sluice::testing::poison(context_, memory.workspace, plan->workspace_bytes());
    };
    const DType weights = variant.tensors.weights, cells = variant.tensors.cells;
    plan->pack(context_, put_weights(d, weights, stack.weights, variant.biases), memory);
    forget();
    const bool lstm = d.cell == CellType::kLstm;
    const Shape h = d.h_shape(rows), c = d.c_shape(rows);
    ForwardArgs args;
    args.time = time;
    args.rows = rows;
    args.x = place(variant.layout, d.dtype, {time, rows, d.input}, stack.input.x).tensor;
    const std::vector<std::int32_t> lengths(stack.input.lengths.begin(), stack.input.lengths.end());
    if (!lengths.empty()) args.lengths = put(lengths);
    if (!stack.row_ids.empty()) args.row_ids = put(stack.row_ids);
    if (!stack.input.resets.empty()) {
      const auto& resets = stack.input.resets;
      args.resets = put(std::vector<std::int32_t>(resets.begin(), resets.end()), {time, rows});
    }
    args.h0 = put_as(d.dtype, stack.input.h0, h);
    args.c0 = put_as(cells, stack.input.c0, c);
    const Placed y = place(variant.layout, d.dtype, {time, rows, d.y_width()});
    args.y = y.tensor;
    if (stack.want_states) args.hn = poisoned(d.dtype, h);
    if (stack.want_states && lstm) args.cn = poisoned(cells, c);
    if (stack.want_c_sequence) {
      args.c_sequence =
          poisoned(base::policy_of(d.dtype).cell_state, d.c_sequence_shape(time, rows));
    }
    args.dropout = put_key(stack.dropout);
    plan->forward(context_, args, memory);
    forget();
    Tensors tensors{{"y", taken(y)}};
    const auto collect = [&](const std::string& name, const Tensor& tensor) {
      if (tensor) tensors[name] = values_of(tensor);
    };
    collect("hn", args.hn);
    collect("cn", args.cn);
    collect("c_sequence", args.c_sequence);
    if (d.training) {
      BackwardArgs back;
      back.forward = args;
      if (!stack.flow.dy.empty()) {
        back.dy = place(variant.layout, d.dtype, {time, rows, d.y_width()}, stack.flow.dy).tensor;
      }
      back.dhn = put_as(d.dtype, stack.flow.dhn, h);
      back.dcn = put_as(cells, stack.flow.dcn, c);
      Placed dx;
      if (stack.want_dx) dx = place(variant.layout, d.dtype, {time, rows, d.input});
      back.dx = dx.tensor;
      if (stack.want_states) back.dh0 = poisoned(d.dtype, h);
      if (stack.want_states && lstm) back.dc0 = poisoned(cells, c);
      if (stack.want_gradients) {
        back.gradients = put_weights(d, weights, stack.gradients_before, true);
      }
      back.accumulate = stack.accumulate;
      plan->backward(context_, back, memory);
      if (back.dx) tensors["dx"] = taken(dx);
      collect("dh0", back.dh0);
      collect("dc0", back.dc0);
      for (std::size_t i = 0; i < back.gradients.size(); ++i) {
        for (std::size_t k = 0; k < kLayerTensors.size(); ++k) {
          collect(fmt::format("gradient {} of {}", k, i), back.gradients[i].*kLayerTensors[k]);
        }
      }
    }
    EXPECT_TRUE(packed.is_intact() && workspace.is_intact() && reserve.is_intact());
    release_memory();
    return tensors;
  }

  void expect_same(const Tensors& got, const Tensors& want) {
    EXPECT_EQ(got.size(), want.size());
    for (const auto& [name, values] : want) {
      ASSERT_TRUE(got.contains(name)) << name;
      EXPECT_EQ(got.at(name), values) << name;
    }
  }

  StackCase draw(DType dtype) {
    CaseLimits limits;
    limits.dtype = dtype;
    limits.time = 5;
    limits.rows = 5;
    limits.width = 20;
    limits.extras = limits.hard_sigmoid = random_() % 2 == 0;
    limits.unequal_widths = random_() % 3 == 0;
    return random_case(random_, limits);
  }
  /// For each of some cases in each storage that every device has.
  void for_each_case(const std::function<void(StackCase&)>& check) {
    const int trials = std::string_view(GetParam()) == "test" ? 2 : 8;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (int trial = 0; trial < trials; ++trial) {
        StackCase stack = draw(dtype);
        SCOPED_TRACE(describe(stack));
        check(stack);
      }
    }
  }

  static constexpr Variant kPlain{.adapted = false};

  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};

 private:
  template <typename T>
  static T narrowed(double value) {
    if constexpr (sizeof(T) == 2) return T(static_cast<float>(value));
    return static_cast<T>(value);
  }
};

}  // namespace sluice::kernels::recurrent::testing
