#include "training/feature_resets.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "base/check.h"
#include "base/counted.h"
#include "io/name_of_input.h"

namespace sluice::training {
namespace {

using base::fail;

/// Each name of features must be one of the others, and the other way round.
void require_same_names(const std::string& features, std::span<const std::string> of_features,
                        const std::string& file, std::span<const std::string> names,
                        std::string_view what) {
  std::unordered_set<std::string_view> unused;
  for (const std::string& name : names) {
    if (unused.insert(name).second) continue;
    fail(ErrorCode::kFormat, "{} has two arrays named '{}'", io::name_of_input(file), name);
  }
  for (std::size_t i = 0; i < of_features.size(); ++i) {
    if (unused.erase(of_features[i]) > 0) continue;
    const std::string instead =
        i < names.size() ? fmt::format(" ('{}' stands in their place)", names[i]) : "";
    fail(ErrorCode::kFormat,
         "{} has no {} named '{}', as features of {} are{}; arrays of features and of their {} go "
         "by the same names",
         io::name_of_input(file), what, of_features[i], io::name_of_input(features), instead, what);
  }
  for (const std::string& name : names) {
    if (!unused.contains(name)) continue;
    fail(ErrorCode::kFormat,
         "{} has no features named '{}', as {} of {} are; arrays of features and of their {} go by "
         "the same names",
         io::name_of_input(features), name, what, io::name_of_input(file), what);
  }
}

}  // namespace

bool pair_by_name(const std::string& features, std::span<const std::string> feature_names,
                  const std::string& file, io::ArrayReader& arrays, std::string_view what) {
  const std::vector<std::string> names = arrays.names();
  if (names.size() == 1) return false;
  if (feature_names.size() == 1 || std::ranges::equal(feature_names, names)) return true;
  require_same_names(features, feature_names, file, names, what);
  arrays.follow(feature_names);
  return true;
}

ResetReader::ResetReader(std::string file, std::string features,
                         std::span<const std::string> feature_names)
    : file_(std::move(file)),
      features_(std::move(features)),
      reader_(file_, 2, data::LabelKind::kResets) {
  by_name_ = pair_by_name(features_, feature_names, file_, reader_.arrays(), "resets") &&
             feature_names.size() > 1;
}

std::span<const std::int32_t> ResetReader::next(const std::string& name, const std::string& key,
                                                std::int64_t length) {
  if (!reader_.next()) {
    fail(ErrorCode::kFormat, "{} has resets of {}, but there are more with features",
         io::name_of_input(file_), base::counted(at_, "sequence"));
  }
  ++at_;
  if (by_name_ && reader_.key() != key) {
    fail(ErrorCode::kFormat,
         "{} stands where resets of {} are wanted; arrays of the same name hold as many sequences",
         reader_.name(), name);
  }
  const std::int64_t found = std::ssize(reader_.labels());
  if (found != length) {
    fail(ErrorCode::kFormat, "{} has resets of {}, but {} has {}", reader_.name(),
         base::counted(found, "frame"), name, base::counted(length, "frame"));
  }
  return reader_.labels();
}

void ResetReader::finish() {
  if (!reader_.next()) return;
  fail(ErrorCode::kFormat, "{} has resets of more sequences than the {} of {}",
       io::name_of_input(file_), at_, io::name_of_input(features_));
}

}  // namespace sluice::training
