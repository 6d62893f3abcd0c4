#pragma once

#include "sluice/train.h"
#include "training/train_config.h"

namespace sluice::api {

/// The configuration that a request asks for, validated.
training::TrainConfig config_of(const TrainRequest& request);

/// As sluice::train, by this configuration instead of the request's.
TrainReport train(const TrainRequest& request, const training::TrainConfig& config);

}  // namespace sluice::api
