#include "training/average.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"

namespace sluice::training {
namespace {

namespace fs = std::filesystem;

/// "hidden (16 and 24)" for every key that differs.
std::vector<std::string> differences(const models::Seq2SeqConfig& one,
                                     const models::Seq2SeqConfig& other) {
  nlohmann::json before = nlohmann::json::parse(one.to_json());
  nlohmann::json after = nlohmann::json::parse(other.to_json());
  // What is off may be left out.
  const auto text = [](const nlohmann::json& value) {
    return value.is_null() ? std::string("off") : value.dump();
  };
  nlohmann::json keys = before;
  keys.update(after);
  std::vector<std::string> found;
  for (const auto& [key, unused] : keys.items()) {
    if (before[key] == after[key]) continue;
    found.push_back(fmt::format("{} ({} and {})", key, text(before[key]), text(after[key])));
  }
  return found;
}

void check_alike(const LoadedModel& first, const fs::path& first_path, const LoadedModel& other,
                 const fs::path& path) {
  const std::vector<std::string> found = differences(first.model->config(), other.model->config());
  SLUICE_CHECK(found.empty(),
               "'{}' and '{}' cannot be averaged: their models differ in {}; take checkpoints of "
               "one architecture",
               first_path.native(), path.native(), fmt::join(found, ", "));
  const auto check = [&](const char* side, const data::Tokenizer& one, const data::Tokenizer& two) {
    SLUICE_CHECK(one.serialize() == two.serialize(),
                 "'{}' and '{}' cannot be averaged: their {} vocabularies differ; take checkpoints "
                 "that share their tokenizers",
                 first_path.native(), path.native(), side);
  };
  check("source", *first.tokenizers.source, *other.tokenizers.source);
  check("target", *first.tokenizers.target, *other.tokenizers.target);
}

}  // namespace

LoadedModel average_models(const Context& context, std::span<const fs::path> checkpoints) {
  SLUICE_CHECK(checkpoints.size() >= 2, "an average takes two checkpoints or more, not {}",
               checkpoints.size());
  LoadedModel mean = load_model(context, checkpoints[0]);
  const runtime::Tensor& values = mean.model->parameters().values();
  std::vector<float> weights = context.download<float>(values);
  std::vector<double> sum(weights.begin(), weights.end());
  for (const fs::path& path : checkpoints.subspan(1)) {
    const LoadedModel other = load_model(context, path);
    check_alike(mean, checkpoints[0], other, path);
    weights = context.download<float>(other.model->parameters().values());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += double{weights[i]};
  }
  const auto count = static_cast<double>(checkpoints.size());
  for (std::size_t i = 0; i < sum.size(); ++i) weights[i] = static_cast<float>(sum[i] / count);
  context.upload<float>(values, weights);
  return mean;
}

}  // namespace sluice::training
