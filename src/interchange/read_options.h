#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace sluice::runtime {
class Device;
}

namespace sluice::interchange {

/// What the caller says about a source, because its file does not.
class ReadOptions {
 public:
  /// The layer, the prefix of names or the node whose recurrent part is taken alone; empty: the
  /// whole model.
  std::string subgraph = {};
  /// A file that says what the arrays of a source are; empty: none.
  std::string map = {};

  /// Adds an answer, "forget_bias=1". Throws ErrorCode::kInvalidArgument unless it is KEY=VALUE
  /// with a key that is new.
  void answer(std::string_view text);
  /// To be called before a reader opens the file, which may be large: names all keys that it finds.
  /// Throws ErrorCode::kInvalidArgument, with the list, for an answer to another key. `format` is
  /// for that message: "a PyTorch file".
  void limit(std::string_view format, std::span<const std::string_view> keys);
  /// The answer to a key, for a reader; empty if the caller gave none. The key is one of limit().
  std::optional<std::string> find(std::string_view key) const;
  /// The same of a number; throws ErrorCode::kInvalidArgument for another text.
  std::optional<double> find_number(std::string_view key) const;
  /// The GPU whose cuDNN says how it lays a buffer of weights out. It must outlive the options.
  void set_device(runtime::Device* device) { device_ = device; }
  /// That GPU, for a reader; null: none was named.
  runtime::Device* device() const {
    asked_for_device_ = true;
    return device_;
  }
  bool asked_for_device() const { return asked_for_device_; }
  /// Throws ErrorCode::kInvalidArgument if a key was given that the reader had no use for: this
  /// source says it itself.
  void require_all_used() const;

 private:
  std::map<std::string, std::string, std::less<>> answers_;
  std::optional<std::set<std::string_view>> keys_;  ///< those of limit()
  mutable std::set<std::string, std::less<>> asked_;
  runtime::Device* device_ = nullptr;
  mutable bool asked_for_device_ = false;
};

}  // namespace sluice::interchange
