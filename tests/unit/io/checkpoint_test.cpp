#include "io/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/safetensors.h"
#include "temporary_folder.h"
#include "unit/support/full_disk.h"

namespace sluice::io {
namespace {

constexpr float kWeights[] = {1.0f, -2.5f, 3.0f, 0.0f, 1e-30f, 7.0f};

Container small_model() {
  Container model;
  model.text = "[model]\nhidden = 3\n";
  model.tensors.add("encoder.weight_ih", HostTensor::copy_of<float>(std::span(kWeights), {2, 3}));
  model.tensors.add("decoder.bias", HostTensor::copy_of<float>(std::span(kWeights).first(2), {2}));
  model.blobs["tokenizer.source"] = std::string("\0\xff\x01 binary", 11);
  model.blobs["tokenizer.target"] = "";
  return model;
}

Container small_state() {
  constexpr double kMoments[] = {0.5, 1e300};
  Container state;
  state.text = R"({"step": 12, "seed": 18446744073709551615})";
  state.tensors.add("adam.m", HostTensor::copy_of<float>(std::span(kWeights), {6}));
  state.tensors.add("sum", HostTensor::copy_of<double>(std::span(kMoments), {2}));
  return state;
}

void expect_same(const Container& a, const Container& b) {
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.blobs, b.blobs);
  EXPECT_EQ(a.revision, b.revision);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    const HostTensor* other = b.tensors.find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_EQ(tensor.dtype, other->dtype);
    EXPECT_EQ(tensor.shape, other->shape);
    EXPECT_EQ(tensor.data, other->data);
  }
}

void expect_message(const Error& error, ErrorCode code, const std::vector<std::string>& parts) {
  const std::string message = error.what();
  EXPECT_EQ(error.code(), code) << message;
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
  }
}

TEST(Checkpoint, ReadsBackWhatItWrote) {
  const TemporaryFolder folder;
  const Container state = small_state();
  write_checkpoint(folder / "last", small_model(), &state);
  expect_same(read_model(folder / "last"), small_model());
  expect_same(read_state(folder / "last"), small_state());
  // The file itself may be named, too.
  const Container model = read_model(folder / "last" / "model.safetensors");
  expect_same(model, small_model());
  EXPECT_EQ(model.origin, (folder / "last" / "model.safetensors").native());
  // Parameters keep their order.
  EXPECT_EQ(model.tensors.begin()->first, "encoder.weight_ih");
  EXPECT_EQ(model.tensors.begin()->second.values<float>()[1], -2.5f);

  write_checkpoint(folder / "last", small_model(), nullptr);
  EXPECT_EQ(error_of([&] { read_state(folder / "last"); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(error_of([&] { read_model(folder / "none"); }).code(), ErrorCode::kNotFound);
}

TEST(Checkpoint, OfARunIsItsBestOrElseItsLast) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  std::filesystem::create_directory(run);
  expect_message(error_of([&] { read_model(run); }), ErrorCode::kNotFound,
                 {"run' has no model.safetensors", "the folder of a training run"});
  expect_message(error_of([&] { read_model(folder / "none"); }), ErrorCode::kNotFound,
                 {"there is no '", "none'; give a checkpoint folder"});
  const Container state = small_state();
  write_checkpoint(run / "last", small_model(), &state);
  EXPECT_EQ(model_file(run), run / "last" / "model.safetensors");
  EXPECT_EQ(read_model(run).origin, (run / "last" / "model.safetensors").native());
  // What a run goes on from has to be named itself.
  expect_message(error_of([&] { read_state(run); }), ErrorCode::kNotFound,
                 {"run' has no training_state.safetensors; give the last/ of a training run"});
  write_checkpoint(run / "best", small_model(), nullptr);
  EXPECT_EQ(model_file(run), run / "best" / "model.safetensors");
  EXPECT_EQ(narrowest_dtype(run), DType::kFloat32);
  // As a killed writer may leave it.
  std::filesystem::rename(run / "best", run / "best.sluice-new");
  EXPECT_EQ(model_file(run), run / "best" / "model.safetensors");
}

/// By hand, as any reader of the format would.
TEST(Checkpoint, IsAPlainSafetensorsFile) {
  const TemporaryFolder folder;
  write_model(folder / "m", small_model());
  const std::string text = read_file(folder / "m", 100'000);
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  const auto header = nlohmann::json::parse(text.substr(8, length));
  EXPECT_EQ(header.size(), 5u);
  EXPECT_EQ(header["__metadata__"]["sluice_container"], "1");
  EXPECT_EQ(header["__metadata__"]["model_revision"], "1");
  EXPECT_EQ(header["__metadata__"]["config"], small_model().text);
  const auto& weight = header["encoder.weight_ih"];
  EXPECT_EQ(weight["dtype"], "F32");
  EXPECT_EQ(weight["shape"], nlohmann::json({2, 3}));
  const auto begin = weight["data_offsets"][0].get<std::size_t>();
  EXPECT_EQ(std::memcmp(text.data() + 8 + length + begin, kWeights, sizeof(kWeights)), 0);
  EXPECT_EQ(header["tokenizer.source"]["dtype"], "U8");
  EXPECT_EQ(header["tokenizer.source"]["shape"], nlohmann::json({11}));
}

/// A model file with some metadata changed; an empty value removes the key.
void write_changed(const std::filesystem::path& path, const std::string& key,
                   const std::string& value) {
  std::map<std::string, std::string> metadata{{"sluice_container", "1"},
                                              {"sluice_kind", "model"},
                                              {"model_revision", "1"},
                                              {"config", "{}"}};
  metadata[key] = value;
  SafetensorsWriter writer;
  for (const auto& [name, text] : metadata) {
    if (!text.empty()) writer.set_metadata(name, text);
  }
  writer.write(path);
}

TEST(Checkpoint, RefusesNewerAndForeignFiles) {
  const TemporaryFolder folder;
  struct Case {
    const char* key;
    const char* value;
    std::vector<std::string> says;
  };
  const std::vector<Case> cases{
      {"sluice_container", "2", {"/f'", "sluice_container '2'", "up to 1", "newer Sluice"}},
      {"sluice_container", "99999999999999999999", {"'99999999999999999999'", "up to 1"}},
      {"model_revision", "7", {"model_revision '7'", "up to 2", "newer"}},
      {"sluice_container", "0", {"'0' instead of a number from 1 to 1"}},
      {"sluice_container", "-1", {"'-1' instead of"}},
      {"sluice_container", "-99999999999999999999", {"instead of a number"}},
      {"sluice_container", "1x", {"'1x' instead of"}},
      {"sluice_container", "one", {"'one' instead of"}},
      {"sluice_container", "", {"no file of Sluice", "sluice_container"}},
      {"model_revision", "", {"no file of Sluice", "model_revision"}},
      {"sluice_kind", "", {"sluice_kind"}},
      {"sluice_kind",
       "training_state",
       {"/f' holds where a training run stands; give a checkpoint folder, its"}},
      {"sluice_kind",
       "stream_state",
       {"/f' holds a state that --save-state or save() wrote; give a check"}},
      {"sluice_kind",
       "song",
       {"/f' holds 'song'; give a checkpoint folder, its model.safetensors"}},
      {"config", "", {"'config'"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.key) + "=" + c.value);
    write_changed(folder / "f", c.key, c.value);
    expect_message(error_of([&] { read_model(folder / "f"); }), ErrorCode::kFormat, c.says);
  }
  write_changed(folder / "f", "other", "kept");
  EXPECT_NO_THROW(read_model(folder / "f"));
  write_state(folder / "s", small_state());
  EXPECT_EQ(error_of([&] { read_model(folder / "s"); }).code(), ErrorCode::kFormat);
}

TEST(Checkpoint, ChecksTensorsAgainstWhatTheModelAsksFor) {
  const TemporaryFolder folder;
  write_model(folder / "m", small_model());
  const Container model = read_model(folder / "m");
  const std::string& origin = model.origin;
  EXPECT_EQ(require_tensor(model, "encoder.weight_ih", {2, 3}).values<float>()[0], 1.0f);
  expect_message(error_of([&] {
                   require_tensor(model, "encoder.weight_ih", {3, 2});
                 }),
                 ErrorCode::kFormat, {origin, "encoder.weight_ih", "[2, 3]", "[3, 2]"});
  expect_message(error_of([&] {
                   require_tensor(model, "encoder.weight_hi", {2, 3});
                 }),
                 ErrorCode::kFormat,
                 {origin, "lacks", "'encoder.weight_hi'", "[2, 3]", "'encoder.weight_ih'?"});
  expect_message(error_of([&] { require_tensor(model, "decoder.bias", {2}, DType::kFloat64); }),
                 ErrorCode::kFormat, {origin, "decoder.bias", "float32 instead of float64"});
  EXPECT_EQ(require_blob(model, "tokenizer.source").size(), 11u);
  expect_message(error_of([&] { require_blob(model, "tokenizer.other"); }), ErrorCode::kFormat,
                 {origin, "tokenizer.other"});

  constexpr std::array<std::string_view, 2> kAll{"encoder.weight_ih", "decoder.bias"};
  EXPECT_NO_THROW(refuse_other_tensors(model, kAll));
  constexpr std::array<std::string_view, 2> kOther{"encoder.weight_ih", "decoder.bios"};
  expect_message(error_of([&] { refuse_other_tensors(model, kOther); }), ErrorCode::kFormat,
                 {origin, "'decoder.bias' of shape [2]", "did you mean 'decoder.bios'?"});
}

TEST(Checkpoint, RefusesToWriteWhatItWouldNotRead) {
  const TemporaryFolder folder;
  Container model = small_model();
  model.tensors.add("wide", HostTensor::make(DType::kFloat64, {1}));
  EXPECT_EQ(error_of([&] { write_model(folder / "m", model); }).code(),
            ErrorCode::kInvalidArgument);
  Container clash = small_model();
  clash.blobs["decoder.bias"] = "x";
  EXPECT_EQ(error_of([&] { write_model(folder / "m", clash); }).code(),
            ErrorCode::kInvalidArgument);
  Container state = small_state();
  state.tensors.add("bytes", HostTensor::make(DType::kUInt8, {1}));
  EXPECT_EQ(error_of([&] { write_state(folder / "s", state); }).code(),
            ErrorCode::kInvalidArgument);
  Container text = small_model();
  text.text = "\xff";
  EXPECT_EQ(error_of([&] { write_model(folder / "m", text); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(folder.count(), 0);
}

/// The disk fills up anywhere in either file: one error, and the checkpoint of before reads.
TEST(Checkpoint, AFullDiskLeavesTheOldCheckpoint) {
  const TemporaryFolder folder;
  const Container state = small_state();
  write_checkpoint(folder / "last", small_model(), &state);
  const std::string old = read_file(folder / "last" / "model.safetensors", 100'000);
  Container larger = small_model();
  larger.text += std::string(500, '#');
  for (const rlim_t limit : {0, 7, 8, 100, 700, 930}) {
    SCOPED_TRACE(limit);
    expect_message(error_of([&] {
                     const testing::FileSizeLimit full(limit);
                     write_checkpoint(folder / "last", larger, &state);
                   }),
                   ErrorCode::kIo, {"model.safetensors.sluice-tmp'", "File too large"});
    EXPECT_EQ(read_file(folder / "last" / "model.safetensors", 100'000), old);
    expect_same(read_state(folder / "last"), state);
    EXPECT_EQ(folder.count(), 1);
  }
}

}  // namespace
}  // namespace sluice::io
