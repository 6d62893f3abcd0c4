#include "io/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "temporary_folder.h"

namespace sluice::io {
namespace {

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + size);
  return bytes;
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const TemporaryFolder folder;
  struct Case {
    DType dtype;
    Shape shape;
  };
  const std::vector<Case> cases{
      {DType::kUInt8, {7}},    {DType::kFloat32, {3, 5}},
      {DType::kFloat64, {}},   {DType::kBFloat16, {1, 3}},
      {DType::kFloat16, {5}},  {DType::kInt64, {2, 2, 2}},
      {DType::kInt32, {0, 4}}, {DType::kFloat32, {1, 1, 1, 1, 2, 1}},
  };
  std::vector<std::vector<std::byte>> data;
  SafetensorsWriter writer;
  for (const Case& c : cases) {
    data.push_back(
        pattern(static_cast<std::size_t>(c.shape.element_count()) * base::size_of(c.dtype)));
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    writer.add(fmt::format("t{}", i), cases[i].dtype, cases[i].shape, data[i]);
  }
  writer.set_metadata("quote", "a \"quoted\" \\ line\nand 中文");
  writer.write(folder / "a.safetensors");

  const SafetensorsFile file = SafetensorsFile::open(folder / "a.safetensors");
  ASSERT_EQ(file.tensors().size(), cases.size());
  EXPECT_EQ(file.metadata().at("quote"), "a \"quoted\" \\ line\nand 中文");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string name = fmt::format("t{}", i);
    const HostTensor tensor = file.read(name);
    EXPECT_EQ(tensor.dtype, cases[i].dtype);
    EXPECT_EQ(tensor.shape, cases[i].shape);
    EXPECT_EQ(tensor.data, data[i]);
    std::vector<std::byte> again(data[i].size(), std::byte{0xff});
    file.read(name, again);
    EXPECT_EQ(again, data[i]);
    // Aligned in the file, for those who map it.
    EXPECT_EQ(file.find(name)->begin % base::size_of(cases[i].dtype), 0u);
  }
}

/// Reads the file by hand, with nothing of src/io, as another program would.
TEST(Safetensors, WritesWhatTheFormatSays) {
  const TemporaryFolder folder;
  const std::vector<float> a{1.5f, -2.0f, 3.25f};
  const std::vector<std::uint8_t> b{9, 8, 7};
  SafetensorsWriter writer;
  writer.add("b", DType::kUInt8, {3}, std::as_bytes(std::span(b)));
  writer.add("a", DType::kFloat32, {1, 3}, std::as_bytes(std::span(a)));
  writer.set_metadata("k", "v");
  writer.write(folder / "f");
  writer.write(folder / "g");

  const std::string text = read_file(folder / "f", 10'000);
  EXPECT_EQ(text, read_file(folder / "g", 10'000));
  std::uint64_t length = 0;
  ASSERT_GT(text.size(), 8u);
  std::memcpy(&length, text.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  ASSERT_EQ(text.size(), 8 + length + 15);
  EXPECT_EQ(text[8], '{');
  const auto header = nlohmann::json::parse(text.substr(8, length));
  EXPECT_EQ(header, nlohmann::json::parse(R"({
      "__metadata__": {"k": "v"},
      "a": {"dtype": "F32", "shape": [1, 3], "data_offsets": [0, 12]},
      "b": {"dtype": "U8", "shape": [3], "data_offsets": [12, 15]}})"));
  EXPECT_EQ(std::memcmp(text.data() + 8 + length, a.data(), 12), 0);
  EXPECT_EQ(std::memcmp(text.data() + 8 + length + 12, b.data(), 3), 0);
}

TEST(Safetensors, AnEmptyFileOfTheFormatIsValid) {
  const TemporaryFolder folder;
  SafetensorsWriter().write(folder / "empty");
  EXPECT_TRUE(SafetensorsFile::open(folder / "empty").tensors().empty());
}

TEST(Safetensors, AccessNamesWhatIsWrong) {
  const TemporaryFolder folder;
  const auto data = pattern(12);
  SafetensorsWriter writer;
  writer.add("encoder.weight_ih", DType::kFloat32, {3}, data);
  writer.write(folder / "a.safetensors");
  const SafetensorsFile file = SafetensorsFile::open(folder / "a.safetensors");

  Error error = error_of([&] { file.read("encoder.wieght_ih"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_NE(std::string(error.what()).find("a.safetensors"), std::string::npos);
  EXPECT_NE(std::string(error.what()).find("did you mean 'encoder.weight_ih'?"), std::string::npos);
  std::vector<std::byte> small(11);
  error = error_of([&] { file.read("encoder.weight_ih", small); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("12 bytes"), std::string::npos);
  EXPECT_NE(std::string(error.what()).find("buffer of 11"), std::string::npos);
}

TEST(Safetensors, WriterRefusesWhatNoReaderCouldUse) {
  const TemporaryFolder folder;
  const auto data = pattern(12);
  SafetensorsWriter writer;
  writer.add("a", DType::kFloat32, {3}, data);
  EXPECT_EQ(error_of([&] { writer.add("a", DType::kFloat32, {3}, data); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { writer.add("b", DType::kFloat32, {4}, data); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { writer.add("__metadata__", DType::kFloat32, {3}, data); }).code(),
            ErrorCode::kInvalidArgument);
  writer.set_metadata("k", "\xff\xfe");
  EXPECT_EQ(error_of([&] { writer.write(folder / "f"); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(folder.count(), 0);
}

}  // namespace
}  // namespace sluice::io
