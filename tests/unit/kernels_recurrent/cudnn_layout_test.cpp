#include "kernels/recurrent/cudnn_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// The tensor of canonical weights that a part belongs to, and where in it the part begins.
struct CanonicalPlace {
  Tensor LayerWeights::*tensor;
  std::int64_t first;
};

CanonicalPlace canonical_place(const CudnnPart& part, std::int64_t gates) {
  const std::int64_t first = part.linear % gates * part.size();
  const bool is_input = part.linear < gates;
  if (part.linear == 2 * gates) return {&LayerWeights::weight_hr, 0};
  if (part.is_bias) return {is_input ? &LayerWeights::bias_ih : &LayerWeights::bias_hh, first};
  return {is_input ? &LayerWeights::weight_ih : &LayerWeights::weight_hh, first};
}

/// cuDNN's own word on its buffers. Only a GPU with cuDNN has one.
class CudnnBuffers : public sluice::testing::OnDevice {
 protected:
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  CudnnStack draw_stack() {
    CudnnStack stack;
    stack.cell = std::array{CellType::kLstm, CellType::kGru, CellType::kRnnTanh,
                            CellType::kRnnRelu}[static_cast<std::size_t>(draw(0, 3))];
    stack.layers = draw(1, 3);
    stack.directions = draw(1, 2);
    stack.input = draw(1, 40);
    stack.hidden = draw(2, 40);
    if (stack.cell == CellType::kLstm && draw(0, 1) == 0) {
      stack.projection = draw(1, stack.hidden - 1);
    }
    return stack;
  }

  static Descriptor descriptor_of(const CudnnStack& stack) {
    Descriptor d;
    d.cell = stack.cell;
    d.layers = stack.layers;
    d.directions = stack.directions;
    d.input = stack.input;
    d.hidden = stack.hidden;
    if (stack.projection > 0) d.projections = {stack.projection};
    d.time = 6;
    d.rows = 3;
    return d;
  }

  std::vector<LayerWeights> draw_weights(const Descriptor& d) {
    std::vector<LayerWeights> weights;
    const auto numbers = [&](const base::Shape& shape) {
      return put(sluice::testing::random_values<float>(random_, shape.element_count(), 0.3), shape);
    };
    const std::int64_t rows = d.gates() * d.hidden;
    for (std::int64_t layer = 0; layer < d.layers; ++layer) {
      for (std::int64_t direction = 0; direction < d.directions; ++direction) {
        weights.push_back({numbers({rows, d.input_of(layer)}), numbers({rows, d.output_of(layer)}),
                           numbers({rows}), numbers({rows}),
                           d.projects() ? numbers({d.output_of(layer), d.hidden}) : Tensor()});
      }
    }
    return weights;
  }

  Memory memory_of(const Plan& plan) {
    const auto bytes = [&](std::size_t size) {
      return poisoned(DType::kFloat32, {static_cast<std::int64_t>(size / 4 + 1)}).data();
    };
    return {bytes(plan.packed_bytes()), bytes(plan.workspace_bytes()), bytes(plan.reserve_bytes())};
  }

  /// y of a packed plan.
  std::vector<float> run(Plan& plan, const Descriptor& d, const Memory& memory, const Tensor& x) {
    ForwardArgs args;
    args.time = d.time;
    args.rows = d.rows;
    args.x = x;
    args.y = poisoned(DType::kFloat32, {d.time, d.rows, d.y_width()});
    plan.forward(context_, args, memory);
    return get<float>(args.y);
  }

  /// Skips a test, with the reason, if there is no cuDNN here.
  void SetUp() override {
    if (device_->runs_host_kernels()) GTEST_SKIP() << "this is a test of GPUs";
    for (const Candidate& candidate : candidates(*device_)) {
      if (candidate.name != "cudnn-standard") continue;
      const auto reason = refusal(candidate, descriptor_of({.input = 4, .hidden = 4}), *device_);
      if (reason) GTEST_SKIP() << "cudnn-standard declines: " << *reason;
    }
  }

  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

INSTANTIATE_TEST_SUITE_P(, CudnnBuffers, sluice::testing::devices(), sluice::testing::device_name);

std::string text_of(const CudnnStack& stack) {
  return fmt::format("{} layers={} directions={} input={} hidden={} projection={} biases={}",
                     name_of(stack.cell), stack.layers, stack.directions, stack.input, stack.hidden,
                     stack.projection, static_cast<int>(stack.biases));
}

TEST_P(CudnnBuffers, HaveTheDocumentedLayout) {
  for (int trial = 0; trial < 24; ++trial) {
    CudnnStack stack = draw_stack();
    stack.biases = std::array{CudnnBiases::kBoth, CudnnBiases::kInput, CudnnBiases::kRecurrent,
                              CudnnBiases::kNone}[static_cast<std::size_t>(trial % 4)];
    SCOPED_TRACE(text_of(stack));
    const CudnnLayout documented = cudnn_layout(stack), found = cudnn_layout(stack, *device_);
    EXPECT_EQ(found.size, documented.size);
    for (std::size_t i = 0; i < documented.parts.size(); ++i) {
      const CudnnPart& part = documented.parts[i];
      EXPECT_EQ(found.parts[i].offset, part.offset)
          << "cell " << part.cell << " linear " << part.linear << " bias " << part.is_bias;
    }
  }
}

// The places of cuDNN's API, whatever they are.
TEST_P(CudnnBuffers, ThatWeFillAreRunByCudnn) {
  for (int trial = 0; trial < 12; ++trial) {
    const CudnnStack stack = draw_stack();
    SCOPED_TRACE(text_of(stack));
    const Descriptor d = descriptor_of(stack);
    const std::vector<LayerWeights> weights = draw_weights(d);
    const Tensor x =
        put(sluice::testing::random_values<float>(random_, d.time * d.rows * d.input, 1),
            {d.time, d.rows, d.input});
    const auto own = make_plan(context_, d).plan;
    const Memory own_memory = memory_of(*own);
    own->pack(context_, weights, own_memory);
    const std::vector<float> wanted = run(*own, d, own_memory, x);

    const CudnnLayout layout = cudnn_layout(stack, *device_);
    std::vector<float> buffer(static_cast<std::size_t>(layout.size));
    for (const CudnnPart& part : layout.parts) {
      const CanonicalPlace place = canonical_place(part, d.gates());
      const auto values = get<float>(weights[static_cast<std::size_t>(part.cell)].*place.tensor);
      std::copy_n(values.begin() + place.first, part.size(), buffer.begin() + part.offset);
    }
    const auto peer = make_plan(context_, d, "cudnn-standard").plan;
    ASSERT_EQ(peer->packed_bytes(), buffer.size() * sizeof(float));
    Memory memory = memory_of(*peer);
    memory.packed = put(buffer).data();
    const std::vector<float> got = run(*peer, d, memory, x);
    // A plain RNN with ReLU grows.
    float largest = 1;
    for (const float value : wanted) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(got[i], wanted[i], 1e-5 * largest);
    }
  }
}

TEST(CudnnLayouts, NeedAGpu) {
  const auto device = runtime::open_device("cpu");
  EXPECT_EQ(sluice::testing::message_of(
                [&] { cudnn_layout(CudnnStack{.input = 3, .hidden = 4}, *device); }),
            "device cpu has no cuDNN to ask; name a GPU");
}

TEST(CudnnLayouts, HoldEachNumberOnce) {
  for (const CudnnBiases biases : {CudnnBiases::kBoth, CudnnBiases::kInput, CudnnBiases::kNone}) {
    const CudnnLayout layout = cudnn_layout(
        {.layers = 3, .directions = 2, .input = 5, .hidden = 4, .projection = 2, .biases = biases});
    std::int64_t next = 0;
    for (const CudnnPart& part : layout.parts) {
      EXPECT_EQ(part.offset, next);
      next += part.size();
    }
    EXPECT_EQ(layout.size, next);
    const std::int64_t vectors = biases == CudnnBiases::kBoth    ? 2
                                 : biases == CudnnBiases::kInput ? 1
                                                                 : 0;
    EXPECT_EQ(layout.size,
              2 * (16 * (5 + 2) + 2 * 4) + 4 * (16 * (4 + 2) + 2 * 4) + 6 * 16 * vectors);
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
