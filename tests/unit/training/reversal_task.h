#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "training/seq2seq_data.h"
#include "training/trainer.h"

namespace sluice::training {

/// A task that a tiny model learns in seconds: strings of 1 to 4 of the digits 0 to 5, reversed.
TextData reversal_text(std::uint64_t seed = 1, int examples = 240);

/// Small enough for many runs in a test; with dropout, warm-up and a plateau schedule, so that all
/// state there is takes part. One thread.
TrainConfig reversal_config(const std::filesystem::path& output);

Seq2SeqData reversal_pairs(const TrainConfig& config, std::uint64_t seed = 1);
/// The same as a Trainer takes them.
TrainData reversal_data(const TrainConfig& config, std::uint64_t seed = 1);

/// Everything that a run leaves to be compared: parameters, moments, state, best model.
struct Outcome {
  std::vector<std::string> tensor_names;
  std::vector<std::vector<std::byte>> tensors;
  std::string state;

  bool operator==(const Outcome&) const = default;
};
/// Without <output>/best if not `with_best`.
Outcome outcome_of(const std::filesystem::path& output, bool with_best = true);

/// A process that kills itself (SIGKILL) as it writes the checkpoint after so many steps of its
/// own, once a file of it has `bytes` bytes; never if `after_steps` is 0.
struct DeathInWriting {
  std::int64_t after_steps = 0;
  std::int64_t bytes = 0;
};

/// Runs the test program again as a process that trains, resuming if there is something to resume;
/// returns its id. The caller waits for it.
int spawn_training(const std::filesystem::path& output, const std::string& device,
                   const DeathInWriting& death = {});
/// That process's part of main: trains and returns its exit status if it was started so.
std::optional<int> run_spawned_training(int count, char** arguments);

}  // namespace sluice::training
