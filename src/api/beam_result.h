#pragma once

#include <span>

#include "data/tokenizer.h"
#include "decoding/beam_steps.h"
#include "models/step_model.h"
#include "runtime/buffer.h"
#include "sluice/beam.h"

namespace sluice {

/// A copy of what a search left in its plan's memory, on the device.
struct Beam::State {
  State(const runtime::Context& context_in, const data::Tokenizer& tokenizer_in,
        const decoding::BeamStepsResults& found, std::span<const models::StateTensor> states,
        bool every_beam);

  std::vector<std::vector<FinishedSequence>> finished() const;

  const runtime::Context& context;
  const data::Tokenizer& tokenizer;
  std::int64_t inputs, beam, nbest, steps;
  bool every_beam;  ///< whether the start had a row for each beam
  runtime::Buffer memory;
  runtime::Tensor tokens, parents, scores;                                ///< [steps, rows]
  runtime::Tensor best_scores, best_normalised, best_lengths, best_rows;  ///< [inputs, nbest]
  runtime::Tensor h, c;  ///< float32; c may be absent
  runtime::Tensor last;  ///< int32 [rows]: tokens to be fed next
};

}  // namespace sluice
