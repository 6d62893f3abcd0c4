#include "training/example_preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "data/corpus.h"
#include "io/crc32c.h"
#include "training/config_keys.h"

namespace sluice::training {
namespace {

namespace fs = std::filesystem;

/// Name, size and time of change.
std::string state_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  const auto changed = error ? fs::file_time_type{} : fs::last_write_time(path, error);
  if (error) {
    base::fail(ErrorCode::kIo, "'{}' can't be read: {}", path.string(), error.message());
  }
  return fmt::format("{} {} {}", path.string(), size, changed.time_since_epoch().count());
}

std::string state_of_folder(const fs::path& folder) {
  std::vector<std::string> states;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".npy") states.push_back(state_of(entry.path()));
  }
  std::sort(states.begin(), states.end());
  std::string all;
  for (const std::string& state : states) all += state + "; ";
  return fmt::format("{} {} {:08x}", folder.string(), states.size(), io::crc32c(all));
}

/// What ids depend on: files as far as size and time of change tell, settings and vocabularies.
std::string key_of(const TrainConfig& config, const Tokenizers& tokenizers,
                   const std::vector<std::string>& files) {
  std::string key = "1";
  for (const std::string& path : files) {
    std::error_code ignored;
    key += "; " + (fs::is_directory(path, ignored) ? state_of_folder(path) : state_of(path));
  }
  for (const ConfigKey& setting : config_keys()) {
    const bool matters = setting.section() == "data" || setting.name == "training.bptt" ||
                         setting.name == "model.target" || setting.name == "model.pooling";
    if (matters) key += fmt::format("; {}", setting.value_of(config));
  }
  for (const auto& [name, bytes] : model_files::to_blobs(tokenizers)) {
    key += fmt::format("; {} {} {:08x}", name, bytes.size(), io::crc32c(bytes));
  }
  return key;
}

void prepare(const fs::path& path, const std::string& key, const FillStore& fill) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    base::fail(ErrorCode::kIo, "the folder '{}' can't be made: {}", path.parent_path().string(),
               error.message());
  }
  ExampleStoreWriter writer(path);
  data::CorpusReport report;
  const std::int64_t read = fill(writer, report);
  SLUICE_CHECK(read > 0, "there is no example to train on: the files hold none");
  SLUICE_CHECK(report.kept > 0,
               "no training example is left of {}: {} were too long and {} had an empty side", read,
               report.too_long, report.empty);
  writer.finish(key, report);
}

}  // namespace

bool is_held_out(const DataConfig& data, std::int64_t index) {
  return holds_out(data) &&
         data::is_held_out(index, data.hold_out_run, data.hold_out_every, data.hold_out_fold);
}

void require_files(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    SLUICE_CHECK(
        path != "-",
        "data.stream reads files twice, but standard input can be read only once: name a file");
  }
}

void require_split_of(const DataConfig& data, std::int64_t count) {
  if (!holds_out(data) || count == 0) return;  // which preparing tells in its own words
  data::require_split(count, data.hold_out_run, data.hold_out_every, data.hold_out_fold);
}

std::shared_ptr<const ExampleStore> prepared_store(const TrainConfig& config,
                                                   const Tokenizers& tokenizers,
                                                   const std::vector<std::string>& files,
                                                   const FillStore& fill) {
  require_files(files);
  const fs::path path = fs::path(config.output.directory) / "prepared" / "train";
  const std::string key = key_of(config, tokenizers, files);
  std::optional<ExampleStore> store = ExampleStore::open(path, key);
  if (!store) {
    prepare(path, key, fill);
    store = ExampleStore::open(path, key);
  }
  if (!store) {
    base::fail(ErrorCode::kIo, "what was written to '{}' is not there; is the disk sound?",
               path.string());
  }
  return std::make_shared<const ExampleStore>(*std::move(store));
}

}  // namespace sluice::training
