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

  /// The same, with whose labels they are, for refusals: "that the run in 'x' was started with",
  /// which `advice` may follow; else "that training has".
  Labels held_by(std::string owner, std::string advice = "") const;
  /// Throws ErrorCode::kFormat: at `where` (file and line) stands a label that is none of them.
  [[noreturn]] void refuse(std::string_view where, std::string_view name) const;

  /// The bytes that a checkpoint stores (io/checksummed_blob.h), a label a line.
  std::string serialize() const;
  /// The inverse. Throws ErrorCode::kFormat if `bytes` are not labels, damaged, truncated, or of
  /// another revision.
  static Labels parse(std::string_view bytes);

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::string owner_ = "that training has";
  std::string advice_;
};

}  // namespace sluice::data
