#include "bench/report/result_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/counted.h"
#include "io/file.h"

namespace sluice::bench::report {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uint64_t kMostBytes = 256 << 20;
constexpr std::size_t kLongestText = 200;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;

// One object of the list; every question names file, entry and key when it fails.
class Entry {
 public:
  Entry(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) fail("is not an object");
  }

  bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

  // Printable: it ends in tables and pages.
  std::string text(const char* key) const {
    const json& value = at(key);
    if (!value.is_string()) fail(key, "a text");
    const auto& found = value.get_ref<const std::string&>();
    const bool printable = std::ranges::none_of(found, [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte < 0x20 || byte == 0x7f;
    });
    if (!printable || found.empty() || found.size() > kLongestText) {
      fail(key, "a printable text of 1 to 200 bytes");
    }
    return found;
  }
  /// Texts by name; none if the key is absent.
  std::vector<std::pair<std::string, std::string>> texts(const char* key) const {
    std::vector<std::pair<std::string, std::string>> found;
    if (!has(key)) return found;
    if (!object_[key].is_object()) fail(key, "an object of texts");
    const Entry inner(object_[key], fmt::format("{}: {}", place_, key));
    for (const auto& [name, value] : object_[key].items()) {
      found.emplace_back(name, inner.text(name.c_str()));
    }
    return found;
  }
  std::string one_of(const char* key, std::initializer_list<std::string_view> allowed) const {
    const std::string found = text(key);
    if (std::ranges::find(allowed, found) == allowed.end()) {
      fail(key, fmt::format("one of {}", fmt::join(allowed, ", ")));
    }
    return found;
  }
  /// One size, 0 for none, or a list of sizes with commas between them.
  std::string sizes(const char* key) const {
    if (!at(key).is_array()) return std::to_string(size(key, 0));
    std::string text;
    for (const json& value : at(key)) {
      if (!value.is_number_unsigned() || value.get<std::int64_t>() < 1) {
        fail(key, "an integer or a list of integers of at least 1");
      }
      text += fmt::format("{}{}", text.empty() ? "" : ",", value.get<std::int64_t>());
    }
    return text;
  }
  std::int64_t size(const char* key, std::int64_t least) const {
    const json& value = at(key);
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= kLargestSize;
    if (!fits || value.get<std::int64_t>() < least) {
      fail(key, fmt::format("an integer of at least {}", least));
    }
    return value.get<std::int64_t>();
  }
  bool flag(const char* key) const {
    if (!at(key).is_boolean()) fail(key, "true or false");
    return at(key).get<bool>();
  }
  double rate(const char* key) const {
    const json& value = at(key);
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() < 1)) {
      fail(key, "a number in [0, 1)");
    }
    return value.get<double>();
  }
  double positive(const char* key) const {
    const json& value = at(key);
    if (!value.is_number() || !(value.get<double>() > 0) || std::isinf(value.get<double>())) {
      fail(key, "a number above 0");
    }
    return value.get<double>();
  }

 private:
  const json& at(const char* key) const {
    if (!object_.contains(key)) fail(fmt::format("has no key '{}'", key));
    return object_[key];
  }
  [[noreturn]] void fail(const char* key, const std::string& expected) const {
    fail(fmt::format("has a '{}' that is not {}", key, expected));
  }
  [[noreturn]] void fail(const std::string& what) const {
    base::fail(ErrorCode::kFormat, "{} {}", place_, what);
  }

  const json& object_;
  std::string place_;
};

std::string gemm_sizes(const Entry& entry) {
  std::string text =
      fmt::format("M{} N{} K{}", entry.size("m", 1), entry.size("n", 1), entry.size("k", 1));
  if (entry.flag("transpose_a")) text += " At";
  if (entry.flag("transpose_b")) text += " Bt";
  return text;
}

std::string recurrent_sizes(const Entry& entry) {
  std::string text = fmt::format("T{} B{} I{} H{}", entry.size("time", 1), entry.size("batch", 1),
                                 entry.size("input", 1), entry.size("hidden", 1));
  const auto add = [&](const char* letter, const char* key, std::int64_t least) {
    const std::int64_t size = entry.size(key, least);
    if (size != least) text += fmt::format(" {}{}", letter, size);
  };
  add("L", "layers", 1);
  add("D", "directions", 1);
  const std::string projection = entry.sizes("projection");
  if (projection != "0") text += " P" + projection;
  if (entry.one_of("lengths", {"full", "uniform"}) == "uniform") text += " ragged";
  return text;
}

std::string train_sizes(const Entry& entry) {
  std::string text = fmt::format("V{} E{} H{} L{} B{} T{}+{}", entry.size("vocabulary", 1),
                                 entry.size("embedding", 1), entry.size("hidden", 1),
                                 entry.size("layers", 1), entry.size("batch", 1),
                                 entry.size("source_time", 1), entry.size("target_time", 1));
  if (entry.size("directions", 1) == 2) text += " D2";
  const std::string cell = entry.one_of("recurrent_cell", {"lstm", "gru", "rnn_tanh", "rnn_relu"});
  if (cell != "lstm") text += " " + cell;
  if (entry.one_of("attention", {"additive", "multiplicative"}) == "multiplicative") {
    text += " multiplicative";
  }
  return text + fmt::format(" dropout {}", entry.rate("dropout"));
}

// Of a training configuration: who read other data or made another model measured something else.
std::string config_sizes(const Entry& entry) {
  return fmt::format("{} parameters, {} batches of {} examples, {}+{} tokens",
                     entry.size("parameters", 1), entry.size("batches", 1),
                     entry.size("examples", 1), entry.size("source_tokens", 0),
                     entry.size("target_tokens", 1));
}

std::string search_sizes(const Entry& entry) {
  const std::string cell = entry.one_of("recurrent_cell", {"lstm", "gru"});
  return fmt::format("V{} E{} H{} L{} {} inputs x {} beams x {} steps{}",
                     entry.size("vocabulary", 1), entry.size("embedding", 1),
                     entry.size("hidden", 1), entry.size("layers", 1), entry.size("inputs", 1),
                     entry.size("beam", 1), entry.size("steps", 1),
                     cell == "lstm" ? "" : " " + cell);
}

std::string sizes_of(const Entry& entry, std::string_view cell) {
  if (entry.has("batches")) return config_sizes(entry);
  if (entry.has("beam")) return search_sizes(entry);
  if (cell == "gemm") return gemm_sizes(entry);
  return cell == "seq2seq" ? train_sizes(entry) : recurrent_sizes(entry);
}

Workload workload_of(const Entry& entry) {
  Workload workload;
  workload.name = entry.text("name");
  workload.cell =
      entry.one_of("cell", {"lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu", "gemm",
                            "seq2seq", "language_model", "tagger", "classifier", "features"});
  workload.dtype = entry.text("dtype");
  workload.pass = entry.text("pass");
  workload.device = entry.text("device");
  if (workload.device == "cuda") workload.device = "cuda:0";
  if (workload.device.starts_with("cuda")) {
    workload.machine = entry.text("device_model");
  } else if (entry.has("cpu")) {
    workload.machine =
        fmt::format("{}, {}", entry.text("cpu"), base::counted(entry.size("threads", 1), "thread"));
  }
  workload.sizes = sizes_of(entry, workload.cell);
  return workload;
}

std::string software_of(const Entry& entry) {
  if (entry.has("library")) return entry.text("library");
  std::string text = entry.has("driver") ? "driver " + entry.text("driver") : "";
  for (const auto& [library, version] : entry.texts("libraries")) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", library, version);
  }
  return text;
}

Measurement measurement_of(const Entry& entry, const std::string& origin) {
  Measurement measurement;
  measurement.workload = workload_of(entry);
  measurement.implementation = entry.text("implementation");
  measurement.peer = entry.flag("peer");
  measurement.is_default = entry.flag("default");
  measurement.milliseconds = entry.positive("milliseconds");
  if (entry.has("turns")) {
    measurement.turns = entry.text("turns");
    measurement.speedup_over_peer = entry.positive("speedup_over_peer");
  }
  if (entry.has("commit")) measurement.commit = entry.text("commit");
  measurement.software = software_of(entry);
  if (entry.has("peak_bytes")) measurement.peak_bytes = entry.positive("peak_bytes");
  measurement.file = origin;
  return measurement;
}

/// The fields that a group states once.
constexpr std::array<std::string_view, 10> kOfMachine{
    "device", "device_model", "threads",      "cpu",       "commit",
    "driver", "driver_cuda",  "cuda_runtime", "libraries", "library"};

/// visit(object, where it stands) for each result, with what its group states.
template <typename Json, typename Visit>
void for_each_result(const Json& list, const std::string& origin, const Visit& visit) {
  std::size_t number = 0;
  const auto place = [&] { return fmt::format("{}: result {}", origin, ++number); };
  for (const Json& object : list) {
    if (!object.is_object() || !object.contains("common") || !object.contains("results")) {
      visit(object, place());
      continue;
    }
    if (!object["common"].is_object() || !object["results"].is_array()) {
      base::fail(ErrorCode::kFormat, "{} holds a group that is no common object with results",
                 origin);
    }
    for (const Json& result : object["results"]) {
      Json whole = result;
      if (whole.is_object()) whole.update(object["common"]);
      visit(whole, place());
    }
  }
}

template <typename Json = json>
Json parse(std::string_view text, const std::string& origin) {
  try {
    return Json::parse(text);
  } catch (const json::parse_error& error) {
    const std::string_view before = text.substr(0, error.byte == 0 ? 0 : error.byte - 1);
    base::fail(ErrorCode::kFormat, "{}:{}: this is not JSON; a results file is what --json writes",
               origin, 1 + std::ranges::count(before, '\n'));
  } catch (const json::exception&) {
    base::fail(ErrorCode::kFormat, "{} holds a number too large for any result", origin);
  }
}

}  // namespace

std::vector<Measurement> parse_results(std::string_view text, const std::string& origin) {
  const json list = parse(text, origin);
  if (!list.is_array() || list.empty()) {
    base::fail(ErrorCode::kFormat,
               "{} holds no list of results; a results file is what --json writes", origin);
  }
  std::vector<Measurement> measurements;
  for_each_result(list, origin, [&](const json& object, const std::string& place) {
    measurements.push_back(measurement_of(Entry(object, place), origin));
  });
  return measurements;
}

std::string join_results(const std::vector<std::string>& files) {
  std::vector<std::pair<ordered_json, std::vector<std::string>>> groups;
  for (const std::string& file : files) {
    const ordered_json list = parse<ordered_json>(io::read_file(file, kMostBytes), file);
    for_each_result(list, file, [&](const ordered_json& object, const std::string& place) {
      measurement_of(Entry(json::parse(object.dump()), place), file);
      ordered_json common = ordered_json::object(), own = ordered_json::object();
      for (const auto& [key, value] : object.items()) {
        (std::ranges::find(kOfMachine, key) != kOfMachine.end() ? common : own)[key] = value;
      }
      auto group = std::ranges::find(groups, common, &decltype(groups)::value_type::first);
      if (group == groups.end()) group = groups.emplace(group, common, std::vector<std::string>());
      group->second.push_back("  " + own.dump());
    });
  }
  std::vector<std::string> texts;
  for (const auto& [common, results] : groups) {
    texts.push_back(fmt::format("{{\"common\": {},\n \"results\": [\n{}\n ]}}", common.dump(),
                                fmt::join(results, ",\n")));
  }
  return fmt::format("[\n{}\n]\n", fmt::join(texts, ",\n"));
}

std::vector<Measurement> read_results(const std::filesystem::path& path) {
  return parse_results(io::read_file(path, kMostBytes), path.string());
}

}  // namespace sluice::bench::report
