#include <fmt/format.h>

#include <optional>

#include "api/ranks.h"
#include "api/train_request.h"
#include "base/check.h"
#include "distributed/launch.h"
#include "distributed/process_ranks.h"
#include "io/file.h"
#include "sluice/train.h"
#include "training/checkpoint.h"
#include "training/folds.h"
#include "training/progress.h"
#include "training/ranks/devices.h"
#include "training/run_folder.h"

namespace sluice {
namespace {

// All that can be said before hours of training.
std::vector<training::TrainConfig> configs_of_folds(const TrainRequest& request,
                                                    const training::TrainConfig& config,
                                                    const training::RunFolder& folder,
                                                    std::int64_t folds) {
  SLUICE_CHECK(!request.profile.is_asked_for(),
               "the steps of {} runs would go into one profile; set data.hold_out_every and "
               "data.hold_out_fold to profile the run of one fold",
               folds);
  SLUICE_CHECK(!training::has_checkpoint(folder.last()),
               "'{}' holds the checkpoint of a single run; choose another output.directory for a "
               "cross-validation",
               folder.path().native());
  std::vector<training::TrainConfig> configs;
  for (std::int64_t fold = 1; fold <= folds; ++fold) {
    configs.push_back(training::fold_config(config, folds, fold));
    const std::filesystem::path last = training::fold_folder(config, fold) / "last";
    SLUICE_CHECK(request.resume || !training::has_checkpoint(last),
                 "'{}' is a checkpoint: resume it or choose another output.directory",
                 last.native());
  }
  return configs;
}

training::FoldResult result_of(const TrainReport& run, std::int64_t fold) {
  SLUICE_CHECK(!run.best_metric_name.empty(),
               "fold {} has no examples to validate on: those that it holds out are all left out",
               fold);
  return {run.steps, run.epochs, run.best_step, run.best_metric};
}

void refuse_processes() {
  const std::int64_t processes = distributed::launch_of_process().processes;
  if (processes == 1) return;
  distributed::as_rank(distributed::rank_of_process(), [&] {
    base::fail(ErrorCode::kUnsupported,
               "a cross-validation runs in one process, but {} were started; name ranks by "
               "machine.devices instead",
               processes);
  });
}

bool stop_asked(const TrainRequest& request) { return request.stop != nullptr && *request.stop; }

}  // namespace

FoldsReport train_folds(const TrainRequest& request, std::int64_t folds) {
  refuse_processes();
  const training::TrainConfig config = api::config_of(request);
  training::fold_config(config, folds, 1);  // refuses before a folder is made
  const std::vector<std::string> devices = training::devices_of(config);
  if (devices.size() > 1 && devices.front().starts_with("cuda")) {
    base::fail(ErrorCode::kUnsupported,
               "a cross-validation runs in one process, which has one GPU, but machine.devices "
               "names {}",
               devices.size());
  }
  const training::RunFolder folder(config.output.directory);
  const auto configs = configs_of_folds(request, config, folder, folds);

  FoldsReport report;
  std::vector<training::FoldResult> results;
  for (std::int64_t fold = 1; fold <= folds && !report.stopped; ++fold) {
    const training::TrainConfig& own = configs[static_cast<std::size_t>(fold - 1)];
    if (!request.quiet) {
      training::Progress::for_standard_error().message(
          fmt::format("fold {} of {}: {}", fold, folds, own.output.directory));
    }
    const TrainReport run = api::train(request, own);
    report.seconds += run.seconds;
    report.folds.push_back(run);
    // A stop between two folds is one at the beginning of the next.
    report.stopped = run.stopped || (fold < folds && stop_asked(request));
    if (!run.stopped) results.push_back(result_of(run, fold));
  }
  if (report.stopped) return report;

  const auto* metric = training::task_of(config).find_metric(config.loop.keep_best);
  const training::FoldSummary summary = training::summarize(*metric, std::move(results));
  report.metric_name = metric->name;
  report.mean = summary.mean;
  report.standard_deviation = summary.deviation;
  report.table = training::table(summary);
  io::write_file_durably(folder.path() / "folds.json", training::to_json(summary));
  return report;
}

}  // namespace sluice
