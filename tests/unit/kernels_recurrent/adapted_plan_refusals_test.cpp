#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unit/kernels_recurrent/adapted_plan_case.h"
#include "unit/support/message_of.h"

namespace sluice::kernels::recurrent::testing {
namespace {

using sluice::testing::message_of;

/// A plan for training with memory, and arguments that it takes.
class AdaptedPlanRefuses : public AdaptedPlan {
 protected:
  AdaptedPlanRefuses() {
    d_.input = 6;
    d_.hidden = 8;
    d_.time = 4;
    d_.rows = 3;
    d_.training = true;
    args_.time = 3;
    args_.rows = 2;
    args_.x = put_as(DType::kFloat32, Vector(36, 0.5), {3, 2, 6});
    args_.y = poisoned(DType::kFloat32, {3, 2, 8});
    args_.hn = poisoned(DType::kFloat32, {1, 2, 8});
    args_.cn = poisoned(kCells, {1, 2, 8});
    args_.c0 = put_as(kCells, Vector(16, 0.5), {1, 2, 8});
    weights_.push_back({put_as(kWeights, Vector(192, 0.1), {32, 6}),
                        put_as(kWeights, Vector(256, 0.1), {32, 8}),
                        put_as(kWeights, Vector(32, 0.1), {32}),
                        put_as(kWeights, Vector(32, 0.1), {32}),
                        {}});
    back_.dx = poisoned(DType::kFloat32, {3, 2, 6});
    back_.dc0 = poisoned(kCells, {1, 2, 8});
    back_.dcn = put_as(kCells, Vector(16, 0.5), {1, 2, 8});
    back_.gradients.push_back({poisoned(kWeights, {32, 6}),
                               poisoned(kWeights, {32, 8}),
                               poisoned(kWeights, {32}),
                               poisoned(kWeights, {32}),
                               {}});
    back_.accumulate = false;
    plan_with(false);
  }

  void plan_with(bool strided) {
    plan_ = adapt(d_, {kWeights, kCells, strided}, make_plan(context_, d_).plan);
    const auto bytes = [&](std::size_t size) {
      return poisoned(DType::kUInt8, {static_cast<std::int64_t>(size)}).data();
    };
    memory_ = {bytes(plan_->packed_bytes()), bytes(plan_->workspace_bytes()),
               bytes(plan_->reserve_bytes())};
    plan_->pack(context_, weights_, memory_);
  }

  /// Every output in bytes.
  Bytes outputs() const {
    Bytes all;
    std::vector<Tensor> tensors{args_.y, args_.hn, args_.cn, back_.dx, back_.dc0};
    for (Tensor LayerWeights::*const member : kLayerTensors) {
      if (back_.gradients[0].*member) tensors.push_back(back_.gradients[0].*member);
    }
    for (const Tensor& t : tensors) {
      const Bytes bytes = get<std::uint8_t>(
          Tensor(t.data(), DType::kUInt8, {static_cast<std::int64_t>(t.byte_size())}));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  void expect_refused(const std::string& message, const std::string& want, const Bytes& before) {
    EXPECT_NE(message.find(want), std::string::npos) << '"' << message << "\" lacks " << want;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(outputs(), before) << "written in spite of: " << message;
  }
  void forward_refused(const std::function<void(ForwardArgs&)>& change, const std::string& want) {
    const Bytes before = outputs();
    ForwardArgs args = args_;
    change(args);
    expect_refused(message_of([&] { plan_->forward(context_, args, memory_); }), want, before);
  }
  void backward_refused(const std::function<void(BackwardArgs&)>& change, const std::string& want) {
    plan_->forward(context_, args_, memory_);
    const Bytes before = outputs();
    BackwardArgs args = back_;
    args.forward = args_;
    change(args);
    expect_refused(message_of([&] { plan_->backward(context_, args, memory_); }), want, before);
  }

  static constexpr DType kWeights = DType::kBFloat16, kCells = DType::kFloat16;
  Descriptor d_;
  ForwardArgs args_;
  BackwardArgs back_;
  std::vector<LayerWeights> weights_;
  std::unique_ptr<Plan> plan_;
  Memory memory_;
};

INSTANTIATE_TEST_SUITE_P(Devices, AdaptedPlanRefuses, sluice::testing::devices(),
                         sluice::testing::device_name);

TEST_P(AdaptedPlanRefuses, WrongArgumentsOfForward) {
  const Tensor wide = poisoned(DType::kFloat32, {3, 2, 20});
  const Tensor cells = poisoned(kCells, {1, 2, 20});
  forward_refused([](ForwardArgs& a) { a.time = 5; }, "5 time steps and 2 rows");
  forward_refused([](ForwardArgs& a) { a.rows = 4; }, "3 time steps and 4 rows");
  forward_refused([](ForwardArgs& a) { a.rows = 0; }, "3 time steps and 0 rows");
  forward_refused([&](ForwardArgs& a) { a.x = wide; }, "x of the recurrent stack has shape");
  forward_refused([](ForwardArgs& a) { a.x = {}; }, "needs the tensor x [3, 2, 6]");
  forward_refused([](ForwardArgs& a) { a.y = {}; }, "needs the tensor y [3, 2, 8]");
  forward_refused(
      [&](ForwardArgs& a) {
        a.y = poisoned(DType::kBFloat16, {3, 2, 8});
      },
      "y of the recurrent stack is bfloat16, not float32");
  forward_refused([&](ForwardArgs& a) { a.x = wide.slice(2, 0, 6); },
                  "x of the recurrent stack is not contiguous");
  forward_refused([&](ForwardArgs& a) { a.y = wide.slice(2, 0, 8); },
                  "y of the recurrent stack is not contiguous");
  forward_refused(
      [&](ForwardArgs& a) {
        a.c0 = poisoned(DType::kFloat32, {1, 2, 8});
      },
      "c0 of the recurrent stack is float32, not float16");
  forward_refused([&](ForwardArgs& a) { a.cn = cells; },
                  "cn of the recurrent stack has shape [1, 2, 20], not [1, 2, 8]");
  forward_refused([&](ForwardArgs& a) { a.cn = cells.slice(2, 0, 8); },
                  "cn of the recurrent stack is not contiguous");
  forward_refused(
      [&](ForwardArgs& a) {
        a.hn = poisoned(DType::kBFloat16, {1, 2, 8});
      },
      "hn of the recurrent stack is bfloat16, not float32");
  const Bytes before = outputs();
  Memory none = memory_;
  none.workspace = nullptr;
  expect_refused(message_of([&] { plan_->forward(context_, args_, none); }), "bytes of workspace",
                 before);
}

TEST_P(AdaptedPlanRefuses, StridesOfFeatures) {
  plan_with(true);
  const Tensor wide = poisoned(DType::kFloat32, {3, 2, 16});
  const std::array<std::int64_t, 3> strides{32, 16, 2};
  forward_refused(
      [&](ForwardArgs& a) {
        a.y = Tensor(wide.data(), DType::kFloat32, {3, 2, 8}, strides);
      },
      "features of y of the recurrent stack are 2 apart");
  backward_refused(
      [&](BackwardArgs& a) {
        a.dx = Tensor(wide.data(), DType::kFloat32, {3, 2, 6}, strides);
      },
      "features of dx of the recurrent stack are 2 apart");
}

TEST_P(AdaptedPlanRefuses, WrongArgumentsOfBackward) {
  const Tensor wide = poisoned(DType::kFloat32, {3, 2, 20});
  const Tensor gradients = poisoned(kWeights, {32, 20});
  const auto first = [](BackwardArgs& a) -> LayerWeights& { return a.gradients[0]; };
  backward_refused([](BackwardArgs& a) { a.forward.rows = 4; }, "3 time steps and 4 rows");
  backward_refused([&](BackwardArgs& a) { a.dy = wide; }, "dy of the recurrent stack has shape");
  backward_refused([&](BackwardArgs& a) { a.dx = wide.slice(2, 0, 6); },
                   "dx of the recurrent stack is not contiguous");
  backward_refused(
      [&](BackwardArgs& a) {
        a.dcn = poisoned(DType::kFloat32, {1, 2, 8});
      },
      "dcn of the recurrent stack is float32, not float16");
  backward_refused(
      [&](BackwardArgs& a) {
        a.dc0 = poisoned(kCells, {1, 3, 8});
      },
      "dc0 of the recurrent stack has shape [1, 3, 8], not [1, 2, 8]");
  backward_refused(
      [&](BackwardArgs& a) {
        first(a).weight_ih = poisoned(DType::kFloat32, {32, 6});
      },
      "a gradient of the recurrent stack is float32, not bfloat16");
  backward_refused([&](BackwardArgs& a) { first(a).weight_ih = gradients.slice(1, 0, 6); },
                   "a gradient of the recurrent stack is not contiguous");
  backward_refused(
      [&](BackwardArgs& a) {
        first(a).weight_ih = poisoned(kWeights, {32, 5});
      },
      "weight_ih of the recurrent stack has shape [32, 5], not [32, 6]");
  backward_refused(
      [&](BackwardArgs& a) {
        first(a).weight_hh = poisoned(kWeights, {32, 1000});
      },
      "larger than what the recurrent stack was planned for");
  backward_refused([&](BackwardArgs& a) { a.gradients.push_back(a.gradients[0]); },
                   "recurrent stack");
  d_.training = false;
  const auto inference = adapt(d_, {kWeights, kCells, true}, make_plan(context_, d_).plan);
  const Bytes before = outputs();
  BackwardArgs args = back_;
  args.forward = args_;
  args.dy = poisoned(DType::kFloat32, {3, 2, 8});
  expect_refused(message_of([&] { inference->backward(context_, args, memory_); }),
                 "planned for training", before);
}

TEST_P(AdaptedPlanRefuses, WrongWeights) {
  const auto message = [&](const std::function<void(std::vector<LayerWeights>&)>& change) {
    std::vector<LayerWeights> weights = weights_;
    change(weights);
    return message_of([&] { plan_->pack(context_, weights, memory_); });
  };
  const auto expect = [&](const std::string& got, const std::string& want) {
    EXPECT_NE(got.find(want), std::string::npos) << got;
  };
  expect(message([](auto& w) { w.clear(); }), "0 sets of weights");
  expect(message([](auto& w) { w.push_back(w[0]); }), "2 sets of weights");
  expect(message([](auto& w) { w[0].weight_hh = {}; }), "needs the tensor weight_hh [32, 8]");
  expect(message([&](auto& w) {
           w[0].weight_hh = poisoned(DType::kFloat32, {32, 8});
         }),
         "a weight of the recurrent stack is float32, not bfloat16");
  expect(message([&](auto& w) {
           w[0].weight_hh = poisoned(kWeights, {32, 7});
         }),
         "weight_hh of the recurrent stack has shape [32, 7], not [32, 8]");
  expect(message([&](auto& w) {
           w[0].weight_hh = poisoned(kWeights, {32, 9}).slice(1, 0, 8);
         }),
         "a weight of the recurrent stack is not contiguous");
  expect(message([&](auto& w) { w[0].weight_hr = poisoned(kWeights, {3, 8}); }), "weight_hr given");
  EXPECT_EQ(message([](auto& w) { w[0].bias_ih = {}; }), "");
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
