#include "sluice/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "api/line_plot.h"
#include "api/report_answers.h"
#include "base/check.h"
#include "base/html.h"
#include "training/checkpoint.h"
#include "training/metrics_reader.h"
#include "training/threads.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using base::escape_html;

constexpr std::string_view kStyle = R"(
.plots { display: flex; flex-wrap: wrap; gap: 12px; }
pre { background: #f6f8fa; padding: 1em; overflow-x: auto; }
)";

// What people look at first stands first.
std::size_t rank(std::string_view name) {
  constexpr std::string_view kFirst[] = {"loss", "learning_rate", "gradient_norm"};
  return static_cast<std::size_t>(std::find(std::begin(kFirst), std::end(kFirst), name) - kFirst);
}

// "train/loss" and "validation/loss" share a plot.
std::string plots(const training::Metrics& metrics) {
  std::map<std::pair<std::size_t, std::string>, std::vector<api::Series>> by_name;
  for (const auto& [tag, curve] : metrics.curves) {
    const std::string name = tag.substr(tag.rfind('/') + 1);
    const std::string part = tag.substr(0, tag.size() - name.size());
    by_name[{rank(name), name}].push_back(
        {part.substr(0, part.find('/')), &curve, part == "validation/" ? "#d9730d" : "#1f6feb"});
  }
  std::string text = "<h2>Curves</h2>\n<p>By step; numbers are the last ones.</p>\n";
  for (const std::string& note : metrics.notes) text += "<p>" + escape_html(note) + "</p>\n";
  text += "<div class=\"plots\">\n";
  for (const auto& [key, series] : by_name) {
    std::string title = key.second;
    std::replace(title.begin(), title.end(), '_', ' ');
    text += api::line_plot(title, series);
  }
  return text + "</div>\n";
}

// The files may be gone, or lie elsewhere from here.
std::string data_sections(const runtime::Context& context, const training::LoadedModel& loaded,
                          bool trust_segmenter) {
  try {
    const auto& files = loaded.config.data;
    SLUICE_CHECK(
        trust_segmenter || (files.source_segmenter.empty() && files.target_segmenter.empty()),
        "the run has texts segmented by a command (see its settings), which is not run "
        "without your word: --trust-segmenter");
    const training::TrainData data = loaded.task->read_validation(loaded.config, loaded.tokenizers);
    std::string text;
    if (files.stream) text = "<p>training: streamed, and not counted anew</p>\n";
    for (const std::string& note : data.notes) text += "<p>" + escape_html(note) + "</p>\n";
    return api::answer_sections(context, data, *loaded.model) + "<h2>Data</h2>\n" + text;
  } catch (const Error& error) {
    return fmt::format("<h2>Data</h2>\n<p>The examples could not be read: {}</p>\n",
                       escape_html(error.what()));
  }
}

fs::path model_of(const fs::path& directory) {
  for (const char* name : {"best", "last"}) {
    if (fs::exists(directory / name)) return directory / name;
  }
  base::fail(ErrorCode::kNotFound,
             "'{}' holds neither best/ nor last/; name the output folder of a training run",
             directory.native());
}

std::string model_section(const training::LoadedModel& loaded, const fs::path& path) {
  return fmt::format("<h2>Model</h2>\n<p>{} of {} parameters, from {}</p>\n<pre>{}</pre>\n",
                     loaded.task->kind(), loaded.model->parameters().element_count(),
                     escape_html(path.native()), escape_html(loaded.model->configuration()));
}

}  // namespace

std::string training_report(const std::string& directory, bool trust_segmenter) {
  const fs::path path = model_of(directory);
  const training::Metrics metrics = training::read_metrics(fs::path(directory) / "tensorboard");
  const std::unique_ptr<runtime::Device> device = runtime::open_device("cpu");
  runtime::Context context(*device);
  training::use_threads(context, 0);
  const training::LoadedModel loaded = training::load_model(context, path);
  std::string body = plots(metrics) + data_sections(context, loaded, trust_segmenter) +
                     model_section(loaded, path);
  body += "<h2>Settings</h2>\n<pre>" + escape_html(training::to_toml(loaded.config)) + "</pre>\n";
  return base::html_page("Training run " + directory,
                         std::string(kStyle) + std::string(api::kAnswerStyle), body);
}

}  // namespace sluice
