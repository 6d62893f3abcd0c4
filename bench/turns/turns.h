#pragma once

#include <iosfwd>

namespace sluice::bench {

/// Measures when another program says so, so that both take turns in one run: the peer scripts of
/// bench/peers drive it. Reads commands, one a line, and answers each with one line of JSON:
///
///   open FILE PASS IMPLEMENTATIONS NAME key=value …
///     Makes a shape (a line of a shape file) ready, and writes its inputs, weights and results to
///     FILE. PASS is forward, forward+backward or step. IMPLEMENTATIONS are names with commas
///     between, or auto. Answer: {"rows": […]}, a result of bench lstm for each implementation
///     without times: `milliseconds` is 1, and `gflops` what that would be.
///   run INDEX COUNT
///     Runs that implementation COUNT times. Answer: {"milliseconds": M}, the last one's; of a step
///     the mean of the COUNT calls.
///
/// A command that fails is answered by {"error": "…"}; then nothing is open if it was `open`.
/// Returns at the end of `in`.
///
/// FILE is a safetensors file of flat float32 tensors: x, h0, c0, y, hn, cn; with backward dy, dhn,
/// dcn, dx, dh0, dc0 and the gradients d_weight_ih.0, …; weight_ih.0, weight_hh.0, bias_ih.0,
/// bias_hh.0, weight_hr.0 of layer * directions + direction; and lengths (int32) if rows differ.
/// Results are those of the first implementation.
void run_turns(std::istream& in, std::ostream& out);

}  // namespace sluice::bench
