#include "sluice/demo.h"

#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "api/train_request.h"
#include "data/dates.h"
#include "decoding/attention_view.h"
#include "runtime/threads.h"
#include "sluice/sequence_model.h"
#include "sluice/text.h"
#include "training/seq2seq_data.h"
#include "training/trainer.h"

namespace sluice {
namespace {

constexpr std::int64_t kTrainExamples = 30000;
constexpr std::int64_t kHeldOutExamples = 1000;

training::TrainConfig demo_config(const DemoRequest& request) {
  training::TrainConfig config;
  config.tokenizer.kind = "characters";
  config.model.cell = "lstm";
  config.model.embedding = 48;
  config.model.hidden = 128;
  config.model.bidirectional = true;
  config.model.attention = "additive";
  config.model.dropout = 0.1;
  config.learning_rate.learning_rate = 4e-3;
  config.learning_rate.schedule = "plateau";
  config.learning_rate.plateau_patience = 1;
  config.loop.max_tokens = 3200;
  config.loop.pool = 2048;
  config.loop.max_epochs = 4;
  config.loop.patience = 1;
  config.loop.seed = static_cast<std::int64_t>(request.seed);
  config.loop.keep_best = "exact_match";
  config.output.directory = request.directory;
  return config;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Stands in the folder of a demonstration, whose models may be thrown away.
constexpr const char* kMarker = "made_by_sluice_demo";

// Removes what an earlier demonstration left, and only that: the models of a training stay. Says so
// if there was a model.
void clear_directory(const std::filesystem::path& directory, std::ostream& out) {
  const auto holds = [&](const char* part) { return std::filesystem::exists(directory / part); };
  if ((holds("last") || holds("best")) && !holds(kMarker)) {
    base::fail(ErrorCode::kInvalidArgument,
               "'{}' holds a model that no demonstration made; choose another folder with "
               "--directory",
               directory.string());
  }
  if (holds("best")) {
    fmt::print(out,
               "'{0}' holds the model of an earlier demonstration, which makes way for a new one; "
               "another\n--directory would keep it, and sluice chat {0}/best talks to a model that "
               "is there.\n",
               directory.string());
    out.flush();
  }
  write_text((directory / kMarker).string(), "sluice demo makes this folder anew each time.\n");
  for (const char* part : {"last", "best", "tensorboard", "attention.svg"}) {
    std::filesystem::remove_all(directory / part);
  }
}

double train_model(const DemoRequest& request, const training::TrainConfig& config,
                   training::RunFolder folder) {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(config.device);
  const runtime::Context context = api::context_of(*device, config);
  runtime::use_threads(context, config.threads);
  const training::TextData text{
      data::make_dates(kTrainExamples, request.seed, data::DatePart::kTrain),
      data::make_dates(kHeldOutExamples, request.seed, data::DatePart::kValidation)};
  std::optional<training::Progress> progress;
  if (!request.quiet) progress = training::Progress::for_standard_error();
  training::TrainHooks hooks;
  hooks.progress = progress ? &*progress : nullptr;
  const auto start = std::chrono::steady_clock::now();
  training::Trainer trainer(context, config, training::make_train_data(config, text),
                            training::Start::kFresh, std::move(folder));
  trainer.run(hooks);
  return seconds_since(start);
}

struct Exam {
  double exact_match = 0;
  std::vector<std::pair<data::TextPair, std::string>> faults;  // example, wrong answer
};

Exam examine(SequenceModel& model, const std::vector<data::TextPair>& examples) {
  std::vector<std::string> inputs;
  for (const data::TextPair& example : examples) inputs.push_back(example.source);
  const std::vector<Decoded> decoded = model.decode(inputs, {.beam = 5, .batch = 64});
  Exam exam;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const std::string& answer = decoded[i].hypotheses.front().text;
    if (answer != examples[i].target) exam.faults.emplace_back(examples[i], answer);
  }
  exam.exact_match =
      1 - static_cast<double>(exam.faults.size()) / static_cast<double>(examples.size());
  return exam;
}

void show_answers(SequenceModel& model, const std::filesystem::path& directory,
                  const std::vector<data::TextPair>& examples, std::ostream& out) {
  std::vector<std::string> inputs;
  for (const data::TextPair& example : examples) inputs.push_back(example.source);
  const std::vector<Decoded> decoded = model.decode(inputs, {.beam = 5, .attention = true});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    fmt::print(out, "  {}  ->  {}\n", inputs[i], decoded[i].hypotheses.front().text);
  }
  const Decoded& shown = decoded.front();
  const Hypothesis& answer = shown.hypotheses.front();
  fmt::print(out, "\nWhere it looked for \"{}\" (one row for each character written):\n\n{}",
             inputs.front(),
             decoding::attention_text({shown.source_pieces, answer.pieces, answer.attention}));
  const std::filesystem::path picture = directory / "attention.svg";
  write_text(picture.string(), attention_svg(shown, 0));
  fmt::print(out, "\nThe same as a picture: {}\n", picture.string());
}

}  // namespace

DemoReport run_demo(const DemoRequest& request, std::ostream& out) {
  const training::TrainConfig config = demo_config(request);
  training::RunFolder folder(request.directory);
  clear_directory(request.directory, out);
  fmt::print(out,
             "Dates as people write them, in English and Chinese, to ISO dates. {} made-up\n"
             "examples; every day of the test is one that training never sees.\n",
             kTrainExamples);
  out.flush();
  DemoReport report;
  report.train_seconds = train_model(request, config, std::move(folder));

  SequenceModel model = SequenceModel::load(request.directory + "/best");
  const std::vector<data::TextPair> test =
      data::make_dates(kHeldOutExamples, request.seed, data::DatePart::kTest);
  const Exam exam = examine(model, test);
  report.exact_match = exam.exact_match;
  fmt::print(out, "\nTrained {} parameters in {:.1f} s. Exact match on {} unseen dates: {}\n\n",
             model.info().parameters, report.train_seconds, test.size(),
             training::show_share(exam.exact_match));
  for (std::size_t i = 0; i < std::min<std::size_t>(exam.faults.size(), 3); ++i) {
    const auto& [example, answer] = exam.faults[i];
    fmt::print(out, "  wrong: {}  ->  {} (it is {})\n", example.source, answer, example.target);
  }
  show_answers(model, request.directory, {test.begin(), test.begin() + 6}, out);
  fmt::print(out, "Talk to it: sluice chat {}/best (sluice is build/sluice where it was built)\n",
             request.directory);
  return report;
}

}  // namespace sluice
