#include <gtest/gtest.h>

#include <functional>

#include "kernels/recurrent/named_choice.h"
#include "runtime/buffer.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/support/message_of.h"

namespace sluice::kernels::recurrent::testing {
namespace {

using sluice::testing::message_of;

Descriptor small() {
  Descriptor d;
  d.input = 3;
  d.hidden = 4;
  d.time = 5;
  d.rows = 2;
  return d;
}

TEST(RecurrentContract, NamesCells) {
  EXPECT_EQ(name_of(CellType::kGru), "gru");
  EXPECT_EQ(parse_cell("lstm"), CellType::kLstm);
  for (const CellType cell : kCellTypes) EXPECT_EQ(parse_cell(name_of(cell)), cell);
  const std::string error = message_of([] { parse_cell("rnn"); });
  EXPECT_NE(error.find("\"rnn\""), std::string::npos) << error;
  EXPECT_NE(error.find("lstm, gru, gru_reset_before, rnn_tanh, rnn_relu"), std::string::npos)
      << error;
}

TEST(RecurrentContract, RefusesSenselessSizes) {
  const auto refused = [](void (*change)(Descriptor&)) {
    Descriptor d = small();
    change(d);
    return !message_of([&] { d.validate(); }).empty();
  };
  EXPECT_FALSE(refused([](Descriptor&) {}));
  EXPECT_TRUE(refused([](Descriptor& d) { d.hidden = 0; }));
  EXPECT_TRUE(refused([](Descriptor& d) { d.input = -1; }));
  EXPECT_TRUE(refused([](Descriptor& d) { d.directions = 3; }));
  EXPECT_TRUE(refused([](Descriptor& d) { d.dropout = 1; }));
  EXPECT_TRUE(refused([](Descriptor& d) { d.dtype = DType::kInt32; }));
  EXPECT_TRUE(refused([](Descriptor& d) {
    d.cell = CellType::kGru;
    d.projections = {2};
  }));
  EXPECT_TRUE(refused([](Descriptor& d) { d.projections = {2, 0}; }));
  EXPECT_TRUE(refused([](Descriptor& d) { d.projections.assign(d.layers + 1, 2); }));
  EXPECT_TRUE(refused([](Descriptor& d) { d.layer_norm = d.peepholes = true; }));
  EXPECT_TRUE(refused([](Descriptor& d) { d.zoneout_h = 1; }));
  EXPECT_TRUE(refused([](Descriptor& d) { d.recurrent_dropout = -0.1; }));
  EXPECT_TRUE(refused([](Descriptor& d) {
    d.cell = CellType::kGru;
    d.peepholes = true;
  }));
  EXPECT_TRUE(refused([](Descriptor& d) {
    d.cell = CellType::kGru;
    d.zoneout_c = 0.1;
  }));
  EXPECT_TRUE(refused([](Descriptor& d) {
    d.cell = CellType::kRnnTanh;
    d.projections = {2};
  }));
  EXPECT_FALSE(refused([](Descriptor& d) { d.hard_sigmoid = d.peepholes = true; }));
  EXPECT_TRUE(refused([](Descriptor& d) {
    d.cell = CellType::kRnnRelu;
    d.hard_sigmoid = true;
  }));
}

TEST(RecurrentContract, AutoPicksAndTellsWhyOthersDeclined) {
  const auto device = runtime::open_device("cpu");
  const Context context(*device);
  Descriptor d = small();
  d.dtype = DType::kFloat64;
  const Choice choice = make_plan(context, d);
  EXPECT_EQ(choice.plan->implementation(), "portable");
  for (const Declined& declined : choice.declined) EXPECT_FALSE(declined.reason.empty());
  const std::string error = message_of([&] { make_plan(context, d, "nonesuch"); });
  EXPECT_NE(error.find("nonesuch"), std::string::npos);
  EXPECT_NE(error.find("portable"), std::string::npos);
}

TEST(RecurrentContract, HardSigmoidIsOfFewImplementations) {
  const auto device = runtime::open_device("cpu");
  Context context(*device);
  Descriptor d = small();
  d.hard_sigmoid = true;
  const Choice choice = make_plan(context, d);
  EXPECT_EQ(choice.plan->implementation(), "portable");
  EXPECT_FALSE(choice.declined.empty());
  for (const Declined& declined : choice.declined) {
    EXPECT_EQ(declined.reason, "it has no hard sigmoid") << declined.name;
  }
  const std::string peer = message_of([&] { make_plan(context, d, "onednn"); });
  EXPECT_NE(peer.find("it has no hard sigmoid"), std::string::npos) << peer;
  runtime::Tuning tuning;
  context.set_tuning(&tuning);
  EXPECT_EQ(make_plan(context, d).plan->implementation(), "portable");
  d.layers = 2;
  d.widths = {4, 6};
  EXPECT_EQ(make_plan(context, d).plan->implementation(), "portable+portable");
  tuning.record(kEveryStack, "avx2");
  const std::string named = message_of([&] { make_plan(context, d); });
  EXPECT_NE(named.find("it has no hard sigmoid"), std::string::npos) << named;
}

TEST(RecurrentContract, PeerIsChosenByNameAndSaysWhatItCannotDo) {
  const auto device = runtime::open_device("cpu");
  const Context context(*device);
  Descriptor d = small();
  EXPECT_NE(make_plan(context, d).plan->implementation(), "onednn");
  const auto plan = make_plan(context, d, "onednn").plan;
  const runtime::Buffer packed(*device, plan->packed_bytes());
  const runtime::Buffer workspace(*device, plan->workspace_bytes());
  const runtime::Buffer data(*device, 4096);
  ForwardArgs args;
  args.time = 4;
  args.rows = 2;
  args.x = data.tensor(DType::kFloat32, {4, 2, 3});
  args.y = data.tensor(DType::kFloat32, {4, 2, 4});
  const Memory memory{packed.data(), workspace.data(), nullptr};
  const std::string shorter = message_of([&] { plan->forward(context, args, memory); });
  EXPECT_NE(shorter.find("planned 5 steps"), std::string::npos) << shorter;
  d.projections = {2};
  const std::string projected = message_of([&] { make_plan(context, d, "onednn"); });
  EXPECT_NE(projected.find("projection"), std::string::npos) << projected;
  d = small();
  d.resets = true;
  const std::string reset = message_of([&] { make_plan(context, d, "onednn"); });
  EXPECT_NE(reset.find("resets"), std::string::npos) << reset;
}

TEST(RecurrentContract, RefusesWrongArguments) {
  const auto device = runtime::open_device("cpu");
  const Context context(*device);
  const auto plan = make_plan(context, small()).plan;
  const runtime::Buffer packed(*device, plan->packed_bytes());
  const runtime::Buffer workspace(*device, plan->workspace_bytes());
  const runtime::Buffer data(*device, 4096);
  const Memory memory{packed.data(), workspace.data(), nullptr};
  ForwardArgs args;
  args.time = 5;
  args.rows = 2;
  args.x = data.tensor(DType::kFloat32, {5, 2, 3});
  args.y = data.tensor(DType::kFloat32, {5, 2, 4});
  const auto error = [&](const std::function<void(ForwardArgs&)>& change) {
    ForwardArgs changed = args;
    change(changed);
    return message_of([&] { plan->forward(context, changed, memory); });
  };
  EXPECT_NE(error([](ForwardArgs& a) { a.time = 6; }).find("6 time steps"), std::string::npos);
  EXPECT_NE(error([](ForwardArgs& a) { a.rows = 3; }).find("3 rows"), std::string::npos);
  EXPECT_NE(error([](ForwardArgs& a) { a.x = {}; }).find("x [5, 2, 3]"), std::string::npos);
  EXPECT_NE(error([&](ForwardArgs& a) {
              a.h0 = data.tensor(DType::kFloat32, {1, 2, 5});
            }).find("[1, 2, 5]"),
            std::string::npos);
  EXPECT_NE(error([&](ForwardArgs& a) {
              a.resets = data.tensor(DType::kInt32, {5, 2});
            }).find("planned without"),
            std::string::npos);
  EXPECT_NE(error([&](ForwardArgs& a) {
              a.y = data.tensor(DType::kInt32, {5, 2, 4});
            }).find("int32"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              plan->backward(context, {args, {}, {}, {}, {}, {}, {}, {}}, memory);
            }).find("training"),
            std::string::npos);
  EXPECT_NE(message_of([&] { plan->pack(context, {}, memory); }).find("0 sets"), std::string::npos);
  LayerWeights weights{data.tensor(DType::kFloat32, {16, 3}),
                       data.tensor(DType::kFloat32, {16, 4}),
                       data.tensor(DType::kFloat32, {16}),
                       data.tensor(DType::kFloat32, {16}),
                       {},
                       data.tensor(DType::kFloat32, {3, 4})};
  EXPECT_NE(message_of([&] { plan->pack(context, {weights}, memory); }).find("no peepholes"),
            std::string::npos);
  EXPECT_NE(message_of([&] { plan->forward(context, args, {}); }).find("bytes"), std::string::npos);
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
