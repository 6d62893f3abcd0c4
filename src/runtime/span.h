#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "runtime/context.h"
#include "runtime/profiler.h"

namespace sluice::runtime {

/// What is queued (and, on the CPU, computed) while it lives is work of a module, in profiles and
/// for tools that watch (NVTX). Names as in SpanLabel. Costs a look at a pointer where nobody
/// watches, so it stands where a module's work begins, not in every kernel.
class Span {
 public:
  Span(const Context& context, std::string_view module, std::string_view pass = {})
      : profiler_(context.profiler()) {
    if (profiler_ != nullptr) [[unlikely]]
      profiler_->enter(module, pass);
  }
  ~Span() {
    if (profiler_ != nullptr) [[unlikely]]
      profiler_->leave();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Profiler* profiler_;
};

/// A layer's part of the span around it, for operations that run a whole stack: what queues the
/// layers' work opens it. The profiler may be null.
class LayerSpan {
 public:
  LayerSpan(Profiler* profiler, std::int64_t layer) : profiler_(profiler) {
    if (profiler_ != nullptr) [[unlikely]]
      profiler_->enter_layer(layer);
  }
  ~LayerSpan() {
    if (profiler_ != nullptr) [[unlikely]]
      profiler_->leave();
  }
  LayerSpan(const LayerSpan&) = delete;
  LayerSpan& operator=(const LayerSpan&) = delete;

 private:
  Profiler* profiler_;
};

/// Runs step `number` (counted from 1) of what is profiled by steps; `name` says what a step is.
/// The profile is handed on when the last step of it is done. Before the step, the caller of the
/// library may end its call (Context::check_interrupt).
template <typename Work>
void run_step(const Context& context, std::string_view name, std::int64_t number, Work&& work) {
  context.check_interrupt();
  Profiler* profiler = context.profiler();
  if (profiler == nullptr) return std::forward<Work>(work)();
  profiler->begin_step(context, name, number);
  try {
    std::forward<Work>(work)();
  } catch (...) {
    profiler->abandon_step();
    throw;
  }
  profiler->end_step(context);
}

}  // namespace sluice::runtime
