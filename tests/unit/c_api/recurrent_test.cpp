#include "kernels/recurrent/recurrent.h"

#include <gtest/gtest.h>
#include <sluice/recurrent.h>

#include <numeric>
#include <random>
#include <string>

#include "unit/support/message_of.h"
#include "unit/support/on_device.h"

namespace sluice::c_api {
namespace {

namespace recurrent = kernels::recurrent;
using base::Shape;
using runtime::Tensor;
using Values = std::vector<float>;

/// An LSTM of two layers, planned for more than it runs.
constexpr std::int64_t kInput = 5, kHidden = 7, kLayers = 2, kTime = 4, kRows = 3;
constexpr std::int64_t kGates = 4 * kHidden;

/// Inputs, weights and gradients that flow in, drawn once for each test.
struct Problem {
  explicit Problem(std::uint32_t seed) : random(seed) {
    x = draw(kTime * kRows * kInput);
    h0 = draw(kLayers * kRows * kHidden);
    c0 = draw(kLayers * kRows * kHidden);
    dy = draw(kTime * kRows * kHidden);
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const std::int64_t input = layer == 0 ? kInput : kHidden;
      weights.push_back({draw(kGates * input), draw(kGates * kHidden), draw(kGates), draw(kGates)});
    }
  }

  Values draw(std::int64_t count) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    Values values(static_cast<std::size_t>(count));
    for (float& value : values) value = uniform(random);
    return values;
  }

  std::mt19937 random;
  Values x, h0, c0, dy;
  std::vector<std::array<Values, 4>> weights;  ///< of each layer: ih, hh and their biases
  std::vector<std::int32_t> lengths{4, 0, 2}, resets{0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0};
};

struct Answer {
  Values y, hn, cn, dx, dh0, dc0;
  std::vector<Values> gradients;

  bool operator==(const Answer&) const = default;
};

sluice_recurrent_options options_of(const std::vector<std::int64_t>& hidden) {
  sluice_recurrent_options options = SLUICE_INIT(sluice_recurrent_options);
  options.cell = SLUICE_LSTM;
  options.layers = static_cast<std::int64_t>(hidden.size());
  options.directions = 1;
  options.input = kInput;
  options.hidden = hidden.data();
  options.time = kTime + 2;
  options.rows = kRows + 1;
  options.dtype = SLUICE_FLOAT32;
  options.training = 1;
  options.resets = 1;
  return options;
}

/// A plan's memories, aligned as little as sluice.h allows.
class LeastAligned {
 public:
  LeastAligned(const Device& device, const sluice_recurrent_sizes& sizes, std::size_t alignment)
      : alignment_(alignment), memory_(device, larger(sizes, 2 * alignment)) {}

  sluice_recurrent_memory get() const {
    sluice_recurrent_memory memory = memory_.get();
    for (void** each : {&memory.packed, &memory.workspace, &memory.reserve}) {
      const std::size_t past = reinterpret_cast<std::uintptr_t>(*each) % (2 * alignment_);
      *each = static_cast<char*>(*each) + (3 * alignment_ - past) % (2 * alignment_);
    }
    return memory;
  }

 private:
  static sluice_recurrent_sizes larger(sluice_recurrent_sizes sizes, std::size_t bytes) {
    for (std::size_t* each : {&sizes.packed, &sizes.workspace, &sizes.reserve}) *each += bytes;
    return sizes;
  }

  std::size_t alignment_;
  PlanMemory memory_;
};

/// By the C++ face of the C API.
Answer by_api(const char* name, const Problem& problem, int hard_sigmoid = 0) {
  const Device device(name);
  const Stream stream(device);
  const std::vector<std::int64_t> hidden(kLayers, kHidden);
  sluice_recurrent_options options = options_of(hidden);
  options.hard_sigmoid = hard_sigmoid;
  const RecurrentPlan plan(stream, options);
  const LeastAligned memory(device, plan.sizes(), std::string(name) == "cpu" ? 64 : 128);
  std::vector<DeviceMemory> kept;
  const auto put = [&](const auto& values) {
    return kept.emplace_back(device, stream, values).get();
  };
  std::vector<sluice_recurrent_weights> weights, gradients;
  std::vector<std::size_t> places;
  for (const auto& layer : problem.weights) {
    sluice_recurrent_weights set = SLUICE_INIT(sluice_recurrent_weights);
    set.weight_ih = put(layer[0]);
    set.weight_hh = put(layer[1]);
    set.bias_ih = put(layer[2]);
    set.bias_hh = put(layer[3]);
    weights.push_back(set);
    places.push_back(kept.size());
    set.weight_ih = put(layer[0]);
    set.weight_hh = put(layer[1]);
    set.bias_ih = put(layer[2]);
    set.bias_hh = put(layer[3]);
    gradients.push_back(set);
  }
  // Another plan packs, where the names of the layouts say that it may.
  sluice_recurrent_options larger = options;
  larger.time *= 3;
  larger.resets = 0;
  const RecurrentPlan packer(stream, larger);
  const bool shared =
      !plan.packed_layout().empty() && plan.packed_layout() == packer.packed_layout();
  EXPECT_TRUE(shared || std::string(name) != "cpu") << plan.packed_layout();
  if (shared) {
    const PlanMemory others(device, packer.sizes());
    sluice_recurrent_memory into = others.get();
    into.packed = memory.get().packed;
    packer.pack(weights, into);
  } else {
    plan.pack(weights, memory.get());
  }
  sluice_recurrent_forward_args forward = SLUICE_INIT(sluice_recurrent_forward_args);
  forward.time = kTime;
  forward.rows = kRows;
  forward.x = put(problem.x);
  forward.lengths = static_cast<const std::int32_t*>(put(problem.lengths));
  forward.resets = static_cast<const std::int32_t*>(put(problem.resets));
  forward.h0 = put(problem.h0);
  forward.c0 = put(problem.c0);
  const DeviceMemory y(device, stream, problem.dy), hn(device, stream, problem.h0),
      cn(device, stream, problem.c0), dx(device, stream, problem.x),
      dh0(device, stream, problem.h0), dc0(device, stream, problem.c0);
  forward.y = y.get();
  forward.hn = hn.get();
  forward.cn = cn.get();
  plan.forward(forward, memory.get());
  sluice_recurrent_backward_args backward = SLUICE_INIT(sluice_recurrent_backward_args);
  backward.dy = put(problem.dy);
  backward.dx = dx.get();
  backward.dh0 = dh0.get();
  backward.dc0 = dc0.get();
  backward.gradients = gradients.data();
  backward.accumulate = 1;
  plan.backward(forward, backward, memory.get());
  Answer answer{y.download<float>(stream),
                hn.download<float>(stream),
                cn.download<float>(stream),
                dx.download<float>(stream),
                dh0.download<float>(stream),
                dc0.download<float>(stream),
                {}};
  for (const std::size_t place : places) {
    for (std::size_t i = 0; i < 4; ++i) {
      answer.gradients.push_back(kept[place + i].download<float>(stream));
    }
  }
  return answer;
}

/// By the contract that the C API stands on.
class CRecurrent : public sluice::testing::OnDevice {
 protected:
  Answer by_contract(const Problem& problem, bool hard_sigmoid = false) {
    recurrent::Descriptor descriptor;
    descriptor.layers = kLayers;
    descriptor.input = kInput;
    descriptor.hidden = kHidden;
    descriptor.time = kTime + 2;
    descriptor.rows = kRows + 1;
    descriptor.training = true;
    descriptor.resets = true;
    descriptor.hard_sigmoid = hard_sigmoid;
    const auto plan = recurrent::make_plan(context_, descriptor).plan;
    const auto bytes = [&](std::size_t size) {
      return poisoned(runtime::DType::kFloat32, {static_cast<std::int64_t>(size / 4 + 1)}).data();
    };
    const recurrent::Memory memory{bytes(plan->packed_bytes()), bytes(plan->workspace_bytes()),
                                   bytes(plan->reserve_bytes())};
    std::vector<recurrent::LayerWeights> weights, gradients;
    for (std::size_t layer = 0; layer < problem.weights.size(); ++layer) {
      const std::int64_t input = layer == 0 ? kInput : kHidden;
      for (auto* sets : {&weights, &gradients}) {
        const auto& values = problem.weights[layer];
        sets->push_back({put(values[0], {kGates, input}), put(values[1], {kGates, kHidden}),
                         put(values[2]), put(values[3]), Tensor()});
      }
    }
    plan->pack(context_, weights, memory);
    const Shape states{kLayers, kRows, kHidden};
    recurrent::BackwardArgs args;
    recurrent::ForwardArgs& forward = args.forward;
    forward.time = kTime;
    forward.rows = kRows;
    forward.x = put(problem.x, {kTime, kRows, kInput});
    forward.lengths = put(problem.lengths);
    forward.resets = put(problem.resets, {kTime, kRows});
    forward.h0 = put(problem.h0, states);
    forward.c0 = put(problem.c0, states);
    forward.y = poisoned(runtime::DType::kFloat32, {kTime, kRows, kHidden});
    forward.hn = poisoned(runtime::DType::kFloat32, states);
    forward.cn = poisoned(runtime::DType::kFloat32, states);
    plan->forward(context_, forward, memory);
    args.dy = put(problem.dy, {kTime, kRows, kHidden});
    args.dx = poisoned(runtime::DType::kFloat32, {kTime, kRows, kInput});
    args.dh0 = poisoned(runtime::DType::kFloat32, states);
    args.dc0 = poisoned(runtime::DType::kFloat32, states);
    args.gradients = gradients;
    plan->backward(context_, args, memory);
    Answer answer{get<float>(forward.y),
                  get<float>(forward.hn),
                  get<float>(forward.cn),
                  get<float>(args.dx),
                  get<float>(args.dh0),
                  get<float>(args.dc0),
                  {}};
    for (const recurrent::LayerWeights& set : gradients) {
      for (const Tensor& tensor : {set.weight_ih, set.weight_hh, set.bias_ih, set.bias_hh}) {
        answer.gradients.push_back(get<float>(tensor));
      }
    }
    return answer;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, CRecurrent, sluice::testing::devices(),
                         sluice::testing::device_name);

TEST_P(CRecurrent, GivesTheBitsOfTheContract) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  const Problem problem(seed);
  const Answer got = by_api(GetParam(), problem);
  EXPECT_NE(got.y, problem.dy);
  EXPECT_TRUE(got == by_contract(problem));
}

TEST_P(CRecurrent, HasHardSigmoids) {
  const Problem problem(7);
  const Answer got = by_api(GetParam(), problem, 1);
  EXPECT_NE(got.y, by_api(GetParam(), problem).y);
  EXPECT_TRUE(got == by_contract(problem, true));
}

/// Whether a change to fitting options is refused, and how.
template <typename Change>
std::string refusal(const Change& change) {
  const Device device("cpu");
  const Stream stream(device);
  std::vector<std::int64_t> hidden{kHidden, kHidden};
  sluice_recurrent_options options = options_of(hidden);
  change(options, hidden);
  return sluice::testing::message_of([&] { const RecurrentPlan plan(stream, options); });
}

TEST(CRecurrentOptions, AreRefusedInOneSentence) {
  using Hidden = std::vector<std::int64_t>;
  using Options = sluice_recurrent_options;
  EXPECT_EQ(refusal([](Options&, Hidden&) {}), "");
  EXPECT_EQ(refusal([](Options& o, Hidden&) { o.size = 3; }),
            "options.size is 3; set it to the size of the struct (SLUICE_INIT does)");
  EXPECT_EQ(refusal([](Options& o, Hidden&) { o.layers = 1 << 30; }),
            "options.layers is 1073741824, not 1 to 1024");
  EXPECT_EQ(refusal([](Options& o, Hidden&) { o.layers = -1; }),
            "options.layers is -1, not 1 to 1024");
  EXPECT_EQ(refusal([](Options& o, Hidden&) { o.hidden = nullptr; }), "options.hidden is NULL");
  EXPECT_EQ(refusal([](Options&, Hidden& h) { h[1] = 0; }),
            "a recurrent stack needs hidden widths of at least 1, not 0");
  EXPECT_EQ(refusal([](Options& o, Hidden&) { o.cell = 77; }),
            "options.cell is 77, which names no cell of sluice.h");
  EXPECT_EQ(refusal([](Options& o, Hidden&) { o.dtype = 0; }),
            "options.dtype is 0, which names no dtype of sluice.h");
  EXPECT_EQ(refusal([](Options& o, Hidden&) { o.weight_dtype = SLUICE_FLOAT64; }),
            "options.weight_dtype is float64; where dtype is not float64 it must be float32, "
            "bfloat16 or float16");
  EXPECT_EQ(refusal([](Options& o, Hidden&) { o.directions = 3; }),
            "a recurrent stack has 1 or 2 directions, not 3");
  EXPECT_EQ(refusal([](Options& o, Hidden&) {
              o.cell = SLUICE_RNN_TANH;
              o.hard_sigmoid = 1;
            }),
            "a plain RNN has no gates for a hard sigmoid");
  EXPECT_EQ(refusal([](Options& o, Hidden&) { o.dropout = 1.5; }),
            "dropout must lie in [0, 1), not 1.5");
  EXPECT_NE(refusal([](Options& o, Hidden&) {
              o.implementation = "fastest";
            }).find("no implementation \"fastest\" of a recurrent stack can run here (known are"),
            std::string::npos);
}

TEST(CRecurrentOptions, OfANewerHeaderAreTakenIfTheyAreZero) {
  struct {
    sluice_recurrent_options options;
    std::int64_t newer = 0;
  } place{};
  const std::vector<std::int64_t> hidden{kHidden};
  place.options = options_of(hidden);
  place.options.size = sizeof place;
  const Device device("cpu");
  const Stream stream(device);
  EXPECT_EQ(sluice::testing::message_of([&] { const RecurrentPlan plan(stream, place.options); }),
            "");
  place.newer = 1;
  EXPECT_EQ(sluice::testing::message_of([&] { const RecurrentPlan plan(stream, place.options); }),
            "options has a member that this library (0.1.0) does not know; use a newer library");
}

TEST(CRecurrentOptions, OfAnOlderHeaderHaveDefaults) {
  const std::vector<std::int64_t> hidden{kHidden};
  sluice_recurrent_options options = options_of(hidden);
  options.size = offsetof(sluice_recurrent_options, implementation);
  options.implementation = reinterpret_cast<const char*>(std::uintptr_t{1});  // never read
  const Device device("cpu");
  const Stream stream(device);
  EXPECT_EQ(sluice::testing::message_of([&] { const RecurrentPlan plan(stream, options); }), "");
}

TEST(CRecurrentRuns, AreRefusedInOneSentence) {
  const Device device("cpu");
  const Stream stream(device);
  const std::vector<std::int64_t> hidden{kHidden};
  sluice_recurrent_options options = options_of(hidden);
  options.training = 0;
  const RecurrentPlan plan(stream, options);
  const PlanMemory memory(device, plan.sizes());
  Values numbers(4096);
  sluice_recurrent_forward_args args = SLUICE_INIT(sluice_recurrent_forward_args);
  args.time = kTime;
  args.rows = kRows;
  args.x = args.y = numbers.data();
  const auto refused = [&](const sluice_recurrent_forward_args& changed,
                           const sluice_recurrent_memory& own) {
    return sluice::testing::message_of([&] { plan.forward(changed, own); });
  };
  auto changed = args;
  changed.time = kTime + 3;
  EXPECT_EQ(refused(changed, memory.get()),
            "7 time steps and 3 rows given to a plan for 1 to 6 and 1 to 4");
  changed = args;
  changed.x = nullptr;
  EXPECT_EQ(refused(changed, memory.get()), "the recurrent stack needs the tensor x [4, 3, 5]");
  changed = args;
  changed.x_row_stride = 3;
  EXPECT_EQ(refused(changed, memory.get()),
            "strides of x are 15 and 3; steps and rows of 5 numbers would overlap");
  changed = args;
  changed.x_row_stride = 8;
  changed.x_time_stride = 24;
  EXPECT_EQ(refused(changed, memory.get()), "x of the recurrent stack is not contiguous");
  sluice_recurrent_memory none = memory.get();
  none.workspace = nullptr;
  EXPECT_NE(refused(args, none).find("memory.workspace is NULL; the plan needs"),
            std::string::npos);
  none = memory.get();
  none.packed = static_cast<char*>(none.packed) + 4;
  EXPECT_EQ(refused(args, none), "memory.packed is not aligned to 64 bytes");
  sluice_recurrent_backward_args backward = SLUICE_INIT(sluice_recurrent_backward_args);
  EXPECT_EQ(sluice::testing::message_of([&] { plan.backward(args, backward, memory.get()); }),
            "backward needs a recurrent stack planned for training");
  sluice_recurrent_weights weights = SLUICE_INIT(sluice_recurrent_weights);
  EXPECT_EQ(sluice::testing::message_of([&] {
              plan.pack(std::vector{weights, weights}, memory.get());
            }),
            "2 sets of weights given, not 1: one a layer and direction");
  EXPECT_EQ(sluice::testing::message_of([&] { plan.pack(std::vector{weights}, memory.get()); }),
            "the recurrent stack needs the tensor weight_ih [28, 5]");
}

}  // namespace
}  // namespace sluice::c_api
