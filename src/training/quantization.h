#pragma once

#include <string>
#include <vector>

#include "data/examples.h"
#include "training/checkpoint.h"

/// A trained model in fewer bits: docs/quantization.md.
namespace sluice::training {

/// Whether a parameter is stored in fewer bits when its model is: matrices that layers multiply by,
/// and embeddings.
bool is_quantized(const Task& task, const layers::ParameterSpec& parameter);

/// Of each parameter of a model, in order: the share of the range of its rows that 8 bits are
/// spread over (add_stored); 1 for those that are not quantized. One after the other takes the
/// share under which the loss of `examples` is the least while those before it have theirs and
/// those after it have 1; a smaller share must be better by a ten-thousandth. `context` is of
/// precision int8. The model has its own weights again afterwards, unless it throws. Waits for the
/// device.
std::vector<double> calibrate(const Context& context, const LoadedModel& loaded,
                              const data::Examples& examples);

/// The model as save_model would write it, with its matrices in `dtype`: bfloat16, or int8 with
/// these shares of the ranges (as calibrate returns; empty: all of them).
io::Container quantized_container(const Context& context, const LoadedModel& loaded,
                                  io::DType dtype, const std::vector<double>& clips = {});

/// The configuration of a model's run with other files to read: `data` for training and validation
/// alike, so that Task::read_data reads it with the model's vocabularies. `targets` is the second
/// file of pairs or of frames, if there are two; else empty.
TrainConfig config_to_read(const LoadedModel& loaded, const std::string& data,
                           const std::string& targets);

/// The validation metric that a kind of model is judged by.
std::string_view usual_metric(const LoadedModel& loaded);

}  // namespace sluice::training
