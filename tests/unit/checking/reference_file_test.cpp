#include "checking/reference_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "unit/checking/layers.h"
#include "unit/support/message_of.h"
#include "unit/support/temporary_folder.h"

namespace sluice::checking {
namespace {

using testing::message_of;

class ReferenceFileTest : public ::testing::Test {
 protected:
  ReferenceFileTest() : seed_(fresh_seed()), engine_(seed_) {
    RecordProperty("seed", std::to_string(seed_));
  }
  std::filesystem::path file() const { return folder_ / "reference.safetensors"; }
  /// A file with one tensor.
  template <typename T>
  void write(const std::string& name, const base::Shape& shape, const std::vector<T>& values) {
    io::SafetensorsWriter writer;
    writer.add(name, base::dtype_of<T>(), shape, std::as_bytes(std::span(values)));
    writer.write(file());
  }
  /// The layer of a model, of two inputs with 3 and 2 steps of 2 units.
  static LayerValues layer() {
    LayerValues layer;
    layer.name = "stack.l1";
    layer.steps = 3;
    layer.rows = 2;
    layer.width = 2;
    layer.lengths = {3, 2};
    layer.values.resize(12);
    return layer;
  }
  void read(const std::vector<std::string>& layers) const {
    ReferenceFile reference(file(), 2);
    for (const std::string& name : layers) {
      LayerValues like = layer();
      like.name = name;
      if (reference.has(name)) reference.read(like, std::vector<std::int64_t>{0, 1});
    }
    reference.finish(layers);
  }

  std::uint64_t seed_;
  std::mt19937_64 engine_;
  testing::TemporaryFolder folder_;
};

TEST_F(ReferenceFileTest, GivesBackWhatWasRecordedInOtherBatches) {
  SCOPED_TRACE(seed_);
  const LayerValues all = random_layer(engine_, 6, 5, 3);
  ReferenceWriter writer(5);
  // Written one by one, in another order than they are read.
  for (const std::int64_t row : {4, 1, 0, 3, 2}) {
    LayerValues one = all;
    one.rows = 1;
    one.lengths = {all.lengths[static_cast<std::size_t>(row)]};
    one.values.clear();
    for (std::int64_t step = 0; step < all.steps; ++step) {
      for (std::int64_t unit = 0; unit < all.width; ++unit) {
        one.values.push_back(all.at(step, row, unit));
      }
    }
    writer.add(one, {{row}});
  }
  writer.write(file(), "bfloat16");
  ReferenceFile reference(file(), 5);
  LayerValues like = all;
  std::ranges::fill(like.values, 7.0f);
  const LayerValues found = reference.read(like, in_order(all));
  for (std::int64_t row = 0; row < all.rows; ++row) {
    for (std::int64_t step = 0; step < all.lengths[static_cast<std::size_t>(row)]; ++step) {
      for (std::int64_t unit = 0; unit < all.width; ++unit) {
        EXPECT_EQ(found.at(step, row, unit), all.at(step, row, unit));
      }
    }
  }
  const std::vector<std::string> names{all.name};
  reference.finish(names);
  EXPECT_EQ(reference.rounding_of(all.name).sums, rounding_of(base::DType::kBFloat16).sums);
}

// Attention is as wide as the longest source of its batch.
TEST_F(ReferenceFileTest, GivesBackBatchesOfSeveralWidths) {
  SCOPED_TRACE(seed_);
  std::vector<LayerValues> batches;
  for (const std::int64_t width : {3, 5, 1}) {
    batches.push_back(random_layer(engine_, 2 + width % 3, 2, width));
  }
  const std::vector<std::vector<std::int64_t>> inputs{{4, 1}, {0, 3}, {2, 5}};
  ReferenceWriter writer(6);
  for (std::size_t i = 0; i < batches.size(); ++i) writer.add(batches[i], inputs[i]);
  writer.write(file(), "float32");
  ReferenceFile reference(file(), 6);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const LayerValues& batch = batches[i];
    LayerValues like = batch;
    std::ranges::fill(like.values, 7.0f);
    const LayerValues found = reference.read(like, inputs[i]);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      for (std::int64_t step = 0; step < batch.lengths[static_cast<std::size_t>(row)]; ++step) {
        for (std::int64_t unit = 0; unit < batch.width; ++unit) {
          EXPECT_EQ(found.at(step, row, unit), batch.at(step, row, unit));
        }
      }
    }
  }
  reference.finish(std::vector<std::string>{batches[0].name});
}

TEST_F(ReferenceFileTest, ReadsAnyNumbersWithAxesOfOneLeftOut) {
  const std::vector<std::int64_t> first{0};
  LayerValues like;
  like.name = "output";
  like.steps = 2;
  like.rows = 1;
  like.width = 3;
  like.lengths = {2};
  like.values.resize(6);
  const auto expect_read = [&](const base::Shape& shape, auto number) {
    using T = decltype(number);
    std::vector<T> values;
    for (int i = 0; i < 6; ++i) values.push_back(static_cast<T>(static_cast<float>(i)));
    write("output", shape, values);
    ReferenceFile reference(file(), 1);
    const LayerValues found = reference.read(like, first);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(found.values[static_cast<std::size_t>(i)], i);
  };
  expect_read({2, 1, 3}, 0.0f);
  expect_read({2, 3}, 0.0);
  expect_read({2, 3}, base::Float16());
  expect_read({2, 1, 3}, base::BFloat16());
  like.integers = true;
  expect_read({2, 3}, std::int64_t{0});
}

TEST_F(ReferenceFileTest, RefusesIntegersForNumbersOfALayer) {
  const auto expect_refused = [&](auto number, const char* dtype) {
    write("stack.l1", {3, 2, 2}, std::vector<decltype(number)>(12));
    EXPECT_EQ(message_of([&] { read({"stack.l1"}); }),
              "'" + file().native() + "': tensor 'stack.l1' holds integers (" + dtype +
                  "); save it as float32, float64, float16 or bfloat16");
  };
  expect_refused(std::int64_t{0}, "I64");
  expect_refused(std::int32_t{0}, "I32");
  expect_refused(std::uint8_t{0}, "U8");
  expect_refused(std::int8_t{0}, "I8");
}

TEST_F(ReferenceFileTest, RefusesOtherShapesInOneSentence) {
  const std::vector<float> numbers(24);
  write("stack.l1", {2, 3, 2}, std::vector<float>(12));
  EXPECT_EQ(message_of([&] { read({"stack.l1"}); }),
            "'" + file().native() +
                "': tensor 'stack.l1' is [2, 3, 2], but [steps, inputs, units] of this run is "
                "[3, 2, 2]; swap its first two axes");
  write("stack.l1", {3, 2, 4}, numbers);
  EXPECT_EQ(message_of([&] { read({"stack.l1"}); }),
            "'" + file().native() +
                "': tensor 'stack.l1' is [3, 2, 4], but [steps, inputs, units] of this run is "
                "[3, 2, 2]");
  // More steps than the longest input has, and fewer.
  write("stack.l1", {6, 2, 2}, numbers);
  EXPECT_NE(message_of([&] { read({"stack.l1"}); }).find("is [6, 2, 2], but"), std::string::npos);
  write("stack.l1", {2, 2, 2}, std::vector<float>(8));
  EXPECT_NE(message_of([&] { read({"stack.l1"}); }).find("is [2, 2, 2], but"), std::string::npos);
}

TEST_F(ReferenceFileTest, RefusesTensorsThatAreNoLayer) {
  write("stack.l2", {3, 2, 2}, std::vector<float>(12));
  EXPECT_EQ(message_of([&] {
              read({"stack.l1", "stack.l0"});
            }),
            "'" + file().native() +
                "': tensor 'stack.l2' is no layer of this model, whose layers are stack.l1, "
                "stack.l0; did you mean 'stack.l1'?");
  write("input.source", {3, 2}, std::vector<std::int32_t>(6));
  EXPECT_EQ(message_of([&] { read({"stack.l1"}); }),
            "'" + file().native() + "' has no tensor of a layer; this model's layers are stack.l1");
}

TEST_F(ReferenceFileTest, RefusesTruncatedFiles) {
  write("stack.l1", {3, 2, 2}, std::vector<float>(12));
  const auto size = std::filesystem::file_size(file());
  for (const std::uintmax_t left : {size - 1, size - 40, std::uintmax_t{9}, std::uintmax_t{3}}) {
    std::filesystem::resize_file(file(), left);
    const std::string message = message_of([&] { ReferenceFile(file(), 2); });
    EXPECT_TRUE(message.starts_with("'" + file().native() + "': ")) << message;
  }
}

TEST_F(ReferenceFileTest, RefusesAnUnknownPrecisionInOneSentence) {
  const LayerValues all = random_layer(engine_, 2, 2, 2);
  ReferenceWriter writer(2);
  writer.add(all, in_order(all));
  writer.write(file(), "fp31");
  EXPECT_EQ(message_of([&] { ReferenceFile(file(), 2); }),
            "'" + file().native() +
                "': sluice.precision is 'fp31', but must be float32, tf32, bfloat16, float16 or "
                "int8");
}

TEST_F(ReferenceFileTest, RefusesRecordingsOfOtherInputs) {
  data::Batch batch;
  batch.rows = 2;
  batch.source_time = 3;
  batch.source = {5, 6, 7, 8, 9, 0};
  batch.source_lengths = {3, 2};
  batch.global_row = {1, 0};
  ReferenceWriter writer(2);
  for (const LayerValues& input : inputs_of(batch)) writer.add(input, batch.global_row);
  writer.write(file(), "float32");
  ReferenceFile reference(file(), 2);
  EXPECT_EQ(message_of([&] { reference.require_inputs(batch); }), "");
  // Padding is not looked at.
  batch.source[5] = 3;
  EXPECT_EQ(message_of([&] { reference.require_inputs(batch); }), "");
  batch.source[2] = 4;
  EXPECT_EQ(message_of([&] { reference.require_inputs(batch); }),
            "'" + file().native() +
                "' was recorded with other inputs: 'input.source' is 7 at step 1 of row 1, but 4 "
                "here");
}

TEST_F(ReferenceFileTest, CountsTheInputsOfARecordingOfOthers) {
  data::Batch batch;
  batch.rows = 2;
  batch.source_time = 3;
  batch.source = {5, 6, 7, 8, 9, 0};
  batch.source_lengths = {3, 2};
  batch.global_row = {0, 1};
  const auto refused = [&] {
    ReferenceFile reference(file(), 2);
    return message_of([&] { reference.require_inputs(batch); });
  };
  const std::string recorded = "'" + file().native() + "' was recorded with ";
  write("input.source", {5, 3}, std::vector<std::int32_t>(15));
  EXPECT_EQ(refused(), recorded + "3 inputs, but this run has 2 inputs; give the same inputs");
  write("input.source", {2, 2}, std::vector<std::int32_t>(4));
  EXPECT_EQ(refused(), recorded +
                           "inputs of up to 2 steps, but this run has one of 3 steps; give the "
                           "same inputs");
  write("input.source_lengths", {1}, std::vector<std::int32_t>(1));
  EXPECT_EQ(refused(), recorded + "1 input, but this run has 2 inputs; give the same inputs");
}

}  // namespace
}  // namespace sluice::checking
