#include "training/run_report.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

namespace sluice::training {

// Steps are told late and many at once, so the time between two of them says nothing.
constexpr double kSpeedSeconds = 2;

RunReport::RunReport(const std::filesystem::path& tensorboard, std::int64_t first_step,
                     std::int64_t log_every, const TrainHooks& hooks,
                     const WarningHandler* warnings)
    : metrics_(tensorboard, first_step, warnings),
      log_every_(log_every),
      told_step_(first_step - 1),
      hooks_(hooks),
      start_(steady_seconds()) {}

RunReport::~RunReport() {
  if (hooks_.progress != nullptr) hooks_.progress->finish();
}

// Several steps may be told at once.
void RunReport::log_step(const StepReport& report) {
  loss_sum_ += report.loss * static_cast<double>(report.target_tokens);
  target_tokens_ += report.target_tokens;
  all_tokens_ += report.source_tokens + report.target_tokens;
  ranks_.resize(report.ranks.size());
  rank_tokens_.resize(report.ranks.size());
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    ranks_[rank] += report.ranks[rank];
    rank_tokens_[rank] += report.ranks[rank].target_tokens;
  }
  const bool due = report.step / log_every_ > told_step_ / log_every_;
  told_step_ = report.step;
  if (!due) return;
  const double now = steady_seconds();
  metrics_.scalar("train/loss", report.step, loss_sum_ / static_cast<double>(target_tokens_));
  metrics_.scalar("train/learning_rate", report.step, report.learning_rate);
  if (std::isfinite(report.gradient_norm)) {
    metrics_.scalar("train/gradient_norm", report.step, report.gradient_norm);
  }
  if (report.loss_scale > 0) {
    metrics_.scalar("train/loss_scale", report.step, report.loss_scale);
    metrics_.scalar("train/skipped_steps", report.step, static_cast<double>(report.skipped_steps));
  }
  log_ranks(report.step);
  if (now - start_ >= kSpeedSeconds) log_speed(report.step, now);
  loss_sum_ = 0;
  target_tokens_ = 0;
}

void RunReport::log_ranks(std::int64_t step) {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RankReport& share = ranks_[rank];
    const auto log = [&](const char* what, double value) {
      metrics_.scalar(fmt::format("ranks/{}_{}", what, rank), step, value);
    };
    if (share.target_tokens > 0) log("loss", share.loss / static_cast<double>(share.target_tokens));
    if (share.steps == 0) continue;
    log("staleness", share.staleness / static_cast<double>(share.steps));
    log("dropped_parts", static_cast<double>(share.dropped));
  }
  ranks_.clear();
}

void RunReport::log_speed(std::int64_t step, double now) {
  const double seconds = now - start_;
  metrics_.scalar("train/tokens_per_second", step, static_cast<double>(all_tokens_) / seconds);
  for (std::size_t rank = 0; rank < rank_tokens_.size(); ++rank) {
    metrics_.scalar(fmt::format("ranks/target_tokens_per_second_{}", rank), step,
                    static_cast<double>(rank_tokens_[rank]) / seconds);
  }
  all_tokens_ = 0;
  rank_tokens_.clear();
  start_ = now;
}

void RunReport::tell(const StepReport& report) {
  log_step(report);
  if (hooks_.on_step) hooks_.on_step(report);
  if (hooks_.progress == nullptr) return;
  hooks_.progress->update({report.epoch, report.step, report.fraction,
                           report.source_tokens + report.target_tokens, report.loss,
                           report.learning_rate, report.loss_scale, report.skipped_steps});
}

void RunReport::tell(const Context& context, const layers::Parameters& parameters,
                     std::int64_t step) {
  // Both at once, for each download waits.
  const std::vector<float> values = context.download<float>(parameters.values());
  const std::vector<float> gradients = context.download<float>(parameters.gradients());
  for (std::size_t id = 0; id < parameters.specs().size(); ++id) {
    const layers::ParameterSpec& spec = parameters.specs()[id];
    const auto log = [&](const char* what, const std::vector<float>& all) {
      const auto begin = static_cast<std::size_t>(parameters.offset(id));
      const auto count = static_cast<std::size_t>(spec.shape.element_count());
      const Histogram histogram = histogram_of(std::span(all).subspan(begin, count));
      if (histogram.count > 0)
        metrics_.histogram(fmt::format("{}/{}", what, spec.name), step, histogram);
    };
    log("weights", values);
    log("gradients", gradients);
  }
}

void RunReport::tell_work(std::string_view what, double done) {
  if (hooks_.progress != nullptr) hooks_.progress->work(what, done);
}

void RunReport::tell(std::span<const SampleAnswer> samples, std::int64_t step) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    // An answer may be empty, or so long that nobody could see anything.
    constexpr std::ptrdiff_t kMostTokens = 4096;
    const decoding::AttentionView& view = samples[i].attention;
    if (view.attention.empty() || std::ssize(view.source) > kMostTokens ||
        std::ssize(view.target) > kMostTokens) {
      continue;
    }
    const decoding::Picture picture = decoding::attention_picture(view);
    metrics_.image(fmt::format("attention/{}", i + 1), step, picture.width, picture.height,
                   picture.png);
  }
}

void RunReport::tell(const ValidationReport& report) {
  std::string line;
  for (const auto& [metric, value] : report.measured) {
    metrics_.scalar(fmt::format("validation/{}", metric->key), report.step, value);
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", metric->name, metric->show(value));
  }
  if (hooks_.on_validation) hooks_.on_validation(report);
  if (hooks_.progress == nullptr) return;
  hooks_.progress->message(fmt::format("step {}: validation {}{}", report.step, line,
                                       report.improved ? ", best so far" : ""));
}

}  // namespace sluice::training
