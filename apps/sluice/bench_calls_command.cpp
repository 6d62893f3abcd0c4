#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>

#include "bench/statistics.h"
#include "bench_commands.h"
#include "placement_options.h"
#include "sluice/error.h"
#include "sluice/sequence_model.h"
#include "sluice/text.h"
#include "sluice/train.h"

namespace sluice::app {
namespace {

namespace fs = std::filesystem;

struct Options {
  Placement placement;
  std::string model;
  std::int64_t hidden = 512, layers = 2, words = 4000;
  std::int64_t calls = 1000;
  std::int64_t beam = 1, max_length = 16;
  std::uint64_t seed = 1;
};

constexpr std::int64_t kShortest = 3, kLongest = 20;  // words of a line

/// Lines of words that a model of as many has seen.
std::vector<std::string> draw_lines(std::int64_t count, std::int64_t words, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(bound));
  };
  std::vector<std::string> lines;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string line;
    for (std::int64_t left = kShortest + below(kLongest - kShortest + 1); left > 0; --left) {
      line += (line.empty() ? "w" : " w") + std::to_string(below(words));
    }
    lines.push_back(line);
  }
  return lines;
}

/// A folder that goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "sluice-bench-XXXXXX").native();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorCode::kIo, "no temporary folder can be made like '" + name + "'");
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).native(); }

 private:
  fs::path path_;
};

/// A model after one step of training on lines of all words.
std::string make_model(const Options& options, const TemporaryFolder& folder) {
  std::string pairs, all;
  for (std::int64_t word = 0; word < options.words; ++word) {
    all += "w" + std::to_string(word);
    const bool ends = word % kLongest == kLongest - 1 || word + 1 == options.words;
    if (ends) {
      pairs += all;
      pairs += '\t';
      pairs += all;
      pairs += '\n';
      all.clear();
    } else {
      all += ' ';
    }
  }
  write_text(folder / "pairs.tsv", pairs);
  TrainRequest request;
  request.quiet = true;
  request.overrides = {"data.tsv=" + (folder / "pairs.tsv"),
                       "tokenizer.kind=words",
                       "model.hidden=" + std::to_string(options.hidden),
                       "model.embedding=" + std::to_string(options.hidden),
                       "model.encoder_layers=" + std::to_string(options.layers),
                       "model.decoder_layers=" + std::to_string(options.layers),
                       "training.max_steps=1",
                       "output.directory=" + (folder / "model")};
  train(request);
  return folder / "model/last";
}

void time_calls(const Options& options, const std::string& path, std::int64_t plan_cache_bytes,
                const char* what) {
  using Clock = std::chrono::steady_clock;
  Placement placement = options.placement;
  placement.plan_cache_bytes = plan_cache_bytes;
  SequenceModel model = SequenceModel::load(path, placement);
  DecodeOptions decode;
  decode.beam = options.beam;
  decode.max_length = options.max_length;
  std::vector<double> milliseconds;
  double total = 0;
  for (const std::string& line : draw_lines(options.calls, options.words, options.seed)) {
    const auto begin = Clock::now();
    model.decode({&line, 1}, decode);
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    milliseconds.push_back(took.count());
    total += took.count();
  }
  const PlanCacheUse use = model.plan_cache();
  const double second = milliseconds.size() > 1 ? milliseconds[1] : milliseconds[0];
  std::printf("%-8s %9.2f %9.2f %9.2f %9.2f %8lld %8lld %8.1f\n", what, milliseconds[0], second,
              bench::median(milliseconds), total / 1e3, static_cast<long long>(use.plans_made),
              static_cast<long long>(use.weights_packed),
              static_cast<double>(use.bytes) / (1 << 20));
  std::fflush(stdout);
}

void run(const Options& options) {
  if (options.calls < 1) throw Error(ErrorCode::kInvalidArgument, "--calls must be at least 1");
  const TemporaryFolder folder;
  const std::string path = options.model.empty() ? make_model(options, folder) : options.model;
  std::printf("%lld calls of one line, %s, beam %lld\n%-8s %9s %9s %9s %9s %8s %8s %8s\n",
              static_cast<long long>(options.calls), options.placement.device.c_str(),
              static_cast<long long>(options.beam), "plans", "first ms", "second ms", "median ms",
              "all s", "plans", "packed", "MiB");
  time_calls(options, path, 0, "dropped");
  time_calls(options, path, options.placement.plan_cache_bytes, "kept");
}

}  // namespace

void add_bench_calls(CLI::App& bench) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "calls", "Time calls of one line each, with prepared work kept between calls or dropped");
  command->add_option(
      "--model", options->model,
      "A seq2seq checkpoint (default: one that the command makes, with random weights)");
  command->add_option("--hidden", options->hidden, "Hidden units of the model that is made")
      ->capture_default_str();
  command->add_option("--layers", options->layers, "Layers of encoder and decoder")
      ->capture_default_str();
  command->add_option("--words", options->words, "Words of its vocabulary")
      ->check(CLI::Range(std::int64_t{10}, std::int64_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--calls", options->calls, "Lines to decode, each in a call of its own")
      ->capture_default_str();
  command->add_option("--beam", options->beam, "Beam width")->capture_default_str();
  command->add_option("--max-length", options->max_length, "Maximum number of tokens of an answer")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of the lines")->capture_default_str();
  add_placement_options(*command, options->placement);
  command->footer(
      "Decodes lines of 3 to 20 words one by one through the C++ API, as `chat` does. A plan is "
      "the\n"
      "prepared work for one size of input: its memory, and the weights packed for the kernels.\n"
      "One model drops its plans after each call, another keeps them. Prints the time of the\n"
      "first two calls, the median and the sum. Then follow the number of plans made, how often a\n"
      "layer's weights were packed, and the memory kept at the end.\n\n"
      "  sluice bench calls\n"
      "  sluice bench calls --device cuda --precision bfloat16\n"
      "  sluice bench calls --model runs/demo/best --beam 5");
  command->callback([options] { run(*options); });
}

}  // namespace sluice::app
