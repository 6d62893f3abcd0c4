#include "io/formats/tensorflow/tensorflow_checkpoint.h"

#include <fmt/format.h>

#include <chrono>
#include <map>

#include "io/formats/tensorflow/object_graph.h"
#include "io/formats/tensorflow/sorted_table.h"
#include "io/formats/tensorflow/tensor_bundle_writer.h"
#include "io/formats/tensorflow/tensor_slice.h"
#include "model_fixtures.h"

namespace sluice::io::formats {
namespace {

using namespace std::string_literals;

std::vector<std::string> names_of(const TensorflowCheckpoint& checkpoint) {
  std::vector<std::string> names;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) names.push_back(tensor.name);
  return names;
}

/// Tensors that make_tensorflow.py saves in V1 and V2 alike.
void expect_variables(const TensorflowCheckpoint& checkpoint) {
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt32, DType::kInt64}) {
    SCOPED_TRACE(base::name_of(dtype));
    const HostTensor tensor = checkpoint.read(base::name_of(dtype));
    EXPECT_EQ(tensor.dtype, dtype);
    expect_counting(tensor, {2, 3});
  }
  expect_counting(checkpoint.read("scalar"), {});
  expect_counting(checkpoint.read("none"), {0, 4});
  for (const auto& [name, shape] : {std::pair("part", Shape{5, 3}), {"corner", Shape{2, 140}}}) {
    EXPECT_TRUE(checkpoint.find(name)->is_partitioned);
    expect_counting(checkpoint.read(name), shape);
  }
  EXPECT_FALSE(checkpoint.find("flag")->type->dtype);
  expect_refusal(ErrorCode::kUnsupported, "DT_BOOL", [&] { checkpoint.read("flag"); });
  expect_refusal(ErrorCode::kNotFound, "did you mean 'scalar'", [&] { checkpoint.read("scaler"); });
}

TEST(TensorflowCheckpoint, ReadsV1) {
  const auto checkpoint = TensorflowCheckpoint::open(fixture_path("tensorflow/v1"));
  EXPECT_TRUE(checkpoint.is_v1());
  expect_variables(checkpoint);
}

TEST(TensorflowCheckpoint, ReadsBundlesByPrefixAndByIndex) {
  for (const char* name : {"tensorflow/v2", "tensorflow/v2.index"}) {
    const auto checkpoint = TensorflowCheckpoint::open(fixture_path(name));
    EXPECT_FALSE(checkpoint.is_v1());
    expect_variables(checkpoint);
    expect_counting(checkpoint.read("bfloat16"), {2, 3});
    EXPECT_EQ(checkpoint.tensors().size(), 11u);
  }
}

TEST(TensorflowCheckpoint, ReadsSeveralDataFiles) {
  const auto checkpoint = TensorflowCheckpoint::open(fixture_path("tensorflow/shards"));
  expect_counting(checkpoint.read("on_0"), {3});
  expect_counting(checkpoint.read("on_1"), {3});
}

TEST(TensorflowCheckpoint, NamesVariablesByTheObjectGraph) {
  const auto checkpoint = TensorflowCheckpoint::open(fixture_path("tensorflow/objects"));
  const std::vector<std::string> strings = checkpoint.read_strings(kObjectGraphKey);
  ASSERT_EQ(strings.size(), 1u);
  const ObjectGraph graph = read_object_graph(strings[0], "objects");
  const std::string key = "model/encoder/kernel"s + std::string(kVariableValueSuffix);
  EXPECT_EQ(graph.full_names().at(key), "cell/kernel");
  expect_counting(checkpoint.read(key), {2, 3});
  EXPECT_EQ(read_object_graph(write_object_graph(graph), "again").full_names(), graph.full_names());
  const auto saved =
      TensorflowCheckpoint::open(fixture_path("tensorflow/saved_model/variables/variables"));
  EXPECT_EQ(saved.find("kernel"s + std::string(kVariableValueSuffix))->sizes,
            (std::vector<std::int64_t>{2, 3}));
}

TEST(TensorflowCheckpoint, BundlesReadBackAsTheyWereWritten) {
  const TemporaryFolder folder;
  const std::vector<float> floats{1, 2, 3, 4, 5, 6};
  TensorBundleWriter writer;
  const auto bytes = std::as_bytes(std::span(floats));
  writer.add("z", DType::kFloat32, {2, 3}, bytes);
  writer.add("a/b", DType::kInt8, {24}, bytes);
  writer.add("none", DType::kFloat64, {0}, bytes.first(0));
  writer.add_string("text", "some text");
  writer.add_string("empty", "");
  expect_refusal(ErrorCode::kInvalidArgument, "twice",
                 [&] { writer.add("z", DType::kInt8, {24}, bytes); });
  expect_refusal(ErrorCode::kInvalidArgument, "24 bytes of data instead of 2",
                 [&] { writer.add("y", DType::kInt8, {2}, bytes); });
  writer.write(folder / "x.ckpt");
  const auto checkpoint = TensorflowCheckpoint::open(folder / "x.ckpt");
  EXPECT_EQ(names_of(checkpoint), (std::vector<std::string>{"a/b", "empty", "none", "text", "z"}));
  EXPECT_EQ(checkpoint.read("z").data, std::vector<std::byte>(bytes.begin(), bytes.end()));
  EXPECT_EQ(checkpoint.read("a/b").shape, Shape{24});
  EXPECT_EQ(checkpoint.read_strings("text").at(0), "some text");
  EXPECT_EQ(checkpoint.read_strings("empty").at(0), "");
}

TEST(TensorflowCheckpoint, PathsAreObjects) {
  const ObjectGraph graph = object_graph_of({"encoder/kernel", "encoder/bias", "scale"});
  ASSERT_EQ(graph.objects.size(), 5u);
  EXPECT_EQ(graph.objects[0].children.size(), 2u);
  EXPECT_EQ(graph.full_names().at("encoder/bias" + std::string(kVariableValueSuffix)),
            "encoder/bias");
}

TEST(TensorflowCheckpoint, DamagedDataIsRefused) {
  const TemporaryFolder folder;
  for (const char* file : {"v2.index", "v2.data-00000-of-00001"}) {
    std::filesystem::copy(fixture_path("tensorflow/"s + file), folder / file);
  }
  const auto data = folder / "v2.data-00000-of-00001";
  std::string bytes = bytes_of_file(data);
  for (char& byte : bytes) byte = static_cast<char>(byte ^ 1);
  write_bytes(data, bytes);
  const auto checkpoint = TensorflowCheckpoint::open(folder / "v2");
  expect_refusal(ErrorCode::kFormat, "checksum", [&] { checkpoint.read("float32"); });
  expect_refusal(ErrorCode::kFormat, "checksum", [&] { checkpoint.read("part"); });
  std::filesystem::resize_file(data, 10);
  expect_refusal(ErrorCode::kFormat, "cut off", [&] { checkpoint.read("scalar"); });
  std::filesystem::remove(data);
  EXPECT_EQ(error_of([&] { checkpoint.read("scalar"); }).code(), ErrorCode::kNotFound);
  expect_refusal(ErrorCode::kNotFound, "neither",
                 [&] { TensorflowCheckpoint::open(folder / "v3"); });
  expect_refusal(ErrorCode::kFormat, "sorted table",
                 [&] { TensorflowCheckpoint::open(fixture_path("tensorflow/frozen.pb")); });
}

/// A bundle with this header and one entry "v", whose data is 24 bytes.
void open_bundle(const std::string& header, const std::string& entry) {
  SortedTableWriter table;
  table.add("", header);
  table.add("v", entry);
  const std::string index = table.finish(), data(24, 'd');
  const auto checkpoint = TensorflowCheckpoint::open(
      ByteSource(index, "index"), [&](auto, auto) { return ByteSource(data, "data"); });
  const AllocationWatch watch;
  try {
    checkpoint.read("v");
  } catch (const Error&) {
    EXPECT_LE(watch.peak(), 65536u);
    throw;
  }
}

std::string shape(std::initializer_list<std::uint64_t> sizes) {
  std::string bytes;
  for (const std::uint64_t size : sizes) bytes += field(2, field(1, size));
  return field(2, bytes);
}

TEST(TensorflowCheckpoint, EntriesThatLieAreRefused) {
  const std::string header = field(1, 1), type = field(1, 1);
  const auto refused = [&](const std::string& entry, const char* says) {
    expect_refusal(ErrorCode::kFormat, says, [&] { open_bundle(header, entry); });
  };
  refused(type + shape({6}) + field(5, 24), "checksum");  // all else is well
  refused(type + shape({7}) + field(5, 24), "24 bytes of data, but 7 elements");
  refused(type + shape({1ull << 62}) + field(5, 24), "overflows 64 bits");
  refused(type + shape({1ull << 32, 1ull << 32}) + field(5, 0), "overflows 64 bits");
  refused(type + shape({~0ull}) + field(5, 24), "variable 'v' has an axis of the negative size");
  refused(type + shape({1ull << 40}) + field(5, 4ull << 40), "cut off");
  refused(type + shape({6}) + field(4, 8) + field(5, 24), "cut off");
  refused(type + shape({6}) + field(4, ~0ull) + field(5, 24), "lies at bytes -1");
  refused(type + shape({6}) + field(3, 1) + field(5, 24), "data file 1 of 1");
  const auto slice = [](std::uint64_t start, std::uint64_t length) {
    return field(7, field(1, field(1, start) + field(2, length)));
  };
  refused(type + shape({6}) + slice(0, 3), "do not cover");
  refused(type + shape({6}) + slice(0, 7), "slice of 7 from 0 on");
  refused(type + shape({6}) + slice(7, 0), "slice of 0 from 7 on");
  refused(type + shape({6}) + field(7, ""), "has 1 axes, but a slice of it has 0");
  refused(type + shape({6}) + slice(0, 3) + slice(3, 3), "lacks one of its slices");
  const std::string good = type + shape({6}) + field(5, 24);
  expect_refusal(ErrorCode::kFormat, "0 data files", [&] { open_bundle(field(1, 0), good); });
  expect_refusal(ErrorCode::kUnsupported, "big-endian",
                 [&] { open_bundle(header + field(2, 1), good); });
  expect_refusal(ErrorCode::kUnsupported, "version 9",
                 [&] { open_bundle(header + field(3, field(2, 9)), good); });
  expect_refusal(ErrorCode::kUnsupported, "element type 99",
                 [&] { open_bundle(header, field(1, 99) + shape({6}) + field(5, 24)); });
}

/// Variables that share their data would be more than the file holds.
TEST(TensorflowCheckpoint, OverlappingDataIsRefused) {
  SortedTableWriter table;
  table.add("", field(1, 1));
  for (const char* name : {"a", "b"}) table.add(name, field(1, 1) + shape({6}) + field(5, 24));
  const std::string index = table.finish();
  expect_refusal(ErrorCode::kFormat, "within the data of 'a'", [&] {
    TensorflowCheckpoint::open(ByteSource(index, "index"),
                               [&](auto, auto) { return ByteSource(index, "data"); });
  });
}

TEST(TensorflowCheckpoint, SlicesMustNotOverlap) {
  HostTensor tensor = HostTensor::make(DType::kUInt8, {2, 3});
  const std::vector<std::byte> data(4);
  SliceJoiner joiner(tensor, "v");
  joiner.add({{{0, 2}, {0, 2}}}, data);
  expect_refusal(ErrorCode::kFormat, "overlap", [&] { joiner.add({{{0, 2}, {1, 2}}}, data); });
}

/// Each slice is looked up in a block that holds them all; walking it every time would take
/// minutes.
TEST(TensorflowCheckpoint, ManySlicesOfV1AreReadInTime) {
  constexpr std::uint64_t kSlices = 20'000;
  std::string saved = field(1, std::string("v")) + shape({kSlices}) + field(3, 1);
  std::map<std::string, std::string> entries;
  for (std::uint64_t i = 0; i < kSlices; ++i) {
    saved += field(4, field(1, field(1, i) + field(2, 1)));
    const std::string values = field(5, std::string(4, static_cast<char>(i)));
    entries[tensor_slice_key("v", {{{static_cast<std::int64_t>(i), 1}}})] =
        field(2, field(3, values));
  }
  SortedTableWriter table;
  table.add("", field(1, field(1, saved)));
  for (const auto& [key, value] : entries) table.add(key, value);
  const std::string bytes = table.finish();
  const auto begin = std::chrono::steady_clock::now();
  const auto checkpoint = TensorflowCheckpoint::open(ByteSource(bytes, "v1"), {});
  EXPECT_EQ(std::to_integer<int>(checkpoint.read("v").data.at(4 * 77)), 77);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

/// The densest index: many small entries.
TEST(TensorflowCheckpoint, CrowdedFilesStayWithinTheBound) {
  SortedTableWriter table;
  table.add("", field(1, 1));
  for (int i = 0; i < 20'000; ++i) {
    table.add(fmt::format("{:05}", i), field(1, 1) + field(2, field(2, "")));
  }
  const std::string index = table.finish();
  const AllocationWatch watch;
  const auto checkpoint = TensorflowCheckpoint::open(
      ByteSource(index, "index"), [&](auto, auto) { return ByteSource(index, "data"); });
  EXPECT_EQ(checkpoint.tensors().size(), 20'000u);
  EXPECT_LE(watch.peak(), 64 * index.size());
}

}  // namespace
}  // namespace sluice::io::formats
