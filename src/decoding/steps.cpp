#include "decoding/steps.h"

#include <memory>

namespace sluice::decoding {
namespace {

/// Steps that are captured together: an even number, after which a model's state lies where it did.
constexpr std::int64_t kCaptured = 8;
/// Steps before that. They take what must not be taken in a capture; and to capture some costs as
/// much as to queue them, so that a short search gains nothing.
constexpr std::int64_t kQueued = 16;

}  // namespace

void take_steps(const runtime::Context& context, const models::StepModel& model, const Poll& poll,
                std::int64_t most, const runtime::Tensor& unfinished,
                const std::function<void(bool first)>& take) {
  // A search that is looked at more often may be done before.
  const bool captures =
      poll.every() >= kCaptured && model.can_capture_steps() && context.stream().can_capture();
  // Its last launch may still run when it is let go: CUDA keeps what that needs.
  std::unique_ptr<runtime::Graph> captured;
  for (std::int64_t taken = 0, now = 0; now < most; taken = now) {
    if (captures && now >= kQueued && now + kCaptured <= most) {
      if (!captured) {
        captured = context.stream().capture([&] {
          for (std::int64_t i = 0; i < kCaptured; ++i) take(false);
        });
      }
      captured->launch(context.stream());
      now += kCaptured;
    } else {
      take(now == 0);
      ++now;
    }
    if (now < most && poll.is_done(taken, now, unfinished)) break;
  }
}

}  // namespace sluice::decoding
