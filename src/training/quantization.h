#pragma once

#include <string>
#include <vector>

#include "data/examples.h"
#include "training/checkpoint.h"

/// A trained model in fewer bits: docs/quantization.md.
namespace sluice::training {

/// Whether a parameter is stored in fewer bits when its model is: matrices that layers multiply by,
/// and embeddings.
bool is_quantized(const model_files::ModelKind& kind, const layers::ParameterSpec& parameter);

/// What 8 bits are spread over, and how far the model is then from what it is in float32: the mean
/// over examples of by how much their log p differs.
struct Calibration {
  /// Of each parameter, in order: the share of the range of its rows (model_files::add_stored); 1
  /// for those that are not quantized.
  std::vector<double> clips;
  double before = 0;  ///< with all shares 1
  double after = 0;   ///< with these
};

/// One parameter after the other takes the share under which the model is the nearest to itself in
/// float32, on some of `examples`, while those before it have theirs and those after it have 1; a
/// smaller share must bring it nearer by a fiftieth. The least loss would be another aim: shares
/// below 1 shrink weights, which cures an overconfident model of some loss and of right answers.
/// `context` is of precision int8. The model has its own weights again afterwards, unless it
/// throws. Waits for the device.
Calibration calibrate(const Context& context, const LoadedModel& loaded,
                      const data::Examples& examples);

/// The model as model_files::save_model would write it, with its matrices in `dtype`: bfloat16, or
/// int8 with these shares of the ranges (Calibration; empty: all of them).
io::Container quantized_container(const Context& context, const LoadedModel& loaded,
                                  io::DType dtype, const std::vector<double>& clips = {});

/// The configuration of a model's run with other files to read: `data` to validate on, and none to
/// train on. `targets` is the second file of pairs or of frames, if there are two; else empty.
/// `resets` are those of frames, or empty.
TrainConfig config_to_read(const LoadedModel& loaded, const std::string& data,
                           const std::string& targets, const std::string& resets = {});

/// The examples of such a configuration, with the model's vocabularies, for it to be judged on:
/// TrainData::validation is there. Throws as Task::read_validation and Task::require_widths.
TrainData read_to_judge(const LoadedModel& loaded, const TrainConfig& config);

/// Batches of training, into which every one of these examples fits.
data::BatchOptions batches_to_judge(const LoadedModel& loaded, const data::Examples& examples);

/// The validation metric that a kind of model is judged by.
std::string_view usual_metric(const LoadedModel& loaded);

}  // namespace sluice::training
