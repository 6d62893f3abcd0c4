#pragma once

#include "runtime/context.h"
#include "sluice/train.h"
#include "training/progress.h"
#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::api {

/// The configuration that a request asks for, validated.
training::TrainConfig config_of(const TrainRequest& request);

/// A context on `device` that computes as a configuration says. Throws ErrorCode::kInvalidArgument
/// for a precision that the device lacks or has no fast code for.
runtime::Context context_of(runtime::Device& device, const training::TrainConfig& config);

/// The examples that a configuration names (training::Task::read_data). `progress`, which may be
/// null, shows what takes a while; `interrupt` is called meanwhile.
training::TrainData read_data(const training::TrainConfig& config,
                              const model_files::Tokenizers* saved, training::Progress* progress,
                              const InterruptCheck& interrupt = {});

/// As sluice::train, by this configuration instead of the request's.
TrainReport train(const TrainRequest& request, const training::TrainConfig& config);

}  // namespace sluice::api
