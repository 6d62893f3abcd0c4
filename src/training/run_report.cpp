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
      hooks_(hooks),
      start_(steady_seconds()) {}

RunReport::~RunReport() {
  if (hooks_.progress != nullptr) hooks_.progress->finish();
}

void RunReport::log_step(const StepReport& report) {
  loss_sum_ += report.loss * static_cast<double>(report.target_tokens);
  target_tokens_ += report.target_tokens;
  all_tokens_ += report.source_tokens + report.target_tokens;
  if (report.step % log_every_ != 0) return;
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
  if (now - start_ >= kSpeedSeconds) {
    metrics_.scalar("train/tokens_per_second", report.step,
                    static_cast<double>(all_tokens_) / (now - start_));
    all_tokens_ = 0;
    start_ = now;
  }
  loss_sum_ = 0;
  target_tokens_ = 0;
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
