#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::data {

/// The labels that a tagger or a classifier gives, by id from 0 on. Unlike a tokenizer's, none is
/// special: a label that is not among them is the caller's to refuse.
class Labels {
 public:
  /// Throws ErrorCode::kInvalidArgument if there is none, or if one is empty, has a line break or
  /// stands there twice.
  explicit Labels(std::vector<std::string> names);

  std::int32_t size() const { return static_cast<std::int32_t>(names_.size()); }
  /// Throws ErrorCode::kInvalidArgument for an id outside [0, size()).
  const std::string& name(std::int32_t id) const;
  /// Nothing if it is none of them.
  std::optional<std::int32_t> find(std::string_view name) const;
  const std::vector<std::string>& names() const { return names_; }

  /// The bytes that a checkpoint stores (data/sealed.h), a label a line.
  std::string serialize() const;
  /// The inverse. Throws ErrorCode::kFormat if `bytes` are not labels, damaged, truncated, or of
  /// another revision.
  static Labels parse(std::string_view bytes);

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace sluice::data
