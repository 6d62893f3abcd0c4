#pragma once

#include <string>

namespace sluice {

/// A training run as one HTML page that needs no other file: curves of loss, learning rate,
/// gradient norm and validation metrics, what the best model answers to some examples held out
/// (where the kind of model gives text), a summary of the data, and all settings. `directory` is
/// the run's output folder; examples are read from the files that its configuration names, and if
/// they cannot be, the page says why. Commands that segment texts are run only if
/// `trust_segmenter` (sluice/segmenters.h). Throws Error for a folder without a checkpoint or event
/// files, and for damaged ones.
std::string training_report(const std::string& directory, bool trust_segmenter = false);

}  // namespace sluice
