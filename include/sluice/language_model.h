#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/model_info.h"
#include "sluice/sequence_model.h"

namespace sluice {

/// A trained language model on a device. Not thread-safe.
class LanguageModel {
 public:
  /// Opens a checkpoint folder or its model.safetensors. Throws ErrorCode::kInvalidArgument for a
  /// model of another kind, with the commands that use it.
  static LanguageModel load(const std::string& path, const Placement& placement = {});
  ~LanguageModel();
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;

  /// log p of each text and its end, each by itself: of an empty text that of its end. Throws
  /// ErrorCode::kFormat for text that the tokenizer can't take, with its number and place.
  std::vector<Scored> score(std::span<const std::string> texts);

  ModelInfo info() const;

 private:
  struct State;
  explicit LanguageModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sluice
