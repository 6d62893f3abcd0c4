#include "interchange/canonical_cell.h"

#include <gtest/gtest.h>

#include "interchange/evaluate/evaluate.h"
#include "unit/interchange/random_cell.h"
#include "unit/support/message_of.h"

namespace sluice::interchange {
namespace {

using testing::message_of;

constexpr int kCells = 40;
// Parameters are float32, and folding rounds them.
constexpr double kTolerance = 2e-6;

/// A cell of Sluice with random sizes and options.
CanonicalCell random_canonical(RandomNumbers& random, Convention convention) {
  using kernels::recurrent::CellType;
  CanonicalCell cell;
  const auto count = static_cast<std::int64_t>(kernels::recurrent::kCellTypes.size());
  cell.type =
      kernels::recurrent::kCellTypes[static_cast<std::size_t>(random.between(0, count - 1))];
  if (convention == Convention::kTensorflow && cell.type == CellType::kGru) {
    cell.type = CellType::kGruResetBefore;
  }
  if (convention == Convention::kTensorflowCudnnGru) cell.type = CellType::kGru;
  cell.input = random.between(1, 7);
  cell.hidden = random.between(1, 9);
  const bool is_lstm = cell.type == CellType::kLstm;
  const bool projects = is_lstm && random.coin() && convention != Convention::kKeras &&
                        convention != Convention::kOnnx;
  cell.output = projects ? random.between(1, 5) : cell.hidden;
  cell.hard_sigmoid = cell.gates() > 1 && random.coin();
  const auto numbers = [&](std::int64_t size) {
    std::vector<float> result(static_cast<std::size_t>(size));
    for (float& value : result) value = static_cast<float>(random.number());
    return result;
  };
  const std::int64_t rows = cell.gates() * cell.hidden;
  cell.weight_ih = numbers(rows * cell.input);
  cell.weight_hh = numbers(rows * cell.output);
  cell.bias_ih = numbers(rows);
  cell.bias_hh = numbers(rows);
  if (projects) cell.weight_hr = numbers(cell.output * cell.hidden);
  if (is_lstm && random.coin() && convention != Convention::kKeras) {
    cell.weight_peephole = numbers(3 * cell.hidden);
  }
  return cell;
}

class CanonicalCells : public ::testing::TestWithParam<Convention> {};

/// A cell in the layout of another program computes the same by that program's equations, and
/// comes back as the same cell.
TEST_P(CanonicalCells, GoThereAndBack) {
  RandomNumbers random(static_cast<std::uint64_t>(GetParam()) + 1);
  for (int i = 0; i < kCells; ++i) {
    const CanonicalCell cell = random_canonical(random, GetParam());
    const SourceModel there = chain_of(from_canonical(cell, GetParam(), "layer"));
    const SourceModel torch = chain_of(from_canonical(cell, Convention::kTorch, "layer"));
    const Sequence x = random.frames(6, cell.input);
    EXPECT_LT(largest_difference(evaluate(there, x)[0].value, evaluate(torch, x)[0].value),
              kTolerance);
    const SourceModel back = in_torch_convention(there);
    EXPECT_LT(largest_difference(evaluate(back, x)[0].value, evaluate(torch, x)[0].value),
              kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Conventions, CanonicalCells,
                         ::testing::Values(Convention::kTorch, Convention::kKeras,
                                           Convention::kTensorflow, Convention::kTensorflowCudnnGru,
                                           Convention::kOnnx),
                         [](const auto& tested) {
                           std::string name;
                           for (const char c : name_of(tested.param)) {
                             if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
                           }
                           return name;
                         });

TEST(CanonicalCell, FoldsSlopeAndShiftOfAHardSigmoid) {
  RandomNumbers random(7);
  for (const CellKind kind : {CellKind::kLstm, CellKind::kGru}) {
    SourceCell cell;
    cell.kind = kind;
    cell.input = 3;
    cell.hidden = cell.output = 4;
    cell.gate = {"hard_sigmoid", 1.0 / 6, 0.55};
    cell.forget_bias = kind == CellKind::kLstm ? 1 : 0;
    const std::int64_t rows = kind == CellKind::kLstm ? 16 : 12;
    cell.tensors["weight_ih"] = random.tensor({rows, 3});
    cell.tensors["weight_hh"] = random.tensor({rows, 4});
    cell.tensors["bias_ih"] = random.tensor({rows});
    if (kind == CellKind::kLstm) cell.tensors["weight_peephole"] = random.tensor({3, 4});
    const SourceModel model = chain_of(cell);
    const SourceModel folded = in_torch_convention(model);
    const Sequence x = random.frames(5, 3);
    EXPECT_LT(largest_difference(evaluate(folded, x)[0].value, evaluate(model, x)[0].value),
              kTolerance);
  }
}

TEST(CanonicalCell, ReadsArraysInAnyOrderOfGates) {
  RandomNumbers random(8);
  for (const std::string gates : {"ifog", "goif", "rzn", "nrz"}) {
    SourceCell cell;
    cell.convention = Convention::kArrays;
    cell.kind = gates.size() == 4 ? CellKind::kLstm : CellKind::kGru;
    cell.gates = gates;
    cell.input = 2;
    cell.hidden = cell.output = 3;
    cell.keeps_by_complement = gates == "nrz";
    const auto rows = static_cast<std::int64_t>(gates.size()) * 3;
    cell.tensors["weight_ih"] = random.tensor({rows, 2});
    cell.tensors["weight_hh"] = random.tensor({rows, 3});
    cell.tensors["bias_hh"] = random.tensor({rows});
    const SourceModel model = chain_of(cell);
    const Sequence x = random.frames(5, 2);
    EXPECT_LT(largest_difference(evaluate(in_torch_convention(model), x)[0].value,
                                 evaluate(model, x)[0].value),
              kTolerance)
        << gates;
  }
}

TEST(CanonicalCell, ReadsCellsOfPaddle) {
  RandomNumbers random(9);
  for (int i = 0; i < 8; ++i) {
    SourceCell cell;
    cell.convention = Convention::kPaddle;
    cell.kind = i % 2 == 0 ? CellKind::kLstm : CellKind::kGru;
    cell.input = random.between(1, 4);
    cell.hidden = cell.output = random.between(1, 5);
    cell.reset_after = false;
    cell.keeps_by_complement = i % 4 == 1;
    const bool is_lstm = cell.kind == CellKind::kLstm;
    const std::int64_t columns = (is_lstm ? 4 : 3) * cell.hidden;
    const bool peeps = is_lstm && i % 4 == 0;
    cell.tensors["input_weight"] = random.tensor({cell.input, columns});
    cell.tensors["weight"] = random.tensor({cell.hidden, columns});
    cell.tensors["bias"] = random.tensor({1, peeps ? 7 * cell.hidden : columns});
    if (i > 3) cell.tensors["input_bias"] = random.tensor({columns});
    const SourceModel model = chain_of(cell);
    const Sequence x = random.frames(5, cell.input);
    EXPECT_LT(largest_difference(evaluate(in_torch_convention(model), x)[0].value,
                                 evaluate(model, x)[0].value),
              kTolerance)
        << i;
  }
}

TEST(CanonicalCell, RefusesWhatSluiceLacksByItsName) {
  SourceCell cell;
  cell.input = cell.hidden = cell.output = 1;
  cell.candidate = {"softsign"};
  EXPECT_EQ(message_of([&] { to_canonical(cell, "lstm_1"); }),
            "lstm_1: the activation of the cell's input is 'softsign'; Sluice has tanh");
  cell.candidate = {"tanh"};
  EXPECT_EQ(message_of([&] { to_canonical(cell, "lstm_1"); }),
            "lstm_1 lacks the tensor 'weight_ih'");
  cell.tensors["weight_ih"] = io::HostTensor::make(base::DType::kFloat32, {3, 1});
  EXPECT_EQ(message_of([&] { to_canonical(cell, "lstm_1"); }),
            "lstm_1: 'weight_ih' has the shape [3, 1] instead of [4, 1]");
}

}  // namespace
}  // namespace sluice::interchange
