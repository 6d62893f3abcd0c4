#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/examples.h"
#include "models/model.h"
#include "profiling/session.h"
#include "sluice/profile.h"
#include "training/training_step.h"

namespace sluice::bench::train {

/// Batches to train on, in rounds: those of a round are timed together. Of several ranks a batch is
/// dealt to all of them.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Those of the next round, without end; valid until the next call.
  virtual std::span<const data::Batch> next() = 0;
};

/// What is trained, how, and on what.
struct TrainWork {
  std::string name;    ///< for people
  std::string device;  ///< as runtime::open_device
  std::string dtype;   ///< as runtime::Precision::parse
  std::uint64_t seed = 1;
  double label_smoothing = 0;
  double learning_rate = 1e-3;
  training::OptimizerConfig optimizer{};
  distributed::Communicator* ranks = nullptr;  ///< all of them; null: there is one
  training::ExchangeOptions exchange{};
  std::int64_t threads = 0;  ///< of a rank on a CPU; 0: as OpenMP has it
  bool carries = false;      ///< whether batches go on from one another (training.bptt)
  /// Drawn anew, with gradients.
  std::function<std::unique_ptr<models::Model>(const runtime::Context&)> make_model{};
  /// The same batches anew.
  std::function<std::unique_ptr<BatchSource>()> make_batches{};
};

/// Training steps queued one operation after the other, or captured.
struct StepResult {
  std::string implementation;  ///< "sluice", or "sluice+graph": steps captured in CUDA graphs
  std::string device;
  std::string device_model;
  bool is_default = false;     ///< whether `sluice train` runs it so
  double milliseconds = 0;     ///< of a round, median
  std::size_t peak_bytes = 0;  ///< most device memory that model, optimiser and plans held
  std::int64_t parameters = 0;
  double loss = 0;  ///< of a target, in the last step
  std::int64_t ranks = 1;
  // Where there are several ranks:
  training::ExchangeOptions exchange{};
  double apart_milliseconds = 0;       ///< of a round in which each rank steps by itself
  double all_reduce_milliseconds = 0;  ///< of the sum of all gradients alone, as they travel
};

/// Ranks that step the same parameters without waiting for each other, over some seconds.
struct AsyncResult {
  double milliseconds = 0;  ///< of a step of this rank, mean
  double staleness = 0;     ///< of a step, mean
};

/// Times steps of one work on its device.
class StepBench {
 public:
  /// `session` and `profile` must outlive this.
  StepBench(TrainWork work, std::int64_t repeats, const ProfileRequest& profile,
            profiling::Session& session);
  StepBench(const StepBench&) = delete;
  StepBench& operator=(const StepBench&) = delete;
  ~StepBench();

  bool can_capture() const { return context_.stream().can_capture(); }
  /// Three rounds to warm up, then `repeats` timed ones. Throws ErrorCode::kNumeric for a loss that
  /// is not finite.
  StepResult run(bool captured);
  /// Steps shared parameters for so many seconds, after as many to warm up as run() has. This rank
  /// rests after each step for `rest` times as long as it took. All ranks must call it.
  AsyncResult run_async(double seconds, double rest);
  /// Further steps if they are asked for, so that the timed ones are not slowed by being recorded;
  /// captured anew, for who queued what is only known of a graph that was captured while watched.
  void profile(bool captured);

 private:
  training::TrainingStep::Options step_options(bool captured) const;
  /// A round as this rank has it.
  struct Round {
    std::vector<data::Batch> own;
    std::vector<training::WholeStep> whole;
  };

  std::int64_t ranks() const;
  Round deal(std::span<const data::Batch> batches) const;
  training::StepSums queue(training::TrainingStep& step, const Round& round, std::size_t batch,
                           std::int64_t number);
  double time_apart(bool captured);
  double time_all_reduce(const layers::Parameters& parameters);

  TrainWork work_;
  std::int64_t repeats_;
  const ProfileRequest& profile_;
  profiling::Session& session_;
  std::unique_ptr<runtime::Device> device_;
  runtime::Context context_;
};

}  // namespace sluice::bench::train
