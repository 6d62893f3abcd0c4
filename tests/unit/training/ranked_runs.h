#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "training/task.h"
#include "training/trainer.h"
#include "unit/support/long_form.h"
#include "unit/support/npy_file.h"
#include "unit/support/on_device.h"
#include "unit/support/on_ranks.h"
#include "unit/support/temporary_folder.h"

namespace sluice::training {

/// Loss and norm of gradients of each step.
using Curve = std::vector<double>;

class RankedRunsTest : public ::testing::TestWithParam<const char*> {
 protected:
  RankedRunsTest() {
    config_.tokenizer.kind = "characters";
    config_.model.embedding = 8;
    config_.model.hidden = 12;
    config_.model.dropout = 0.2;
    config_.optimizer.optimizer = "sgd";
    config_.optimizer.momentum = 0.9;
    config_.loop.max_tokens = 120;
    config_.loop.max_rows = 7;  // no multiple of any number of ranks
    config_.loop.max_epochs = 0;
    config_.loop.max_steps = testing::long_form("SLUICE_TEST_RANKED_STEPS", 16);
    // In hundreds of long steps a last bit grows to a percent, and nothing could be told from that.
    config_.learning_rate.learning_rate = config_.loop.max_steps > 100 ? 0.01 : 0.05;
    config_.loop.validate_every = 5;
    config_.loop.checkpoint_every = 1;
    config_.threads = 1;
  }

  /// Lines of 1 to 9 letters, of which the second half repeats the first in capitals.
  std::string lines(const std::string& between, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      std::string word;
      for (std::size_t n = 1 + random_() % 5; n > 0; --n) {
        word += static_cast<char>('a' + random_() % 6);
      }
      text += word + between;
      for (const char letter : word) text += static_cast<char>(letter - 'a' + 'A');
      text += "\n";
    }
    return text;
  }

  void use_pairs() {
    config_.data.tsv = folder_.write("train.tsv", lines("\t", 60));
    config_.data.validation_tsv = folder_.write("dev.tsv", lines("\t", 9));
  }
  void use_text(std::int64_t bptt) {
    config_.model.kind = "language_model";
    config_.model.layers = 2;
    config_.loop.bptt = bptt;
    config_.data.text = folder_.write("train.txt", lines("", 60));
    config_.data.validation_text = folder_.write("dev.txt", lines("", 9));
  }
  void use_tags() {
    config_.model.kind = "tagger";
    config_.tokenizer.kind = "words";
    const auto sentences = [&](int count) {
      std::string text;
      for (int i = 0; i < count; ++i) {
        for (std::size_t n = 1 + random_() % 6; n > 0; --n) {
          const char letter = static_cast<char>('a' + random_() % 7);
          text += std::string(1, letter) + "\t" + (letter < 'c' ? "B-x" : "O") + "\n";
        }
        text += "\n";
      }
      return text;
    };
    config_.data.conll = folder_.write("train.conll", sentences(60));
    config_.data.validation_conll = folder_.write("dev.conll", sentences(9));
  }
  void use_classes() {
    config_.model.kind = "classifier";
    const auto table = [&](int count) {
      std::string text = "text,label\n";
      for (int i = 0; i < count; ++i) {
        std::string word;
        for (std::size_t n = 1 + random_() % 8; n > 0; --n) {
          word += static_cast<char>('a' + random_() % 4);
        }
        text += word + "," + (word.find('a') < word.size() ? "yes" : "no") + "\n";
      }
      return text;
    };
    config_.data.table = folder_.write("train.csv", table(60));
    config_.data.validation_table = folder_.write("dev.csv", table(9));
  }
  void use_frames() {
    config_.model = {};
    config_.model.kind = "features";
    config_.model.hidden = 12;
    config_.tokenizer = {};
    const auto write = [&](const std::string& name, std::int64_t width) {
      std::uniform_real_distribution<float> draw(-1, 1);
      std::vector<float> values(static_cast<std::size_t>(30 * 6 * width));
      for (float& value : values) value = draw(random_);
      return folder_.write(name, testing::npy_file({30, 6, width}, values));
    };
    config_.data.features = write("x.npy", 3);
    config_.data.targets = write("y.npy", 2);
    config_.data.hold_out_run = 1;
    config_.data.hold_out_every = 6;
  }

  TrainConfig config_in(const std::string& run, std::int64_t steps) const {
    TrainConfig config = config_;
    config.output.directory = folder_ / run;
    config.device = GetParam();
    if (steps > 0) config.loop.max_steps = steps;
    config.validate();
    return config;
  }

  /// Runs one trainer, of `ranks` or of a run that knows of none. `nudge`: parameters start a last
  /// bit away.
  static TrainResult train(const TrainConfig& config, distributed::Communicator* ranks,
                           const TrainHooks& hooks, int nudge = 0) {
    const auto device = runtime::open_device(config.device);
    const Context context(*device);
    std::optional<RunFolder> folder;
    if (ranks == nullptr || ranks->rank() == 0) folder.emplace(config.output.directory);
    Trainer trainer(context, config, task_of(config).read_data(config, nullptr), Start::kResume,
                    std::move(folder), ranks);
    if (nudge != 0) {
      const layers::Parameters& parameters = trainer.model().parameters();
      std::vector<float> values = context.download<float>(parameters.values());
      for (float& value : values) value = std::nextafter(value, nudge > 0 ? 9.0f : -9.0f);
      context.upload<float>(parameters.values(), values);
    }
    return trainer.run(hooks);
  }

  static Curve run(const TrainConfig& config, distributed::Communicator* ranks, int nudge = 0) {
    Curve curve;
    TrainHooks hooks;
    hooks.on_step = [&](const StepReport& report) {
      curve.push_back(report.loss);
      curve.push_back(report.gradient_norm);
    };
    train(config, ranks, hooks, nudge);
    return curve;
  }

  Curve by_ranks(std::int64_t count, const std::string& folder, std::int64_t steps = 0) const {
    const TrainConfig config = config_in(folder, steps);
    Curve curve;
    const auto thrown = testing::on_ranks(count, [&](distributed::Communicator& rank) {
      Curve own = run(config, &rank);
      if (rank.rank() == 0) curve = std::move(own);
    });
    EXPECT_EQ(thrown, testing::no_errors(count));
    return curve;
  }

  /// The largest difference of two curves, as a share of the value.
  static double distance(const Curve& a, const Curve& b) {
    EXPECT_EQ(a.size(), b.size());
    double most = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      most = std::max(most, std::abs(a[i] - b[i]) / std::abs(a[i]));
    }
    return most;
  }

  /// As RankedStepsTest::bound.
  double bound(const Curve& alone) const {
    return 10 * std::max(distance(alone, run(config_in("up", 0), nullptr, 1)),
                         distance(alone, run(config_in("down", 0), nullptr, -1)));
  }

  void expect_ranks_run_as_one() {
    SCOPED_TRACE(::testing::Message() << "seed " << seed_);
    const Curve alone = run(config_in("alone", 0), nullptr);
    ASSERT_EQ(std::ssize(alone), 2 * config_.loop.max_steps);
    const double most = bound(alone);
    ASSERT_LT(most, 1e-2);
    for (const std::int64_t ranks : {2, 3}) {
      EXPECT_LE(distance(alone, by_ranks(ranks, "ranks" + std::to_string(ranks))), most) << ranks;
    }
    // More ranks than rows, and another number of them each time the run goes on.
    Curve changing;
    const std::int64_t quarter = config_.loop.max_steps / 4;
    for (const auto& [ranks, steps] : {std::pair{9, quarter},
                                       {4, 2 * quarter + 1},
                                       {2, 3 * quarter + 1},
                                       {1, config_.loop.max_steps}}) {
      const Curve part = by_ranks(ranks, "changing", steps);
      changing.insert(changing.end(), part.begin(), part.end());
    }
    EXPECT_LE(distance(alone, changing), most);
  }

  testing::TemporaryFolder folder_;
  TrainConfig config_;
  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
};

}  // namespace sluice::training
