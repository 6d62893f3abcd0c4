#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/model_info.h"
#include "sluice/profile.h"
#include "sluice/segmenters.h"

namespace sluice {

/// How to draw answers (docs/decoding.md). A sample follows from the seed, its input's place in the
/// call and its own number: whatever is decoded with it, and on whatever device but for the
/// rounding of the model's own numbers there.
struct SampleOptions {
  std::int64_t samples = 1;  ///< of each input
  double temperature = 1;    ///< tokens are drawn by p^(1 / temperature); 0: the most probable
  std::int64_t top_k = 0;    ///< only of so many most probable tokens; 0: of all
  double top_p = 1;          ///< only of the fewest most probable tokens that make up this much
  std::uint64_t seed = 1;
  /// No answer of an input is drawn twice (stochastic beams, docs/decoding.md): they stand in order
  /// of their draws, end by the maximum length, and are drawn from all tokens, so without top_k and
  /// top_p. Their normalised score is the perturbed one that they were drawn by.
  bool without_replacement = false;
};

/// How to decode. Lengths count tokens without the end mark.
struct DecodeOptions {
  /// Draw answers, rather than search for the best: beam, nbest and length_penalty then say
  /// nothing; forced, coverage_penalty and groups are refused.
  std::optional<SampleOptions> sample{};
  std::int64_t beam = 5;      ///< 1 is greedy search
  std::int64_t nbest = 1;     ///< hypotheses returned for an input, at most `beam`
  double length_penalty = 1;  ///< score / ((5 + length) / 6)^penalty; 0 for none
  std::int64_t min_length = 0;
  std::int64_t max_length = 256;
  /// What answers begin with: nothing, or a text for each input, which may be empty. Of the
  /// vocabulary's pieces it is a whole number: an answer goes on after the last. Scores count it.
  std::vector<std::string> prefixes{};
  /// Words and phrases that no answer holds, as the vocabulary splits them; what it can't spell no
  /// answer holds anyway. A prefix is taken all the same.
  std::vector<std::string> banned{};
  std::int64_t no_repeat = 0;  ///< no answer holds so many tokens in a row twice; 0: it may
  /// Words and phrases that answers hold, wherever: for each input its own, up to 64, or none at
  /// all. Only of a search.
  std::vector<std::vector<std::string>> forced{};
  /// Answers of a search compete by score / length penalty + this * sum over the input's tokens of
  /// log min(sum of attention, 1), to leave out no token; 0: they don't. Needs a model's attention.
  double coverage_penalty = 0;
  /// Searches that share the beams evenly and keep apart: at each step candidates of a group lose
  /// `diversity` for each beam of the groups before it that goes on with the same token.
  std::int64_t groups = 1;
  double diversity = 0.5;
  bool attention = false;  ///< whether hypotheses carry it; refused for models without
  /// Most inputs decoded together, fewer where they are long; 0: 32. Memory goes by the largest
  /// batch, and an enormous input is one alone.
  std::int64_t batch = 0;
  ProfileRequest profile{};  ///< its steps are batches of one call; by default the first five
};

struct Hypothesis {
  std::string text;
  double score = 0;                           ///< log p of the text and its end
  double normalised_score = 0;                ///< score under the length penalty; of a sample score
  std::vector<std::string> pieces;            ///< tokens as the vocabulary writes them
  std::vector<std::vector<float>> attention;  ///< [pieces][source pieces], if asked for
  bool ended = true;                          ///< else it was cut, and its score counts no end
};

struct Decoded {
  std::vector<std::string> source_pieces;
  std::vector<Hypothesis> hypotheses;  ///< best first; samples in the order of their numbers
};

/// {"input": 1, "answers": [{"text": ..., "score": ..., "normalised_score": ..., "pieces": [...]}]}
/// as one line without its end; `input` counts from 1. What is not UTF-8 becomes U+FFFD.
std::string to_json(const Decoded& decoded, std::size_t input);

struct Scored {
  double log_probability = 0;  ///< natural logarithm of p(target and its end | source)
  std::int64_t tokens = 0;     ///< target tokens, the end counted
};

/// A trained sequence-to-sequence model on a device. Not thread-safe.
class SequenceModel {
 public:
  /// Opens a checkpoint folder or its model.safetensors. Throws ErrorCode::kInvalidArgument for a
  /// model of another kind, with the commands that use it.
  static SequenceModel load(const std::string& path, const Placement& placement = {},
                            const SegmenterChoice& segmenters = {});
  ~SequenceModel();
  SequenceModel(SequenceModel&&) noexcept;
  SequenceModel& operator=(SequenceModel&&) noexcept;

  /// One result an input, in order. An empty input gives an empty text. An input of which nothing
  /// that is allowed has ended gets no hypothesis, and a warning says so. Throws
  /// ErrorCode::kFormat for text that is not UTF-8 (with its place), kInvalidArgument for options,
  /// kOutOfMemory for inputs that don't fit (with the bytes that were refused); the model stays
  /// usable.
  std::vector<Decoded> decode(std::span<const std::string> inputs,
                              const DecodeOptions& options = {});

  /// log p of each target given its source; pairs are {source, target}.
  std::vector<Scored> score(std::span<const std::pair<std::string, std::string>> pairs);

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
  explicit SequenceModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The attention of one hypothesis as a self-contained SVG picture.
std::string attention_svg(const Decoded& decoded, std::size_t hypothesis);

}  // namespace sluice
