#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/model_info.h"
#include "sluice/profile.h"
#include "sluice/segmenters.h"

namespace sluice {

/// What a text is taken for.
struct Classified {
  std::size_t label = 0;              ///< the likeliest: its place among Classifier::labels
  std::vector<double> probabilities;  ///< of each label
};

/// A trained classifier of texts on a device. Not thread-safe.
class Classifier {
 public:
  /// Opens a checkpoint folder or its model.safetensors. Throws ErrorCode::kInvalidArgument for a
  /// model of another kind, with the commands that use it.
  static Classifier load(const std::string& path, const Placement& placement = {},
                         const SegmenterChoice& segmenters = {});
  ~Classifier();
  Classifier(Classifier&&) noexcept;
  Classifier& operator=(Classifier&&) noexcept;

  const std::vector<std::string>& labels() const;
  /// Names of the columns of its training's table: texts, labels.
  std::pair<std::string, std::string> columns() const;
  /// One result a text, in order; what it is doesn't depend on the other texts beyond rounding. A
  /// text without tokens gets what the model says of nothing. Throws ErrorCode::kFormat for text
  /// that is not UTF-8, with its place.
  std::vector<Classified> classify(std::span<const std::string> texts);

  /// Why a text can't be given in parts; empty if it can: by a model of one direction that pools by
  /// the last token.
  std::string refuse_parts() const;
  /// What a text is taken for as far as it has come; this is its next part, tokenized by itself, so
  /// parts are best cut between words. After all parts it is what `classify` says of the tokens
  /// together. Errors as `classify`, and ErrorCode::kInvalidArgument if refuse_parts() says
  /// something.
  Classified classify_part(const std::string& text);
  /// The next part begins a new text.
  void begin_text();
  /// Writes where the text stands to a file, for this model on any device to go on from. Throws
  /// ErrorCode::kIo if the disk refuses, and as classify_part.
  void save_state(const std::string& path);
  /// The next part goes on from there. Throws ErrorCode::kNotFound if there is no file, kFormat for
  /// one that is damaged or of another model, and as classify_part; then all stays as it was.
  void load_state(const std::string& path);
  /// Where the text stands, as the bytes of that file: so one model takes turns with many. Throws
  /// as classify_part.
  std::string state();
  /// The next part goes on from there. Throws as load_state, the bytes being what it calls a file.
  void set_state(std::string_view bytes);

  ModelInfo info() const;
  /// What the model keeps between calls; clear_plan_cache() frees it.
  PlanCacheUse plan_cache() const;
  void clear_plan_cache();
  /// Records all calls from here on (sluice/profile.h; its steps are batches of each call, by
  /// default all). Throws ErrorCode::kInvalidArgument if a profile has begun already, kIo for a
  /// trace that can't be written.
  void begin_profile(const ProfileRequest& request);
  /// Ends that: writes the trace and prints the breakdown. Without it there is neither.
  void end_profile();

 private:
  struct State;
  explicit Classifier(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sluice
