#include "decoding/steps.h"

namespace sluice::decoding {
namespace {

/// Steps that are captured together: an even number, after which a model's state lies where it did.
constexpr std::int64_t kCaptured = 8;

}  // namespace

runtime::GraphKey key_of(std::initializer_list<std::int64_t> sizes) {
  runtime::GraphKey key;
  for (const std::int64_t size : sizes) key.push_back(static_cast<std::uint64_t>(size));
  return key;
}

void Steps::take(const runtime::Context& context, const models::StepModel& model, const Poll& poll,
                 std::int64_t most, const runtime::Tensor& unfinished, const runtime::Arena& arena,
                 runtime::GraphKey key, const std::function<void(bool first)>& take) {
  // A search that is looked at more often may be done before.
  const bool captures =
      poll.every() >= kCaptured && model.steps_key() && context.stream().can_capture();
  // The first differs from the others; behind the odd ones come whole pieces.
  const std::int64_t alone = captures ? (most - 1) % kCaptured + 1 : most;
  for (std::int64_t taken = 0, now = 0; now < most; taken = now) {
    context.check_interrupt();
    if (now < alone) {
      take(now == 0);
      ++now;
    } else {
      if (now == alone) {
        const runtime::GraphKey of_model = *model.steps_key();
        key.insert(key.end(), of_model.begin(), of_model.end());
        key.push_back(context.tf32() ? 1 : 0);
        key.push_back(runtime::key_of(&context.stream()));
        key.push_back(runtime::key_of(arena.saved_data()));
        key.push_back(runtime::key_of(arena.scratch_data()));
      }
      graphs_.run(context.stream(), key, [&] {
        for (std::int64_t i = 0; i < kCaptured; ++i) take(false);
      });
      now += kCaptured;
    }
    if (now < most && poll.is_done(taken, now, unfinished)) break;
  }
}

}  // namespace sluice::decoding
