#pragma once

#include <cstdint>

#include "kernels/beam_search/state.h"
#include "runtime/context.h"
#include "runtime/tensor.h"

/// Beam search over n inputs x k beams, as operations on a state that lives on the device. Row
/// i * k + b is beam b of input i. One search:
///
///   start; then for each step: the model's step (tokens -> logits, attention), advance, the
///   model's reorder (parents); at the end trace_back.
///
/// No operation waits for the device or reads from it, and none depends on a step number held by
/// the host: the same calls with the same tensors serve every step. What an input gets depends on
/// its own rows only.
namespace sluice::kernels::beam_search {

using runtime::Context;

/// What continuations are allowed, how hypotheses compete and when an input is done.
struct Rules {
  std::int64_t min_length = 0;  ///< eos is not allowed after fewer tokens
  /// Finished hypotheses compete by score / ((5 + length) / 6)^length_penalty, length with eos.
  double length_penalty = 0;
  /// An input is done when no live prefix can beat its worst kept hypothesis; with this also when
  /// as many hypotheses have finished as there are beams.
  bool stop_when_full = false;
  std::int32_t pad = 0;       ///< never allowed; what dead rows feed
  std::int32_t bos = 2;       ///< never allowed; what every prefix starts from
  std::int32_t eos = 3;       ///< ends a hypothesis
  std::int32_t unknown = -1;  ///< never allowed; -1: there is none
};

/// ((5 + length) / 6)^alpha: what a score is divided by. length counts eos.
double length_penalty(std::int64_t length, double alpha);

/// Sets all of the state but `max_lengths`, `prefix` and `prefix_lengths`, which are read: one live
/// prefix an input, of score 0. Maximum lengths are in 0..extent.max_length: a cpu leaf throws
/// ErrorCode::kInvalidArgument for others, a device without a host takes the nearer end. Tokens of
/// prefixes must be in the vocabulary and none of pad, bos and eos.
void start(const Context& context, const Rules& rules, const State& state);

/// A step's options beyond the rules, for extents that are not plain. On a GPU, plain steps are
/// faster.
struct Extras {
  /// int32 [rows, ceil(V / 32)], bits as in token_mask.h: tokens without one are never chosen.
  /// Scores stay those of the whole softmax. A prefix of the input is taken whatever the mask says.
  /// A row that may go on with nothing ends without a hypothesis. Absent: all tokens may follow.
  /// Only if the extent is `masked`.
  Tensor mask{};
  /// beta of Wu et al. 2016, eq. 14, if the extent has `coverage`: finished hypotheses compete by
  /// score / length penalty + beta * sum over source tokens of log min(sum of attention, 1).
  double coverage = 0;
  /// Penalty between groups (Vijayakumar et al. 2016): candidates rank by their score less this for
  /// each row of the groups before that has just chosen the same token. Scores stay the model's
  /// own.
  double diversity = 0;
  /// Temperature of draws without replacement (Kool et al. 2019), if the extent has a
  /// `sampled_vocabulary`: candidates rank by log q + noise, conditioned on their prefix's. q(v) is
  /// proportional to p(v)^(1 / temperature) among the tokens that may follow. Hypotheses compete by
  /// the same number, whatever their length.
  double temperature = 1;
  std::uint64_t seed = 1;
};

/// One step of the search. logits [rows, V] are those of the live prefixes' next tokens; attention
/// [rows, source_time], read if the state keeps attention, is where that step of the model looked.
/// Continuations of an input compete by (score, lower beam, larger logit, lower token); score is
/// the sum of log p, p the softmax over the whole vocabulary, forbidden tokens included. Of the
/// best `beam` those with eos finish; the best `beam` others become the new rows, best first. Where
/// an input has a prefix only its token for this step is allowed, at the input's maximum length
/// only eos. Rows that are not live and inputs that are done keep still: parents are the rows
/// themselves, tokens pad. Afterwards state.tokens is what the model is fed next and state.parents
/// what it is reordered by. A row of logits whose largest is not finite or that holds a NaN ends
/// its input and is noted in state.faults.
///
/// With phrases in the extent, no hypothesis ends before it holds all of its input's (Post and
/// Vilar 2018): a row's candidates are its best ones and the tokens that go on with a phrase; those
/// with equally many tokens of phrases to come make a bank, and banks take turns, the fullest
/// first. Once a row has room for nothing else, it goes on with a phrase.
///
/// Lengths and tokens that the state reads are on the device, so they are not checked: they must be
/// in the ranges that `State` gives, or memory beyond its tensors is read.
void advance(const Context& context, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention, const Extras& extras = {});

/// The choices of every step of a search, by row: int32, int32 and float64 [steps, rows].
struct StepRecord {
  Tensor tokens;   ///< pad where there is no prefix
  Tensor parents;  ///< rows of the step before
  Tensor scores;   ///< sum of log p; minus infinity where there is no prefix
  /// int32 [2]: steps that were taken, up to the one with which the last input was done; and
  /// whether all are done. Steps behind that choose nothing.
  Tensor taken;
};

/// Behind an `advance`: adds what it chose to the record. Steps beyond the record are left out.
void record(const Context& context, const State& state, const StepRecord& into);

/// Writes the kept hypotheses: tokens int32 [inputs, nbest, max_length], pad after the end;
/// attention, if the state keeps it, [inputs, nbest, max_length, source_time], that of the steps
/// that emitted the tokens, zero after the end.
void trace_back(const Context& context, const Rules& rules, const State& state,
                const Tensor& tokens, const Tensor& attention);

}  // namespace sluice::kernels::beam_search
