#pragma once

#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::training {

/// With data.stream: as the functions that read the configured files of a kind into memory, but the
/// examples to train on stay on the disk, as ids (frames as they are) in
/// `<output.directory>/prepared/`. That is done once: files that are as they were and settings that
/// are the same find it there. Texts and sequences pass through memory some at a time; vocabularies
/// are made of at most data.stream_vocabulary_lines of them, drawn by training.seed (all, if there
/// are no more), labels are those of all; examples to validate on are kept in memory. Vocabularies,
/// batches and fingerprint are then the same as without data.stream. `watch` is told what is being
/// done. Errors as the readers, and ErrorCode::kIo for what the disk refuses.
TrainData stream_seq2seq_data(const TrainConfig& config, const Tokenizers* saved,
                              const base::Watch& watch = {});
TrainData stream_language_model_data(const TrainConfig& config, const Tokenizers* saved,
                                     const base::Watch& watch = {});
TrainData stream_tagger_data(const TrainConfig& config, const Tokenizers* saved,
                             const base::Watch& watch = {});
TrainData stream_classifier_data(const TrainConfig& config, const Tokenizers* saved,
                                 const base::Watch& watch = {});
TrainData stream_features_data(const TrainConfig& config, const Tokenizers* saved,
                               const base::Watch& watch = {});

/// The examples of the same files to validate on alone: nothing is prepared, and the files to train
/// on are read, some lines at a time, only if some of them are held out. TrainData::train is null.
TrainData streamed_seq2seq_validation(const TrainConfig& config, const Tokenizers& tokenizers);
TrainData streamed_language_model_validation(const TrainConfig& config,
                                             const Tokenizers& tokenizers);
TrainData streamed_tagger_validation(const TrainConfig& config, const Tokenizers& tokenizers);
TrainData streamed_classifier_validation(const TrainConfig& config, const Tokenizers& tokenizers);
TrainData streamed_features_validation(const TrainConfig& config, const Tokenizers& tokenizers);

}  // namespace sluice::training
