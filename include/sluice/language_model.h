#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/beam.h"
#include "sluice/model_info.h"
#include "sluice/profile.h"
#include "sluice/segmenters.h"
#include "sluice/sequence_model.h"

namespace sluice {

/// Vectors that texts are conditioned on: the numbers of each, one behind the other.
struct FeatureVectors {
  std::int64_t width = 0;  ///< numbers of a vector
  std::vector<float> values;
};

/// Reads float32 or float64 arrays of NumPy, [vectors, features] or [features], from a .npy file, a
/// .npz file or a folder of .npy files, in their order. Throws ErrorCode::kFormat for what is none
/// or holds numbers that are not finite, with their place.
FeatureVectors read_feature_vectors(const std::string& path);

/// How to search for the likeliest texts rather than draw some.
struct BeamOptions {
  std::int64_t beam = 5;
  std::int64_t nbest = 1;     ///< texts to give, at most `beam`
  double length_penalty = 1;  ///< score / ((5 + length) / 6)^penalty; 0 for none
  std::int64_t groups = 1;    ///< as DecodeOptions::groups, with `diversity`
  double diversity = 0.5;
  std::vector<std::string> forced{};  ///< words and phrases that each text holds, up to 64
};

/// What to generate. Lengths count tokens without the end mark.
struct GenerateOptions {
  SampleOptions sample{};  ///< how to draw; a text follows from the seed and its number
  /// Search instead. `sample` then says nothing; `sample.without_replacement` is refused.
  std::optional<BeamOptions> search{};
  std::string prefix{};  ///< what texts begin with; scores count it
  /// As of DecodeOptions, of texts that are drawn or searched for; not of those that continue from
  /// a state or are to be continued, for it doesn't hold their tokens.
  std::vector<std::string> banned{};
  std::int64_t no_repeat = 0;
  /// Of a model on features: `sample.samples` texts, or `search->nbest`, are written for each
  /// vector, in their order. Texts that a vector lacks, because nothing else that is allowed has
  /// ended, are empty, have not ended and have a score of minus infinity.
  FeatureVectors features{};
  std::int64_t min_length = 0;
  /// Drawn texts are cut there; those of a search end there, whatever that costs their score.
  std::int64_t max_length = 256;
  std::int64_t batch = 0;  ///< texts drawn together; 0: 256
  /// A file that `save_state` wrote, for texts of this model that were cut: what is generated goes
  /// on with them, to the bit as if they had not been cut (on a device of the same kind). Number of
  /// texts and seed are the file's; texts that had ended stay empty; scores count all since the
  /// first token.
  std::string state{};
  std::string save_state{};  ///< file to store where the texts stand, to continue them later
};

/// Texts that can be continued.
struct TextParts {
  std::vector<Hypothesis> texts;
  std::string state;  ///< the bytes of the file that GenerateOptions::save_state would have named
};

/// A trained language model on a device. Not thread-safe.
class LanguageModel {
 public:
  /// Opens a checkpoint folder or its model.safetensors. Throws ErrorCode::kInvalidArgument for a
  /// model of another kind, with the commands that use it, kNotFound or kFormat as every loading
  /// does.
  static LanguageModel load(const std::string& path, const Placement& placement = {},
                            const SegmenterChoice& segmenters = {});
  ~LanguageModel();
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;

  /// Texts in the order of their numbers, or of a search best first. A text of which nothing that
  /// is allowed has ended is left out (GenerateOptions::features), and a warning says so. Throws
  /// ErrorCode::kInvalidArgument for options that can't be or contradict each other, kFormat for a
  /// damaged state or one of another model, kIo if the state can't be written.
  std::vector<Hypothesis> generate(const GenerateOptions& options = {});
  /// The same with states in memory rather than in files, which `options` can't name: goes on from
  /// a TextParts::state, as GenerateOptions::state says, or begins if it is empty.
  TextParts generate_part(const GenerateOptions& options = {}, std::string_view state = {});

  /// log p of each text and its end, each by itself: of an empty text that of its end. A model on
  /// features takes a vector for each text. Throws ErrorCode::kFormat for text that the tokenizer
  /// can't take, with its number and place; kInvalidArgument for vectors that don't fit.
  std::vector<Scored> score(std::span<const std::string> texts,
                            const FeatureVectors& features = {});

  /// Sizes of the states that `read` gives and `beam` takes.
  StateShape state_shape() const;
  /// Where the model stands after each text (nothing: at the beginning), for `beam` to go on from.
  /// A model on features takes a vector for each text. Throws as `score`.
  RowStates read(std::span<const std::string> texts, const FeatureVectors& features = {});
  /// Beam search from states, scores and tokens of the caller's. It takes a number of steps and
  /// keeps what each of them chose; no sequence is made to end. Throws ErrorCode::kInvalidArgument
  /// for options, arrays that don't fit, tokens that the vocabulary lacks, scores and states that
  /// are NaN, and a mask that allows nothing somewhere; kOutOfMemory as `generate`.
  Beam beam(const BeamStart& start, const BeamStepOptions& options);
  /// How each token is written, by its id. Those of 0 to 3 are the pad, the unknown token, the
  /// start and the end mark.
  std::vector<std::string> vocabulary() const;
  std::int64_t vocabulary_size() const;

  /// Numbers of the vector that its texts are conditioned on; 0: they aren't.
  std::int64_t features() const;

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
  explicit LanguageModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// {"text": ..., "score": ..., "normalised_score": ..., "pieces": [...], "ended": true} as one line
/// without its end. What is not UTF-8 becomes U+FFFD.
std::string to_json(const Hypothesis& hypothesis);

}  // namespace sluice
