#include "sluice/train.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <sstream>

#include "api/precision.h"
#include "api/ranks.h"
#include "api/train_request.h"
#include "base/check.h"
#include "base/counted.h"
#include "distributed/launch.h"
#include "distributed/nccl_part.h"
#include "distributed/process_ranks.h"
#include "io/checkpoint.h"
#include "profiling/session.h"
#include "runtime/threads.h"
#include "training/config_page.h"
#include "training/folds.h"
#include "training/initial_weights.h"
#include "training/ranks/devices.h"
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

namespace {

/// Tokenizers as one text, for other ranks: the sizes of a blob's name and bytes, then both.
std::string packed(const model_files::Tokenizers& tokenizers) {
  std::string text;
  for (const auto& [name, blob] : model_files::to_blobs(tokenizers)) {
    text += fmt::format("{} {}\n", name.size(), blob.size()) + name + blob;
  }
  return text;
}

model_files::Tokenizers unpacked(const std::string& text) {
  io::Container container;
  container.origin = "rank 0";
  std::istringstream words(text);
  std::size_t name_size = 0, blob_size = 0;
  while (words >> name_size >> blob_size) {
    std::string name(name_size, ' '), blob(blob_size, ' ');
    words.ignore();
    words.read(name.data(), std::ssize(name));
    words.read(blob.data(), std::ssize(blob));
    container.blobs.emplace(std::move(name), std::move(blob));
  }
  return model_files::tokenizers_of(container);
}

/// One call of train() in this process, which may be one of several that MPI started.
class Training {
 public:
  /// `process`: this process's rank; null if it is the only one.
  Training(const TrainRequest& request, const training::TrainConfig& asked,
           distributed::Communicator* process);

  TrainReport run();

 private:
  bool leads() const { return process_ == nullptr || process_->rank() == 0; }
  void join_on_device();
  std::optional<model_files::Tokenizers> saved_tokenizers();
  void read();
  training::TrainResult train(distributed::Communicator* rank);
  TrainReport report_of(const training::TrainResult& result) const;

  const TrainRequest& request_;
  distributed::Communicator* process_;
  std::vector<std::string> devices_;         ///< of the ranks in this process
  std::vector<std::string> devices_of_all_;  ///< of all ranks
  training::TrainConfig config_;
  const training::Task& task_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<runtime::Device> device_;
  std::unique_ptr<distributed::Communicator> on_gpu_;  ///< this process's rank, if it has a GPU
  runtime::Context context_;
  runtime::Tuning tuning_;
  std::optional<training::Progress> progress_;
  std::optional<training::RunFolder> folder_;  ///< rank 0's
  bool resumes_ = false;
  training::TrainData data_;
  std::int64_t epochs_ = 0;
};

Training::Training(const TrainRequest& request, const training::TrainConfig& asked,
                   distributed::Communicator* process)
    : request_(request),
      process_(process),
      devices_(training::devices_here(asked, process)),
      devices_of_all_(devices_),
      config_(asked),
      task_(training::task_of(config_)),
      device_(runtime::open_device(devices_.front())),
      context_(api::context_of(*device_, config_)) {
  config_.device = devices_.front();
  context_.set_interrupt(&request.interrupt);
  context_.set_warnings(leads() ? &request.warnings : &api::no_warnings());
  if (config_.autotune) context_.set_tuning(&tuning_);
  if (!request.quiet && leads()) progress_ = training::Progress::for_standard_error();
}

TrainReport Training::run() {
  runtime::use_threads(context_, config_.threads);
  if (process_ != nullptr) join_on_device();
  read();
  if (devices_.size() == 1) return report_of(train(on_gpu_ ? &*on_gpu_ : process_));
  const api::RankThreadCount count(context_, config_, std::ssize(devices_));
  api::RankThreads others(config_, devices_, data_, count.threads());
  return report_of(distributed::as_rank(&others.first(), [&] { return train(&others.first()); }));
}

void Training::join_on_device() {
  const bool gpu = device_->type() == runtime::DeviceType::kCuda;
  distributed::agree(*process_, "kind of device", gpu ? "GPU" : "CPU");
  devices_of_all_ = process_->exchange(device_->name());
  if (gpu) on_gpu_ = distributed::join_nccl(*device_, *process_);
}

/// Claims the run's folder. Returns the tokenizers of the run to resume, if there is one.
std::optional<model_files::Tokenizers> Training::saved_tokenizers() {
  folder_.emplace(config_.output.directory);
  if (!training::has_checkpoint(folder_->last())) {
    training::require_trainable_start(config_);
    return std::nullopt;
  }
  SLUICE_CHECK(request_.resume,
               "'{}' holds a checkpoint: resume it or choose another output.directory",
               folder_->path().native());
  resumes_ = true;
  return training::load_run_tokenizers(folder_->path(), config_);
}

/// Rank 0 reads first. The others take its tokenizers and find the files that it prepares.
void Training::read() {
  std::optional<model_files::Tokenizers> tokenizers;
  if (leads()) tokenizers = saved_tokenizers();
  const Preparing preparing(request_.preparing);
  if (!leads()) tokenizers = unpacked(distributed::from_first(*process_, ""));
  data_ = api::read_data(config_, tokenizers ? &*tokenizers : nullptr,
                         progress_ ? &*progress_ : nullptr, request_.interrupt);
  if (process_ != nullptr) {
    if (leads()) distributed::from_first(*process_, packed(data_.tokenizers));
    process_->exchange("");  // so that all have read before one goes on
  }
  if (!progress_) return;
  for (const std::string& line : data_.notes) progress_->message(line);
}

training::TrainResult Training::train(distributed::Communicator* rank) {
  profiling::Session profile(leads() ? request_.profile : ProfileRequest(),
                             [&](const std::string& text) {
                               progress_ ? progress_->message(text) : profiling::print(text);
                             });
  training::Trainer trainer(context_, config_, data_,
                            request_.resume ? training::Start::kResume : training::Start::kFresh,
                            std::move(folder_), rank);
  const std::int64_t begun_at = trainer.state().step;
  if (progress_) {
    for (const std::string& line : trainer.start_notes()) progress_->message(line);
    progress_->message(fmt::format("{} parameters; {} {}{}",
                                   trainer.model().parameters().element_count(),
                                   resumes_ ? "resuming after step" : "starting at step", begun_at,
                                   on_ranks(devices_of_all_)));
  }
  profile.attach(context_, kProfiledSteps, begun_at);
  training::TrainHooks hooks;
  hooks.progress = progress_ ? &*progress_ : nullptr;
  hooks.stop = request_.stop;
  if (leads()) add_metrics(request_, hooks);
  // The others hear of an error before this rank waits for work that they take part in.
  const training::TrainResult result =
      distributed::as_rank(rank, [&] { return trainer.run(hooks); });
  profile.finish();
  epochs_ = trainer.state().position.epoch;
  if (progress_) {
    const std::string why = why_it_ended(config_, result, resumes_ && result.step == begun_at);
    if (!why.empty()) progress_->message(why);
  }
  return result;
}

TrainReport Training::report_of(const training::TrainResult& result) const {
  TrainReport report;
  report.directory = config_.output.directory;
  report.steps = result.step;
  report.epochs = epochs_;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  report.stopped = result.outcome == training::TrainOutcome::kStopped;
  if (process_ != nullptr) report.rank = process_->rank();
  if (result.best.known) {
    const auto* metric = task_.find_metric(config_.loop.keep_best);
    report.best_metric_name = metric->name;
    report.best_metric = metric->minimised(result.best.value);
    report.best_metric_text = metric->show(report.best_metric);
    report.best_step = result.best.step;
  }
  return report;
}

}  // namespace

namespace {

// A signal ends the wait for other ranks at once.

distributed::Communicator* rank_of_process(const TrainRequest& request) {
  if (distributed::launch_of_process().is_alone()) return nullptr;
  const Preparing preparing(request.preparing);
  return distributed::rank_of_process();
}

/// Starts a process for each GPU but the first, if there are several; else null.
distributed::Communicator* start_gpu_ranks(const training::TrainConfig& config,
                                           const TrainRequest& request) {
  const std::vector<std::string> devices = training::devices_of(config);
  if (devices.size() == 1 || !devices.front().starts_with("cuda")) return nullptr;
  const Preparing preparing(request.preparing);
  return distributed::start_others(devices, request.command);
}

}  // namespace

TrainReport api::train(const TrainRequest& request, const training::TrainConfig& config) {
  return Training(request, config, nullptr).run();
}

TrainReport train(const TrainRequest& request) {
  distributed::Communicator* process = rank_of_process(request);
  return distributed::as_rank(process, [&] {
    const training::TrainConfig config = api::config_of(request);
    SLUICE_CHECK(
        !training::has_checkpoint(training::fold_folder(config, 1) / io::kLastFolderName),
        "'{}' holds the folds of a cross-validation; choose another output.directory for a single "
        "run",
        config.output.directory);
    if (process == nullptr) process = start_gpu_ranks(config, request);
    return distributed::as_rank(process, [&] { return Training(request, config, process).run(); });
  });
}

}  // namespace sluice
