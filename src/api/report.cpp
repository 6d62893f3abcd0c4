#include "sluice/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "api/line_plot.h"
#include "api/report_answers.h"
#include "base/check.h"
#include "base/html.h"
#include "io/checkpoint.h"
#include "runtime/threads.h"
#include "training/checkpoint.h"
#include "training/metrics_reader.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using base::escape_html;

constexpr std::string_view kStyle = R"(
pre { background: var(--box); padding: 1em; white-space: pre-wrap; overflow-wrap: anywhere; }
)";

/// Which plots there are, in the order in which people look at them: the loss, what else
/// validations measure, and then how training goes.
std::size_t rank(std::string_view name, const training::Task& task) {
  const auto metrics = task.metrics();
  const auto* metric = task.find_metric(name);
  if (metric != nullptr) return static_cast<std::size_t>(metric - metrics.data());
  constexpr std::string_view kOthers[] = {"learning_rate", "gradient_norm"};
  return metrics.size() + static_cast<std::size_t>(
                              std::find(std::begin(kOthers), std::end(kOthers), name) - kOthers);
}

api::Plot plot_of(const std::string& name, const training::Task& task) {
  const training::ValidationMetric* metric = task.find_metric(name);
  if (metric != nullptr) {
    return {std::string(metric->name), {}, metric->show, metric->show == training::show_share};
  }
  std::string title = name;
  std::replace(title.begin(), title.end(), '_', ' ');
  return {title};
}

// "train/loss" and "validation/loss" share a plot.
std::string plots(const training::Metrics& metrics, const training::Task& task) {
  std::map<std::pair<std::size_t, std::string>, api::Plot> by_name;
  for (const auto& [tag, curve] : metrics.curves) {
    const std::string name = tag.substr(tag.rfind('/') + 1);
    const std::string part = tag.substr(0, tag.find('/'));
    const auto at = by_name.try_emplace({rank(name, task), name}, plot_of(name, task)).first;
    at->second.series.push_back({part, &curve});
  }
  std::string text = by_name.empty()
                         ? "<p>There is none: the run was shorter than output.log_every steps, and "
                           "nothing was validated.</p>\n"
                         : "<p>By step; numbers are the last ones.</p>\n";
  for (const std::string& note : metrics.notes) text += "<p>" + escape_html(note) + "</p>\n";
  text += "<div class=\"plots\">\n";
  for (const auto& [key, plot] : by_name) text += api::line_plot(plot);
  return text + "</div>\n";
}

// The validation that best/ was kept for.
std::string best_of(const training::Metrics& metrics, const training::TrainConfig& config) {
  const auto* metric = training::task_of(config).find_metric(config.loop.keep_best);
  const auto found = metrics.curves.find("validation/" + config.loop.keep_best);
  if (metric == nullptr || found == metrics.curves.end() || found->second.empty()) return "";
  const auto best = std::ranges::min_element(
      found->second, {}, [&](const auto& point) { return metric->minimised(point.second); });
  return fmt::format("<p>Best {}: <b>{}</b>, after step {}.</p>\n", metric->name,
                     metric->show(best->second), best->first);
}

// The files may be gone, or lie elsewhere from here.
std::string data_sections(const runtime::Context& context, const model_files::LoadedModel& loaded,
                          const training::TrainConfig& config, bool trust_segmenter) {
  try {
    const auto& files = config.data;
    SLUICE_CHECK(
        trust_segmenter || (files.source_segmenter.empty() && files.target_segmenter.empty()),
        "the run has texts segmented by a command (see its settings), which is not run "
        "without your word: --trust-segmenter");
    const training::Task& task = training::task_of(loaded);
    const training::TrainData data = task.read_validation(config, loaded.tokenizers);
    if (data.validation) task.require_widths(config, *loaded.model, data);
    std::string text;
    if (files.stream) text = "<p>training: streamed, and not counted anew</p>\n";
    for (const std::string& note : data.notes) text += "<p>" + escape_html(note) + "</p>\n";
    if (text.empty()) text = "<p>The run names no files of examples.</p>\n";
    return api::answer_sections(context, data, *loaded.model) + "<h2>Data</h2>\n" + text;
  } catch (const Error& error) {
    return fmt::format("<h2>Data</h2>\n<p>The examples could not be read: {}</p>\n",
                       escape_html(error.what()));
  }
}

fs::path model_of(const fs::path& directory) {
  const auto holds = [&](std::string_view part) { return fs::exists(directory / part); };
  // Of folds, model_file says which to name.
  if (!holds(io::kBestFolderName) && !holds(io::kLastFolderName) && !holds("fold-1")) {
    base::fail(ErrorCode::kNotFound,
               "'{}' holds neither best/ nor last/; name the output folder of a training run",
               directory.native());
  }
  return io::model_file(directory);
}

std::string model_section(const model_files::LoadedModel& loaded, const fs::path& path) {
  return fmt::format("<h2>Model</h2>\n<p>{} of {} parameters, from {}</p>\n<pre>{}</pre>\n",
                     loaded.kind->name, loaded.model->parameters().element_count(),
                     escape_html(path.native()), escape_html(loaded.model->configuration()));
}

}  // namespace

std::string training_report(const std::string& directory, bool trust_segmenter) {
  const fs::path path = model_of(directory);
  const training::Metrics metrics = training::read_metrics(fs::path(directory) / "tensorboard");
  const std::unique_ptr<runtime::Device> device = runtime::open_device("cpu");
  runtime::Context context(*device);
  runtime::use_threads(context, 0);
  const model_files::LoadedModel loaded = model_files::load_model(context, path);
  const training::TrainConfig config = training::run_config(loaded);
  std::string body =
      "<h2>Curves</h2>\n" + best_of(metrics, config) + plots(metrics, training::task_of(loaded)) +
      data_sections(context, loaded, config, trust_segmenter) + model_section(loaded, path);
  body += "<h2>Settings</h2>\n<pre>" + escape_html(training::to_toml(config)) + "</pre>\n";
  return base::html_page(
      "Training run " + directory,
      std::string(kStyle) + std::string(api::kPlotStyle) + std::string(api::kAnswerStyle), body);
}

}  // namespace sluice
