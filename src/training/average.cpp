#include "training/average.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"

namespace sluice::training {
namespace {

namespace fs = std::filesystem;
using model_files::Vocabulary;

/// "hidden (16 and 24)" for every key that differs.
std::vector<std::string> differences(const models::Model& one, const models::Model& other) {
  nlohmann::json before = nlohmann::json::parse(one.configuration());
  nlohmann::json after = nlohmann::json::parse(other.configuration());
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
  SLUICE_CHECK(first.kind == other.kind,
               "'{}' and '{}' cannot be averaged: they hold models of kind {} and {}",
               first_path.native(), path.native(), first.kind->name, other.kind->name);
  const std::vector<std::string> found = differences(*first.model, *other.model);
  SLUICE_CHECK(found.empty(),
               "'{}' and '{}' cannot be averaged: their models differ in {}; take checkpoints of "
               "one architecture",
               first_path.native(), path.native(), fmt::join(found, ", "));
  auto one = to_blobs(first.tokenizers), two = to_blobs(other.tokenizers);
  for (const Vocabulary vocabulary : model_files::kVocabularies) {
    SLUICE_CHECK(one[blob_name(vocabulary)] == two[blob_name(vocabulary)],
                 "'{}' and '{}' cannot be averaged: their {} vocabularies differ; take checkpoints "
                 "that share them",
                 first_path.native(), path.native(), side_name(vocabulary));
  }
}

}  // namespace

LoadedModel average_models(const Context& context, std::span<const fs::path> checkpoints) {
  SLUICE_CHECK(checkpoints.size() >= 2, "an average takes two checkpoints or more, not {}",
               checkpoints.size());
  LoadedModel mean = model_files::load_model(context, checkpoints[0]);
  const runtime::Tensor& values = mean.model->parameters().values();
  std::vector<float> weights = context.download<float>(values);
  std::vector<double> sum(weights.begin(), weights.end());
  for (const fs::path& path : checkpoints.subspan(1)) {
    const LoadedModel other = model_files::load_model(context, path);
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
