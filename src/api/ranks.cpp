#include "api/ranks.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include "api/train_request.h"
#include "base/check.h"
#include "distributed/threads/thread_ranks.h"
#include "runtime/threads.h"
#include "training/trainer.h"

namespace sluice::api {
namespace {

void train_rank(const training::TrainConfig& config, training::TrainData data, std::int64_t threads,
                distributed::Communicator& rank) {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(config.device);
  runtime::Context context = context_of(*device, config);
  context.set_warnings(&no_warnings());
  runtime::use_threads(context, threads);
  training::Trainer trainer(context, config, std::move(data), training::Start::kResume,
                            std::nullopt, &rank);
  trainer.run({});
}

void run_rank(const training::TrainConfig& config, training::TrainData data, std::int64_t threads,
              distributed::Communicator& rank) {
  try {
    train_rank(config, std::move(data), threads, rank);
  } catch (...) {
    const Error error = distributed::error_of(std::current_exception());
    rank.abort(Error(error.code(),
                     fmt::format("rank {} on {}: {}", rank.rank(), config.device, error.what())));
  }
}

}  // namespace

RankThreadCount::RankThreadCount(const runtime::Context& context,
                                 const training::TrainConfig& config, std::int64_t ranks)
    : before_(omp_get_max_threads()),
      threads_(runtime::use_threads(context, config.threads > 0
                                                 ? config.threads
                                                 : std::max<std::int64_t>(1, before_ / ranks))) {}

RankThreadCount::~RankThreadCount() { omp_set_num_threads(before_); }

RankThreads::RankThreads(const training::TrainConfig& config,
                         const std::vector<std::string>& devices, const training::TrainData& data,
                         std::int64_t threads)
    : ranks_(distributed::threads::make_ranks(std::ssize(devices))) {
  try {
    for (std::size_t rank = 1; rank < devices.size(); ++rank) {
      training::TrainConfig own = config;
      own.device = devices[rank];
      threads_.emplace_back(run_rank, own, data, threads, std::ref(*ranks_[rank]));
    }
  } catch (...) {
    first().abort(
        distributed::error_of(std::current_exception()));  // else those that run wait for ever
    threads_.clear();
    throw;
  }
}

RankThreads::~RankThreads() = default;

const WarningHandler& no_warnings() {
  static const WarningHandler handler = [](std::string_view) {};
  return handler;
}

}  // namespace sluice::api
