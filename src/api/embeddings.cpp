#include "sluice/embeddings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "api/loaded_model.h"
#include "base/check.h"
#include "decoding/token_label.h"
#include "io/directory_swap.h"
#include "sluice/text.h"
#include "training/checkpoint.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestLabel = 100;

/// Rows of a parameter as lines of numbers, in as many digits as read back to the same bits.
std::string vectors_of(const std::vector<float>& values, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{}{}", values[i], (i + 1) % width == 0 ? '\n' : '\t');
  }
  return text;
}

/// One label a line; a column without a heading, as the projector wants a single one.
std::string labels_of(const data::Tokenizer& tokenizer) {
  std::string text;
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    text += decoding::token_label(tokenizer.piece(id), kLongestLabel) + '\n';
  }
  return text;
}

class Export {
 public:
  Export(const runtime::Context& context, const model_files::LoadedModel& loaded,
         fs::path directory)
      : context_(context), loaded_(loaded), directory_(std::move(directory)) {}

  /// The embeddings of a vocabulary, unless they were written for another one.
  void add(std::string_view parameter, const data::Tokenizer& tokenizer) {
    const layers::Parameters& parameters = loaded_.model->parameters();
    const auto spec =
        std::ranges::find(parameters.specs(), parameter, &layers::ParameterSpec::name);
    const bool written =
        std::ranges::find(results, parameter, &ExportedEmbeddings::parameter) != results.end();
    if (spec == parameters.specs().end() || written) return;
    const auto id = static_cast<layers::ParameterId>(spec - parameters.specs().begin());
    const auto width = static_cast<std::size_t>(spec->shape[1]);
    results.push_back({spec->name, static_cast<std::size_t>(tokenizer.size()), width});
    write(spec->name + ".vectors.tsv", vectors_of(parameters.download<float>(context_, id), width));
    write(spec->name + ".labels.tsv", labels_of(tokenizer));
    config_ += fmt::format(
        "embeddings {{\n  tensor_name: \"{0}\"\n  tensor_path: \"{0}.vectors.tsv\"\n  "
        "metadata_path: \"{0}.labels.tsv\"\n}}\n",
        spec->name);
  }

  void finish() const { write("projector_config.pbtxt", config_); }

  std::vector<ExportedEmbeddings> results;

 private:
  void write(const std::string& name, const std::string& text) const {
    write_text((directory_ / name).string(), text);
  }

  const runtime::Context& context_;
  const model_files::LoadedModel& loaded_;
  fs::path directory_;
  std::string config_;
};

}  // namespace

std::vector<ExportedEmbeddings> export_embeddings(const std::string& model,
                                                  const std::string& directory) {
  using model_files::Vocabulary;
  const std::unique_ptr<runtime::Device> device = runtime::open_device("cpu");
  const runtime::Context context(*device);
  const model_files::LoadedModel loaded = model_files::load_model(context, model);
  const model_files::Tokenizers& tokenizers = loaded.tokenizers;
  SLUICE_CHECK(tokenizers.source || tokenizers.target,
               "'{}' holds a model of kind {}, which has no embeddings", model, loaded.kind->name);
  const training::Task& task = training::task_of(loaded);
  const training::TrainConfig config = training::run_config(loaded);
  io::make_directory(directory);
  Export out(context, loaded, directory);
  if (tokenizers.source) {
    out.add(task.embedding_of(config, Vocabulary::kSource), *tokenizers.source);
  }
  if (tokenizers.target) {
    out.add(task.embedding_of(config, Vocabulary::kTarget), *tokenizers.target);
  }
  out.finish();
  return std::move(out.results);
}

}  // namespace sluice
