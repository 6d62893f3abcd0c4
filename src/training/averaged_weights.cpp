#include "training/averaged_weights.h"

#include "base/warn.h"
#include "kernels/elementwise/elementwise.h"

namespace sluice::training {

AveragedWeights::AveragedWeights(const Context& context, const layers::Parameters& parameters,
                                 const Optimizer& optimizer, std::int64_t steps)
    : context_(&context), parameters_(optimizer.average_sum() ? &parameters : nullptr) {
  if (parameters_ == nullptr) return;
  SLUICE_ASSERT(steps >= 1);
  context.copy(parameters.gradients(), parameters.values());
  context.copy(parameters.values(), optimizer.average_sum());
  kernels::elementwise::scale(context, parameters.values(), 1 / optimizer.average_weight(steps));
  parameters.note_change();
}

AveragedWeights::~AveragedWeights() {
  if (parameters_ == nullptr) return;
  try {
    context_->copy(parameters_->values(), parameters_->gradients());
    parameters_->note_change();
    // What isn't marked must be zero.
    context_->zero(parameters_->gradients());
  } catch (const Error& error) {
    // Only a device that is lost refuses; whatever is asked of it next fails likewise.
    base::warn(context_->warnings(), "the weights could not be put back: {}", error.what());
  }
}

}  // namespace sluice::training
