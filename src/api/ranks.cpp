#include "api/ranks.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <functional>
#include <system_error>
#include <utility>

#include "api/train_request.h"
#include "base/check.h"
#include "distributed/launch.h"
#include "distributed/mpi_part.h"
#include "distributed/threads/thread_ranks.h"
#include "runtime/threads.h"
#include "training/trainer.h"

namespace sluice::api {
namespace {

void train_rank(const training::TrainConfig& config, training::TrainData data, std::int64_t threads,
                distributed::Communicator& rank) {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(config.device);
  runtime::Context context = context_of(*device, config);
  context.set_warnings(&unheard());
  runtime::Tuning tuning;
  if (config.autotune) context.set_tuning(&tuning);
  runtime::use_threads(context, threads);
  training::Trainer trainer(context, config, std::move(data), training::Start::kResume,
                            std::nullopt, &rank);
  trainer.run({});
}

void run_rank(const training::TrainConfig& config, training::TrainData data, std::int64_t threads,
              distributed::Communicator& rank) {
  const auto abort = [&](ErrorCode code, const char* sentence) {
    rank.abort(Error(code, fmt::format("rank {} on {}: {}", rank.rank(), config.device, sentence)));
  };
  try {
    train_rank(config, std::move(data), threads, rank);
  } catch (const Error& error) {
    abort(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    abort(ErrorCode::kOutOfMemory, "out of memory");
  } catch (const std::exception& error) {
    abort(ErrorCode::kInternal, error.what());
  }
}

}  // namespace

RankThreadCount::RankThreadCount(const runtime::Context& context,
                                 const training::TrainConfig& config, std::int64_t ranks)
    : before_(ranks > 1 ? omp_get_max_threads() : 0) {
  std::int64_t wanted = config.threads;
  if (ranks > 1 && wanted == 0) wanted = std::max<std::int64_t>(1, before_ / ranks);
  threads_ = runtime::use_threads(context, wanted);
}

RankThreadCount::~RankThreadCount() {
  if (before_ > 0) omp_set_num_threads(before_);
}

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
  } catch (const std::system_error& error) {
    // Those that run wait for the others.
    const Error refused(ErrorCode::kOutOfMemory,
                        fmt::format("the system refused a thread for a rank: {}", error.what()));
    first().abort(refused);
    threads_.clear();
    throw refused;
  }
}

RankThreads::~RankThreads() = default;

distributed::Communicator* rank_of_process() {
  if (distributed::processes_of_mpi() == 1) return nullptr;
  static const std::unique_ptr<distributed::Communicator> rank = distributed::start_mpi();
  return rank->size() > 1 ? rank.get() : nullptr;
}

void require_ranks_of_mpi(const std::vector<std::string>& devices, const runtime::Device& device) {
  SLUICE_CHECK(devices.size() == 1,
               "machine.devices names {} devices, but MPI started several processes, each of which "
               "is a rank: name one device, or start one process",
               devices.size());
  if (device.type() == runtime::DeviceType::kCpu) return;
  base::fail(ErrorCode::kUnsupported, "ranks of MPI train on CPUs so far, not on {}",
             device.name());
}

const WarningHandler& unheard() {
  static const WarningHandler handler = [](std::string_view) {};
  return handler;
}

}  // namespace sluice::api
