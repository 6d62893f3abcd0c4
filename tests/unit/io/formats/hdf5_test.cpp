#include "io/formats/hdf5/hdf5.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "fixture_files.h"
#include "io/formats/hdf5/hdf5_writer.h"
#include "unit/io/allocation_watch.h"
#include "unit/io/temporary_folder.h"

namespace sluice::io::formats {
namespace {

using nlohmann::json;

std::string bytes_of_file(const std::string& name) {
  return bytes_of_member("hdf5/hdf5.zip", name);
}

Hdf5File open(const std::string& bytes) { return Hdf5File::open(ByteSource(bytes, "fixture")); }

json json_of(const Hdf5Value& value) {
  json result{{"shape", value.sizes}};
  if (value.is_text()) {
    result["texts"] = std::get<std::vector<std::string>>(value.content);
    return result;
  }
  std::string data;
  for (const std::byte byte : std::get<HostTensor>(value.content).data) {
    data += fmt::format("{:02x}", std::to_integer<int>(byte));
  }
  result["data"] = data;
  return result;
}

class Hdf5Fixtures : public ::testing::TestWithParam<const char*> {};

TEST_P(Hdf5Fixtures, HaveTheContentThatH5pyReads) {
  const json all = json::parse(bytes_of_file("hdf5.json"));
  const std::string bytes = bytes_of_file(GetParam());
  Hdf5File file = open(bytes);
  std::size_t datasets = 0;
  for (const auto& [key, wanted] : all.at(GetParam()).items()) {
    SCOPED_TRACE(key);
    const std::size_t at = key.find('@');
    if (at == std::string::npos) {
      EXPECT_EQ(json_of(file.read(key)), wanted);
      EXPECT_EQ(file.describe(key).sizes, wanted.at("shape").get<std::vector<std::int64_t>>());
      ++datasets;
    } else {
      EXPECT_EQ(json_of(file.attribute(key.substr(0, at), key.substr(at + 1))), wanted);
    }
  }
  EXPECT_EQ(file.dataset_paths().size(), datasets);
}

INSTANTIATE_TEST_SUITE_P(All, Hdf5Fixtures,
                         ::testing::Values("oldest.h5", "newest.h5", "keras3.weights.h5",
                                           "keras2.h5"));

TEST(Hdf5File, ListsGroupsAndAttributes) {
  const std::string bytes = bytes_of_file("oldest.h5");
  Hdf5File file = open(bytes);
  EXPECT_EQ(file.children("group"), std::vector<std::string>{"below"});
  EXPECT_EQ(file.kind("/group/below"), Hdf5Kind::kGroup);
  EXPECT_EQ(file.kind("f4"), Hdf5Kind::kDataset);
  EXPECT_FALSE(file.has("group/none"));
  EXPECT_EQ(file.attribute_text("", "config"), R"({"units": 4})");
  EXPECT_EQ(file.attribute_texts("", "layer_names"), (std::vector<std::string>{"lstm", "dense_1"}));
  const std::string keras = bytes_of_file("keras2.h5");
  EXPECT_TRUE(
      open(keras).attribute_texts("model_weights/top_level_model_weights", "weight_names").empty());
  EXPECT_EQ(file.describe("big_f4").type_name, "float32");
  EXPECT_EQ(file.describe("bool").type_name, "bool");
  EXPECT_EQ(error_of([&] { file.read("missing"); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(error_of([&] { file.read("group"); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(error_of([&] { file.attribute("", "layer_name"); }).code(), ErrorCode::kNotFound);
}

TEST(Hdf5File, KeepsTheOrderOfCreation) {
  const std::string bytes = bytes_of_file("newest.h5");
  const std::vector<std::string> names = open(bytes).children("");
  ASSERT_EQ(names.size(), 10u);
  EXPECT_EQ(names.front(), "link9");
  EXPECT_EQ(names.back(), "link0");
}

TEST(Hdf5File, ReadsBFloat16AsKerasMarksIt) {
  const std::string bytes = bytes_of_file("bfloat16.weights.h5");
  Hdf5File file = open(bytes);
  int count = 0;
  for (const std::string& path : file.dataset_paths()) {
    if (file.describe(path).type_name != "bfloat16") continue;
    EXPECT_EQ(file.read_tensor(path).dtype, DType::kBFloat16);
    ++count;
  }
  EXPECT_EQ(count, 2);
}

TEST(Hdf5File, RefusesByName) {
  const std::string bytes = bytes_of_file("refused.h5");
  Hdf5File file = open(bytes);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"compound", "compound type"}, {"soft", "soft"}, {"lzf", "lzf"}, {"indexed", "HDF5 1.10"}};
  for (const auto& [path, says] : cases) {
    const Error error = error_of([&] { file.read(path); });
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  }
  EXPECT_EQ(file.read_tensor("one_chunk").values<std::int64_t>()[7], 7);
}

TEST(Hdf5File, ChecksumsAreCompared) {
  std::string bytes = bytes_of_file("newest.h5");
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  const Error error = error_of([&] { open(bytes); });
  EXPECT_NE(std::string(error.what()).find("checksum"), std::string::npos) << error.what();
}

/// Reads everything; errors are expected.
void read_all(const std::string& bytes) {
  try {
    Hdf5File file = open(bytes);
    for (const std::string& path : file.dataset_paths()) {
      try {
        file.read(path);
        for (const std::string& name : file.attribute_names(path)) file.attribute(path, name);
      } catch (const Error&) {
      }
    }
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kFormat || error.code() == ErrorCode::kUnsupported)
        << error.what();
  }
}

TEST(Hdf5File, DamagedFilesAreReadOrRefusedWithinTheBound) {
  std::mt19937_64 random(7);
  for (const char* name : {"oldest.h5", "newest.h5", "keras2.h5"}) {
    const std::string whole = bytes_of_file(name);
    for (int i = 0; i < 300; ++i) {
      std::string bytes = whole;
      for (int change = 0; change < 3; ++change) {
        const std::size_t at = random() % bytes.size();
        bytes[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
      }
      if (i % 10 == 0) bytes.resize(random() % bytes.size());
      const AllocationWatch watch;
      read_all(bytes);
      EXPECT_LE(watch.peak(), 160 * bytes.size() + (4 << 20));
    }
  }
}

TEST(Hdf5Writer, WritesWhatHdf5FileReads) {
  const TemporaryFolder folder;
  Hdf5Writer writer;
  std::vector<HostTensor> tensors;
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kInt64,
                            DType::kInt32, DType::kUInt8, DType::kInt8}) {
    HostTensor tensor = HostTensor::make(dtype, {3, 1});
    for (std::size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = std::byte(i % 64);
    tensors.push_back(std::move(tensor));
  }
  tensors.push_back(HostTensor::make(DType::kFloat32, {}));
  tensors.push_back(HostTensor::make(DType::kFloat32, {0, 2}));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    writer.add_dataset(fmt::format("group/vars/{}", i), tensors[i]);
  }
  for (int i = 0; i < 300; ++i) writer.add_group(fmt::format("many/layer_{}", i));
  const std::string config(100'000, 'c');
  const std::vector<std::string> names{"lstm", "dense_1", ""};
  writer.set_text("", "config", config);
  writer.set_text("group", "empty", "");
  writer.set_texts("group", "names", names);
  writer.set_integer("group/vars/0", "count", -3);
  writer.set_number("", "rate", 0.25);
  writer.write(folder / "a.h5");

  Hdf5File file = Hdf5File::open(folder / "a.h5");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const HostTensor read = file.read_tensor(fmt::format("group/vars/{}", i));
    EXPECT_EQ(read.dtype, tensors[i].dtype);
    EXPECT_EQ(read.shape, tensors[i].shape);
    EXPECT_EQ(read.data, tensors[i].data);
  }
  EXPECT_EQ(file.children("many").size(), 300u);
  EXPECT_EQ(file.attribute_text("", "config"), config);
  EXPECT_EQ(file.attribute_text("group", "empty"), "");
  EXPECT_EQ(file.attribute_texts("group", "names"), names);
  const Hdf5Value count = file.attribute("group/vars/0", "count");
  EXPECT_EQ(std::get<HostTensor>(count.content).values<std::int64_t>()[0], -3);
}

TEST(Hdf5Writer, RefusesWhatTheLayoutDoesNotHold) {
  Hdf5Writer writer;
  const HostTensor tensor = HostTensor::make(DType::kFloat32, {2});
  writer.add_dataset("a/b", tensor);
  const auto code_of = [](const auto& body) { return error_of(body).code(); };
  EXPECT_EQ(code_of([&] { writer.add_dataset("a/b", tensor); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { writer.add_dataset("a/b/c", tensor); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { writer.add_dataset("a", tensor); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { writer.set_integer("none", "i", 1); }), ErrorCode::kInvalidArgument);
  const HostTensor half = HostTensor::make(DType::kBFloat16, {2});
  EXPECT_EQ(code_of([&] { writer.add_dataset("half", half); }), ErrorCode::kUnsupported);
  const std::vector<std::string> names(5000, std::string(20, 'n'));
  EXPECT_EQ(code_of([&] { writer.set_texts("a", "names", names); }), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace sluice::io::formats
