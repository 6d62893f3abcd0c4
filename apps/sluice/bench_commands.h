#pragma once

#include <CLI/CLI.hpp>

namespace sluice::app {

/// What add_profile_options is to say of the steps.
inline constexpr const char* kProfiledTurns =
    "turns of each implementation after the timed ones (default: 1:3)";

/// Each adds one command to `sluice bench`.
void add_bench_beam(CLI::App& bench);
void add_bench_calls(CLI::App& bench);
void add_bench_gemm(CLI::App& bench);
void add_bench_ladder(CLI::App& bench);
void add_bench_report(CLI::App& bench);
void add_bench_scaling(CLI::App& bench);
void add_bench_step(CLI::App& bench);
void add_bench_sweep(CLI::App& bench);
void add_bench_table(CLI::App& bench);
void add_bench_train(CLI::App& bench);
void add_bench_turns(CLI::App& bench);

}  // namespace sluice::app
