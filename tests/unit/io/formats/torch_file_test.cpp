#include "io/formats/torch/torch_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fixture_files.h"
#include "io/formats/torch/torch_writer.h"
#include "io/formats/zip_writer.h"
#include "unit/io/temporary_folder.h"

namespace sluice::io::formats {
namespace {

using nlohmann::json;

std::filesystem::path path_of(const std::string& name) { return fixture_path("torch/" + name); }

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

json json_of(const TorchValue& value) {
  return std::visit(
      [](const auto& held) -> json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return nullptr;
        } else {
          return held;
        }
      },
      value.value);
}

class TorchFixtures : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchFixtures, HaveTheContentThatTorchWrote) {
  const json all = json::parse(bytes_of_file(path_of("torch.json")));
  const json& expected = all.at(GetParam());
  TorchFile file = TorchFile::open(path_of(GetParam()));
  EXPECT_EQ(file.tensors().size(), expected.at("tensors").size());
  for (const auto& [name, wanted] : expected.at("tensors").items()) {
    SCOPED_TRACE(name);
    ASSERT_NE(file.find(name), nullptr);
    EXPECT_EQ(file.find(name)->dtype_name, wanted.at("dtype").get<std::string>());
    const HostTensor tensor = file.read(name);
    const auto sizes = wanted.at("shape").get<std::vector<std::int64_t>>();
    EXPECT_EQ(tensor.shape, Shape(sizes));
    EXPECT_EQ(hexadecimal(tensor.data), wanted.at("data").get<std::string>());
  }
  for (const auto& [name, wanted] : expected.at("values").items()) {
    SCOPED_TRACE(name);
    const auto found = std::find_if(file.values().begin(), file.values().end(),
                                    [&](const TorchValue& value) { return value.name == name; });
    ASSERT_NE(found, file.values().end());
    EXPECT_EQ(json_of(*found), wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TorchFixtures,
                         ::testing::Values("checkpoint.pt", "checkpoint_legacy.pt", "module.pt",
                                           "module_legacy.pt", "script.pt"));

TEST(TorchFile, FormatsAreTold) {
  EXPECT_EQ(TorchFile::open(path_of("module.pt")).format(), TorchFormat::kZip);
  EXPECT_EQ(TorchFile::open(path_of("module_legacy.pt")).format(), TorchFormat::kLegacy);
  EXPECT_EQ(TorchFile::open(path_of("script.pt")).format(), TorchFormat::kTorchScript);
}

TEST(TorchFile, TensorsThatAreNotReadAreRefusedAlone) {
  TorchFile file = TorchFile::open(path_of("refused.pt"));
  EXPECT_EQ(file.read("read").shape, (Shape{2}));
  for (const char* name : {"quantized", "complex", "sparse"}) {
    const Error error = error_of([&] { file.read(name); });
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
  }
  EXPECT_EQ(error_of([&] { file.read("red"); }).code(), ErrorCode::kNotFound);
}

TEST(TorchFile, CyclesAndOtherFilesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([] { TorchFile::open(path_of("cycle.pt")); }).code(), ErrorCode::kFormat);
  const auto text = folder.write("text", "no tensors");
  EXPECT_EQ(error_of([&] { TorchFile::open(text); }).code(), ErrorCode::kFormat);
  const auto tar = folder.write("tar", std::string(257, 'x') + "ustar" + std::string(250, 'x'));
  const Error error = error_of([&] { TorchFile::open(tar); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_NE(std::string(error.what()).find("PyTorch 0.1"), std::string::npos);
}

/// Writes an archive of this pickle and a storage of 16 bytes, and opens it.
void open_pickle(const TemporaryFolder& folder, const std::string& pickle,
                 std::string_view order = "little") {
  ZipWriter zip(folder / "a.pt");
  zip.add("any/data.pkl", pickle);
  zip.add("any/byteorder", order);
  zip.add("any/data/0", std::string(16, 'x'));
  zip.finish();
  TorchFile file = TorchFile::open(folder / "a.pt");
  for (const TorchTensor& tensor : file.tensors()) file.read(tensor);
}

/// A tensor of the storage, as protocol 0 of pickles writes it.
std::string tensor_pickle(const std::string& offset, const std::string& sizes,
                          const std::string& strides) {
  return "ctorch._utils\n_rebuild_tensor\n((Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI4\ntQI" +
         offset + "\n(" + sizes + "t(" + strides + "ttR.";
}

TEST(TorchFile, TensorsBeyondTheirStorageAreRefused) {
  const TemporaryFolder folder;
  EXPECT_NO_THROW(open_pickle(folder, tensor_pickle("0", "I2\nI2\n", "I2\nI1\n")));
  EXPECT_NO_THROW(open_pickle(folder, tensor_pickle("3", "I9\n", "I0\n")));
  const std::vector<std::array<std::string, 3>> bad{
      {"1", "I2\nI2\n", "I2\nI1\n"},
      {"0", "I2\nI2\n", "I3\nI1\n"},
      {"0", "I2\n", "I2\nI1\n"},
      {"-1", "I2\n", "I1\n"},
      {"0", "I-2\n", "I1\n"},
      {"0", "I2\n", "I-1\n"},
      {"0", "I4294967296\nI4294967296\nI4\n", "I0\nI0\nI0\n"},
      {"0", "I1000000\n", "I0\n"},
      {"0", "I3\n", "I9223372036854775807\n"},
      {"9223372036854775807", "I2\n", "I1\n"},
  };
  for (const auto& [offset, sizes, strides] : bad) {
    const Error error =
        error_of([&] { open_pickle(folder, tensor_pickle(offset, sizes, strides)); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
  }
  const Error order = error_of([&] { open_pickle(folder, "N.", "big"); });
  EXPECT_EQ(order.code(), ErrorCode::kUnsupported);
}

/// Each list holds the one before it twice: 2^40 visits of a plain walk.
TEST(TorchFile, ValuesThatMultiplyAreRefused) {
  const TemporaryFolder folder;
  std::string pickle = "Np0\n0";
  for (int i = 0; i < 40; ++i) pickle += fmt::format("(g{}\ng{}\nlp{}\n0", i, i, i + 1);
  const Error error = error_of([&] { open_pickle(folder, pickle + "g40\n."); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
}

TEST(TorchFile, CutFilesAreRefused) {
  const TemporaryFolder folder;
  for (const char* name : {"checkpoint.pt", "checkpoint_legacy.pt"}) {
    const std::string bytes = bytes_of_file(path_of(name));
    for (std::size_t size = 0; size < bytes.size(); size += 13) {
      const auto path = folder.write("cut.pt", bytes.substr(0, size));
      EXPECT_EQ(error_of([&] { TorchFile::open(path); }).code(), ErrorCode::kFormat) << size;
    }
  }
}

TEST(TorchWriter, WritesWhatTorchFileReads) {
  const TemporaryFolder folder;
  TensorTable table;
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                            DType::kInt64, DType::kInt32, DType::kUInt8, DType::kInt8}) {
    HostTensor tensor = HostTensor::make(dtype, {3, 2});
    for (std::size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = std::byte(i % 64);
    table.add("layer." + std::string(base::name_of(dtype)), tensor);
  }
  table.add("scalar", HostTensor::make(DType::kFloat32, {}));
  table.add("empty", HostTensor::make(DType::kFloat32, {0, 2}));
  write_torch_state_dict(folder / "a.pt", table);
  TorchFile file = TorchFile::open(folder / "a.pt");
  ASSERT_EQ(file.tensors().size(), table.size());
  std::size_t index = 0;
  for (const auto& [name, tensor] : table) {
    EXPECT_EQ(file.tensors()[index++].name, name);
    const HostTensor read = file.read(name);
    EXPECT_EQ(read.dtype, tensor.dtype);
    EXPECT_EQ(read.shape, tensor.shape);
    EXPECT_EQ(read.data, tensor.data);
  }
}

TEST(ZipWriter, ContentBeginsAtMultiplesOf64Bytes) {
  const TemporaryFolder folder;
  ZipWriter writer(folder / "a.zip");
  const std::vector<std::string> contents{"\1first", "", "\1second, which is longer"};
  for (std::size_t i = 0; i < contents.size(); ++i) {
    writer.add("folder/" + std::to_string(i), contents[i]);
  }
  EXPECT_EQ(error_of([&] { writer.add("folder/0", "twice"); }).code(), ErrorCode::kInvalidArgument);
  writer.finish();
  const std::string bytes = bytes_of_file(folder / "a.zip");
  ZipArchive archive(folder / "a.zip");
  ASSERT_EQ(archive.members().size(), contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    std::string content(100, '\0');
    archive.open(archive.members()[i]);
    content.resize(archive.read(content));
    EXPECT_EQ(content, contents[i]);
    EXPECT_EQ(archive.read(std::span(content.data(), content.size())), 0u);
    if (!content.empty()) {
      EXPECT_EQ(bytes.find(content) % 64, 0u);
    }
  }
}

}  // namespace
}  // namespace sluice::io::formats
