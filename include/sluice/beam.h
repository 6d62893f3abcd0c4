#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Sizes of a language model's states.
struct StateShape {
  std::int64_t layers = 0;
  std::int64_t width = 0;   ///< of h
  std::int64_t hidden = 0;  ///< of c; 0 of cells without one
};

/// Where sequences of a language model stand: what LanguageModel::read gives, or a caller makes.
/// A row is one sequence.
struct RowStates {
  std::vector<float> h;              ///< [layers, rows, width]
  std::vector<float> c;              ///< [layers, rows, hidden]; empty of cells without
  std::vector<std::int32_t> tokens;  ///< [rows]: the last token of each, which is yet to be fed
};

/// Where a beam search begins. There is a row for each input, or with `every_beam` one for each
/// beam of each input: row i * beam + b is beam b of input i. Empty arrays stand for what is said.
struct BeamStart {
  std::int64_t inputs = 1;  ///< inputs * beam is at most 2^24
  bool every_beam = false;
  std::span<const float> h{};  ///< [layers, rows, width]; empty: zero
  std::span<const float> c{};  ///< [layers, rows, hidden]; empty: zero
  std::span<const std::int32_t>
      tokens{};  ///< [rows]: what each is fed first; empty: the start mark
  /// [rows]: log p of each so far, minus infinity where there is no sequence; empty: 0.
  std::span<const double> scores{};
  /// Whether h and c lie in memory of the model's GPU. The work that fills them must have ended.
  bool states_on_device = false;
};

/// How a beam search goes on.
struct BeamStepOptions {
  std::int64_t steps = 1;  ///< most tokens to add, up to 2^20
  std::int64_t beam = 5;   ///< at most 4096 and the vocabulary
  std::int64_t nbest = 0;  ///< finished sequences kept of each input, at most `beam`; 0: `beam`
  std::int64_t min_length = 0;  ///< no sequence ends before it has got so many tokens
  double length_penalty = 0;    ///< finished ones compete by score / ((5 + length) / 6)^penalty
  bool allow_unknown = false;  ///< whether the unknown token may be chosen; pad and start never are
  /// [mask_steps, mask_inputs, vocabulary]: not 0 where a token may be chosen. `mask_steps` is 1 or
  /// `steps`, `mask_inputs` 1 or the number of inputs. Empty: all may be.
  std::span<const std::uint8_t> allowed{};
  std::int64_t mask_steps = 1, mask_inputs = 1;
};

/// A sequence that ended during a beam search.
struct FinishedSequence {
  std::vector<std::int32_t> tokens;  ///< that the search added, without the end mark
  std::string text;                  ///< of these tokens
  double score = 0;                  ///< log p, the start's score and the end mark counted
  double normalised_score = 0;       ///< under the length penalty
  std::int64_t row = 0;              ///< of the start, that it goes on from
};

/// The choices of a beam search. They lie on the model's device until they are asked for. It must
/// not outlive the model.
class Beam {
 public:
  ~Beam();
  Beam(Beam&&) noexcept;
  Beam& operator=(Beam&&) noexcept;

  std::int64_t inputs() const;
  std::int64_t beam() const;
  /// Steps that were taken: fewer than asked for if no sequence could get any better.
  std::int64_t steps() const;

  /// [steps, inputs, beam]: the token that each row took; 0, the pad, where there is no sequence.
  std::vector<std::int32_t> tokens() const;
  /// [steps, inputs, beam]: the row of the step before, or of the start, that each goes on from.
  /// Rows of one input are numbered from input * beam on, in a start without `every_beam` too.
  std::vector<std::int32_t> parents() const;
  /// [steps, inputs, beam]: log p of each; minus infinity where there is no sequence. Best first.
  std::vector<double> scores() const;
  /// Ended sequences of each input, best first.
  std::vector<std::vector<FinishedSequence>> finished() const;
  /// Where the rows of the last step stand, to go on from with `every_beam`. Two searches choose
  /// what one of as many steps does if the length penalty is 0; with another, lengths begin anew.
  RowStates states() const;

  /// The same arrays in memory of the model's device, ready to be read; valid as long as this.
  const std::int32_t* device_tokens() const;
  const std::int32_t* device_parents() const;
  const double* device_scores() const;

  /// Made by LanguageModel::beam.
  struct State;
  explicit Beam(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace sluice
