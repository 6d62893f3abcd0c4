#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "interchange/keras/keras_reader.h"
#include "io/formats/zip_writer.h"
#include "unit/interchange/keras_files.h"
#include "unit/support/message_of.h"

namespace sluice::interchange {
namespace {

using Json = nlohmann::json;
using testing::message_of;
using testing::TemporaryFolder;

/// All values in a configuration.
void list_values(Json& json, std::vector<Json*>& values) {
  for (Json& value : json) {
    values.push_back(&value);
    if (value.is_structured()) list_values(value, values);
  }
}

std::string member_of(const std::filesystem::path& path, std::string_view name) {
  io::ZipArchive archive(path);
  for (const io::ZipArchive::Member& member : archive.members()) {
    if (member.name != name) continue;
    std::string bytes(static_cast<std::size_t>(member.bytes), '\0');
    archive.open(member);
    archive.read(bytes);
    return bytes;
  }
  return "";
}

/// Damaged files are refused, or read as others; nothing else happens.
TEST(KerasDamage, IsRefused) {
  const TemporaryFolder folder;
  for (const std::string name : {"classifier.keras", "keras1.h5", "functional.h5", "cudnn.h5"}) {
    std::ifstream file(keras_file(name), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    RandomNumbers random(5);
    for (int i = 0; i < 40; ++i) {
      std::string damaged = bytes;
      const auto at =
          static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(bytes.size()) - 1));
      if (i % 5 == 0) {
        damaged.resize(at);
      } else {
        damaged[at] = static_cast<char>(random.between(0, 255));
      }
      const std::filesystem::path path = folder.write(name, damaged);
      EXPECT_NO_THROW(message_of([&] { read_keras(path, {}); })) << name << " " << at;
    }
  }
}

TEST(KerasDamage, OfConfigurationsIsRefused) {
  static const Json kOthers[] = {nullptr,
                                 -1,
                                 7,
                                 "LSTM",
                                 true,
                                 Json::array(),
                                 Json::object(),
                                 Json::array({"a", 0, 0}),
                                 {{"class_name", "LSTM"}}};
  const TemporaryFolder folder;
  RandomNumbers random(6);
  for (const std::string name : {"classifier.keras", "functional.keras", "cells.keras"}) {
    const Json whole = Json::parse(member_of(keras_file(name), "config.json"));
    const std::string weights = member_of(keras_file(name), "model.weights.h5");
    for (int i = 0; i < 30; ++i) {
      Json config = whole;
      std::vector<Json*> values;
      list_values(config, values);
      Json& value = *values[static_cast<std::size_t>(
          random.between(0, static_cast<std::int64_t>(values.size()) - 1))];
      if (value.is_object() && !value.empty() && random.coin()) {
        value.erase(value.begin());
      } else {
        value = kOthers[random.between(0, std::ssize(kOthers) - 1)];
      }
      const std::filesystem::path path = folder / "model.keras";
      io::formats::ZipWriter zip(path);
      zip.add("config.json", config.dump());
      zip.add("model.weights.h5", weights);
      zip.finish();
      EXPECT_NO_THROW(message_of([&] { read_keras(path, {}); })) << config.dump();
    }
  }
}

}  // namespace
}  // namespace sluice::interchange
