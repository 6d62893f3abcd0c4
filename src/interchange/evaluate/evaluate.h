#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "interchange/source_model.h"

/// Computes a SourceModel by the equations of its source, in double precision. It reads the tensors
/// as they are and knows nothing of gate_blocks.h, so that it can prove a conversion.
namespace sluice::interchange {

/// The numbers of one sequence, [steps, width].
struct Sequence {
  std::int64_t steps = 0, width = 0;
  std::vector<double> values = {};

  const double* row(std::int64_t step) const { return values.data() + step * width; }
  double* row(std::int64_t step) { return values.data() + step * width; }
};
Sequence make_sequence(std::int64_t steps, std::int64_t width);

/// The output of a layer. Of a linear layer with a softmax these are the logits, without it.
struct LayerOutput {
  std::string name;
  Sequence value;
};

/// Random errors, as of numbers with fewer bits, in all that recurrent layers read: inputs and
/// states. They show how much of such errors arrives in the outputs.
struct Noise {
  double size = 0;  ///< largest error relative to the number
  std::uint64_t seed = 1;
};

/// The outputs of all layers for one sequence: ids if the chain begins with an embedding, else
/// frames. Throws ErrorCode::kInvalidArgument for an id or a width that the first layer lacks.
std::vector<LayerOutput> evaluate(const SourceModel& model, const std::vector<std::int64_t>& ids,
                                  const Noise& noise = {});
std::vector<LayerOutput> evaluate(const SourceModel& model, const Sequence& frames,
                                  const Noise& noise = {});
/// The outputs of an encoder-decoder's encoder for `ids`, then those of its decoder for the ids
/// that it is fed.
std::vector<LayerOutput> evaluate(const SourceModel& model, const std::vector<std::int64_t>& ids,
                                  const std::vector<std::int64_t>& fed, const Noise& noise = {});

}  // namespace sluice::interchange
