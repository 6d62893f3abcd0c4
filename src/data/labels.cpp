#include "data/labels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "io/checksummed_blob.h"

namespace sluice::data {
namespace {

// Of labels that are told in a refusal: how many, and how much of one.
constexpr std::int32_t kShown = 10;
constexpr std::size_t kShownBytes = 100;

const std::string kAdvice = "train on examples of it, too, or leave it out";

constexpr io::BlobFormat kBlobFormat{"sluice-labels", "list of labels"};

}  // namespace

Labels::Labels(std::vector<std::string> names) : names_(std::move(names)) {
  SLUICE_CHECK(!names_.empty(), "there are no labels");
  for (std::int32_t id = 0; id < size(); ++id) {
    const std::string& name = this->name(id);
    SLUICE_CHECK(!name.empty() && name.find('\n') == std::string::npos,
                 "label {} ('{}') is empty or has a line break", id, name);
    SLUICE_CHECK(ids_.emplace(name, id).second, "label '{}' stands there twice", name);
  }
}

const std::string& Labels::name(std::int32_t id) const {
  SLUICE_CHECK(id >= 0 && id < size(), "label id {} is none of {} labels", id, size());
  return names_[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> Labels::find(std::string_view name) const {
  const auto found = ids_.find(std::string(name));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

Labels Labels::held_by(std::string owner, std::string advice) const {
  Labels held = *this;
  held.owner_ = std::move(owner);
  held.advice_ = std::move(advice);
  return held;
}

void Labels::refuse(std::string_view where, std::string_view name) const {
  const std::vector<std::string> shown(names_.begin(),
                                       names_.begin() + std::min<std::ptrdiff_t>(size(), kShown));
  base::fail(ErrorCode::kFormat, "{}: the label '{}' is none of the {} {} ({}{}); {}", where,
             name.substr(0, kShownBytes), size(), owner_, fmt::join(shown, ", "),
             size() > kShown ? ", …" : "", advice_.empty() ? kAdvice : advice_);
}

std::string Labels::serialize() const {
  std::string payload;
  for (const std::string& name : names_) payload += name + '\n';
  return kBlobFormat.write("labels", payload);
}

Labels Labels::parse(std::string_view bytes) {
  auto [kind, payload] = kBlobFormat.read(bytes);
  if (kind != "labels") {
    base::fail(ErrorCode::kFormat, "the stored list of labels is of the unknown kind '{}'", kind);
  }
  std::vector<std::string> names;
  while (!payload.empty()) {
    const std::size_t end = payload.find('\n');
    if (end == std::string_view::npos) {
      base::fail(ErrorCode::kFormat, "the stored list of labels ends within a label");
    }
    names.emplace_back(payload.substr(0, end));
    payload.remove_prefix(end + 1);
  }
  try {
    return Labels(std::move(names));
  } catch (const Error& error) {
    base::fail(ErrorCode::kFormat, "the stored list of labels is damaged: {}", error.what());
  }
}

}  // namespace sluice::data
