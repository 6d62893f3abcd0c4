#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/model_info.h"
#include "sluice/profile.h"

namespace sluice {

/// Neighbouring tokens that are one entity.
struct Entity {
  std::string type;
  std::int64_t begin = 0;  ///< first token
  std::int64_t end = 0;    ///< behind the last token
};

/// A sentence with a label for each token.
struct TaggedSentence {
  std::vector<std::string> tokens;
  std::vector<std::string> labels;
  std::vector<Entity> entities;  ///< what labels such as B-person, I-person and O spell
};

/// How to tag.
struct TagOptions {
  /// Most sentences tagged together, fewer where they are long; 0: 64.
  std::int64_t batch = 0;
  ProfileRequest profile{};  ///< its steps are batches of one call; by default the first five
};

/// A trained tagger on a device. Not thread-safe.
class Tagger {
 public:
  /// Opens a checkpoint folder or its model.safetensors. Throws ErrorCode::kInvalidArgument for a
  /// model of another kind, with the commands that use it.
  static Tagger load(const std::string& path, const Placement& placement = {});
  ~Tagger();
  Tagger(Tagger&&) noexcept;
  Tagger& operator=(Tagger&&) noexcept;

  /// One result a sentence, in order; one without tokens gets no labels. Throws ErrorCode::kFormat
  /// for a token that is empty, holds white space or is not UTF-8 (with its place),
  /// kInvalidArgument for options, kOutOfMemory for sentences that don't fit; the model stays
  /// usable.
  std::vector<TaggedSentence> tag(std::span<const std::vector<std::string>> sentences,
                                  const TagOptions& options = {});

  /// Why a sentence can't be given in parts; empty if it can: by a model of one direction with a
  /// softmax.
  std::string refuse_parts() const;
  /// Labels of the next tokens of one sentence, whose state is kept from call to call: those of all
  /// parts together are what `tag` gives of the whole. A part may be empty, and has no labels.
  /// Entities are those that the part's labels spell. Errors as `tag`, and
  /// ErrorCode::kInvalidArgument if refuse_parts() says something.
  TaggedSentence tag_part(std::span<const std::string> tokens);
  /// The next part begins a new sentence.
  void begin_sentence();
  /// Writes where the sentence stands to a file, for this model on any device to go on from. Throws
  /// ErrorCode::kIo if the disk refuses, and as tag_part.
  void save_state(const std::string& path);
  /// The next part goes on from there. Throws ErrorCode::kNotFound if there is no file, kFormat for
  /// one that is damaged or of another model, and as tag_part; then all stays as it was.
  void load_state(const std::string& path);
  /// Where the sentence stands, as the bytes of that file: so one model takes turns with many.
  /// Throws as tag_part.
  std::string state();
  /// The next part goes on from there. Throws as load_state, the bytes being what it calls a file.
  void set_state(std::string_view bytes);

  /// The labels it gives.
  const std::vector<std::string>& labels() const;
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
  explicit Tagger(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Which columns of a CoNLL file are read, counted from 1, or from the end: -1 is the last.
struct ConllColumns {
  std::int64_t token = 1;
  std::int64_t label = 0;  ///< 0: labels aren't read
};

/// The sentences of a CoNLL file, plain or gzip; "-" is standard input. Throws ErrorCode::kFormat
/// with file and line for lines with other columns than the first, else as every reading does. If
/// the first of several columns between spaces is read alone, as of plain text, a warning says so.
std::vector<TaggedSentence> read_conll(const std::string& path, const ConllColumns& columns = {},
                                       const WarningHandler& warnings = {});

/// A line `token TAB label` for each token, and an empty one.
std::string to_conll(const TaggedSentence& sentence);
/// {"tokens": [..], "labels": [..], "entities": [{"type", "begin", "end", "text"}, ..]} in one
/// line.
std::string to_json(const TaggedSentence& sentence);

/// How found entities compare with the right ones: those of the conlleval script and the seqeval
/// package. A share of nothing is 0.
struct EntityScores {
  struct Type {
    std::string name;
    std::int64_t correct = 0, predicted = 0, expected = 0;
    double precision = 0, recall = 0, f1 = 0;
  };
  std::int64_t tokens = 0;
  std::int64_t correct_tokens = 0;  ///< whose label is the right one
  std::vector<Type> types;          ///< in byte order
  Type all;                         ///< of all types together: the micro average
};

/// Throws ErrorCode::kInvalidArgument unless both have the same number of sentences and labels.
EntityScores score_entities(std::span<const TaggedSentence> predicted,
                            std::span<const TaggedSentence> expected);

}  // namespace sluice
