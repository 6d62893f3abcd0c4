#pragma once

#include <cstdint>
#include <functional>

#include "decoding/poll.h"
#include "models/step_model.h"

namespace sluice::decoding {

/// Calls `take(first)`, which queues one step of a search, `most` times or until the poll finds
/// nothing `unfinished`. Where the device captures work and the model's steps can be captured, the
/// steps of a long search are queued by eights, as one piece of work that is captured once.
void take_steps(const runtime::Context& context, const models::StepModel& model, const Poll& poll,
                std::int64_t most, const runtime::Tensor& unfinished,
                const std::function<void(bool first)>& take);

}  // namespace sluice::decoding
