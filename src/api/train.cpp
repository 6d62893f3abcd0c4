#include "sluice/train.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>

#include "api/precision.h"
#include "api/rank_threads.h"
#include "api/train_request.h"
#include "base/check.h"
#include "base/counted.h"
#include "io/checkpoint.h"
#include "profiling/session.h"
#include "training/config_page.h"
#include "training/devices.h"
#include "training/folds.h"
#include "training/initial_weights.h"
#include "training/trainer.h"

namespace sluice {

training::TrainConfig api::config_of(const TrainRequest& request) {
  training::TrainConfig config;
  if (!request.config_path.empty()) config = training::read_train_config(request.config_path);
  for (const std::string& assignment : request.overrides) {
    training::apply_override(config, assignment);
  }
  config.validate();
  return config;
}

namespace {

// The first are slower: memory is touched, plans are made, libraries opened.
constexpr profiling::StepRange kProfiledSteps{11, 15};

/// While it lives data are being prepared, however that ends.
class Preparing {
 public:
  explicit Preparing(const std::function<void(bool)>& tell) : tell_(tell) { say(true); }
  ~Preparing() { say(false); }
  Preparing(const Preparing&) = delete;
  Preparing& operator=(const Preparing&) = delete;

 private:
  void say(bool now) const {
    if (tell_) tell_(now);
  }

  const std::function<void(bool)>& tell_;
};

TrainMetrics metrics_of(const training::StepReport& report) {
  TrainMetrics metrics;
  metrics.step = report.step;
  metrics.epoch = report.epoch;
  metrics.fraction = report.fraction;
  metrics.source_tokens = report.source_tokens;
  metrics.target_tokens = report.target_tokens;
  metrics.values = {{"loss", report.loss},
                    {"learning_rate", report.learning_rate},
                    {"gradient_norm", report.gradient_norm}};
  return metrics;
}

TrainMetrics metrics_of(const training::ValidationReport& report) {
  TrainMetrics metrics;
  metrics.is_validation = true;
  metrics.step = report.step;
  metrics.improved = report.improved;
  for (const training::Measured& measured : report.measured) {
    metrics.values.emplace_back(measured.metric->key, measured.value);
  }
  return metrics;
}

/// Has the request told of steps and validations.
void add_metrics(const TrainRequest& request, training::TrainHooks& hooks) {
  if (!request.metrics) return;
  // A validation is of the step that was told last: its epoch and fraction are that step's.
  const auto last = std::make_shared<TrainMetrics>();
  hooks.on_step = [&request, last](const training::StepReport& report) {
    *last = metrics_of(report);
    request.metrics(*last);
  };
  hooks.on_validation = [&request, last](const training::ValidationReport& report) {
    TrainMetrics metrics = metrics_of(report);
    metrics.epoch = last->epoch;
    metrics.fraction = last->fraction;
    request.metrics(metrics);
  };
}

/// What people should know of how a run ended, or nothing. `nothing_done`: it had ended before.
std::string why_it_ended(const training::TrainConfig& config, const training::TrainResult& result,
                         bool nothing_done) {
  if (result.outcome == training::TrainOutcome::kStopped) return "";
  if (result.outcome == training::TrainOutcome::kEarlyStopped) {
    return fmt::format("{}: {} has been no better in {} (training.patience)",
                       nothing_done ? "nothing is left to train" : "stopped early",
                       config.loop.keep_best, base::counted(config.loop.patience, "validation"));
  }
  if (!nothing_done) return "";
  return fmt::format(
      "nothing is left to train: the run reached training.max_epochs = {} or training.max_steps = "
      "{} "
      "(0: no limit); raise the limit to continue",
      config.loop.max_epochs, config.loop.max_steps);
}

std::string on_ranks(const std::vector<std::string>& devices) {
  if (devices.size() == 1) return "";
  return fmt::format("; {} ranks on {}", devices.size(), fmt::join(devices, ", "));
}

}  // namespace

runtime::Context api::context_of(runtime::Device& device, const training::TrainConfig& config) {
  runtime::Context context(device);
  context.set_precision(runtime::Precision::parse(config.precision));
  require_fast(context.precision(), device, config.model.kind);
  return context;
}

training::TrainData api::read_data(const training::TrainConfig& config,
                                   const model_files::Tokenizers* saved,
                                   training::Progress* progress, const InterruptCheck& interrupt) {
  const training::Task& task = training::task_of(config);
  if (progress == nullptr && !interrupt) return task.read_data(config, saved, {});
  struct EndOfLine {
    training::Progress* progress;
    ~EndOfLine() {
      if (progress != nullptr) progress->finish();
    }
  } const end{progress};
  return task.read_data(config, saved, [&](std::string_view what, double done) {
    if (interrupt) interrupt();
    if (progress != nullptr) progress->work(what, done);
  });
}

std::string config_reference() { return training::config_reference(); }

std::string config_page() { return training::config_page(); }

TrainReport train(const TrainRequest& request) {
  const training::TrainConfig config = api::config_of(request);
  SLUICE_CHECK(!training::has_checkpoint(training::fold_folder(config, 1) / io::kLastFolderName),
               "'{}' holds the folds of a cross-validation; choose another output.directory for a "
               "single run",
               config.output.directory);
  return api::train(request, config);
}

TrainReport api::train(const TrainRequest& request, const training::TrainConfig& asked) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> devices = training::devices_of(asked);
  training::TrainConfig config = asked;
  config.device = devices.front();
  const std::unique_ptr<runtime::Device> device = runtime::open_device(config.device);
  runtime::Context context = context_of(*device, config);
  context.set_warnings(&request.warnings);
  context.set_interrupt(&request.interrupt);
  runtime::Tuning tuning;
  if (config.autotune) context.set_tuning(&tuning);
  const RankThreadCount count(context, config, std::ssize(devices));

  std::optional<training::Progress> progress;
  if (!request.quiet) progress = training::Progress::for_standard_error();
  profiling::Session profile(request.profile, [&](const std::string& text) {
    progress ? progress->message(text) : profiling::print(text);
  });
  const training::Task& task = training::task_of(config);
  training::RunFolder folder(config.output.directory);
  std::optional<model_files::Tokenizers> saved;
  if (training::has_checkpoint(folder.last())) {
    SLUICE_CHECK(request.resume,
                 "'{}' holds a checkpoint: resume it or choose another output.directory",
                 folder.path().native());
    saved = training::load_run_tokenizers(folder, config);
  } else {
    training::require_trainable_start(config);
  }
  training::TrainData data = [&] {
    const Preparing preparing(request.preparing);
    return read_data(config, saved ? &*saved : nullptr, progress ? &*progress : nullptr,
                     request.interrupt);
  }();

  if (progress) {
    for (const std::string& line : data.notes) progress->message(line);
  }
  std::optional<RankThreads> others;
  if (devices.size() > 1) others.emplace(config, devices, data, count.threads());
  distributed::Communicator* ranks = others ? &others->first() : nullptr;
  return as_first(ranks, [&] {
    training::Trainer trainer(context, config, std::move(data),
                              request.resume ? training::Start::kResume : training::Start::kFresh,
                              std::move(folder), ranks);
    if (progress) {
      for (const std::string& line : trainer.start_notes()) progress->message(line);
      const layers::Parameters& parameters = trainer.model().parameters();
      progress->message(fmt::format("{} parameters; {} {}{}", parameters.element_count(),
                                    saved ? "resuming after step" : "starting at step",
                                    trainer.state().step, on_ranks(devices)));
    }
    profile.attach(context, kProfiledSteps, trainer.state().step);
    training::TrainHooks hooks;
    hooks.progress = progress ? &*progress : nullptr;
    hooks.stop = request.stop;
    add_metrics(request, hooks);
    const std::int64_t begun_at = trainer.state().step;
    const training::TrainResult result = trainer.run(hooks);
    profile.finish();
    if (progress) {
      const std::string why = why_it_ended(config, result, saved && result.step == begun_at);
      if (!why.empty()) progress->message(why);
    }

    TrainReport report;
    report.directory = config.output.directory;
    report.steps = result.step;
    report.epochs = trainer.state().position.epoch;
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.stopped = result.outcome == training::TrainOutcome::kStopped;
    if (result.best.known) {
      const auto* metric = task.find_metric(config.loop.keep_best);
      report.best_metric_name = metric->name;
      report.best_metric = metric->minimised(result.best.value);
      report.best_metric_text = metric->show(report.best_metric);
      report.best_step = result.best.step;
    }
    return report;
  });
}

}  // namespace sluice
