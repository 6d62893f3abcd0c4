#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "sluice/classifier.h"
#include "sluice/feature_model.h"
#include "sluice/language_model.h"
#include "sluice/sequence_model.h"
#include "sluice/tagger.h"
#include "unit/api/trained_models.h"
#include "unit/support/npy_file.h"
#include "unit/support/on_device.h"

/// What models keep from call to call: it serves the next call, changes no result and stays within
/// its bound.
namespace sluice {
namespace {

const std::string kTrain =
    "[training]\nmax_steps = 20\nlearning_rate = 0.05\n[tokenizer]\nkind = \"words\"\n[data]\n";
const std::string kModel = "[model]\nhidden = 20\n";

/// Sentences of so many words, all different.
std::string words(std::size_t count, std::size_t first = 0) {
  static constexpr const char* kWords[] = {"a", "b", "c", "d", "e"};
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : " ") + std::string(kWords[(first + i * i + 3 * i) % std::size(kWords)]);
  }
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ' ') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string text_of(const std::vector<Hypothesis>& hypotheses) {
  std::string text;
  for (const Hypothesis& one : hypotheses) {
    text += fmt::format("{} {} {} {}|", one.text, one.score, one.normalised_score, one.ended);
    for (const auto& row : one.attention) {
      for (const float weight : row) text += fmt::format("{} ", weight);
    }
  }
  return text;
}

std::string text_of(const std::vector<Scored>& scores) {
  std::string text;
  for (const Scored& one : scores) text += fmt::format("{} {}|", one.log_probability, one.tokens);
  return text;
}

/// A call of a model, with all that it answers to the last digit.
using Call = std::function<std::string()>;

/// A model on a device, and calls of it. `calls[0]` and `calls[1]` are of other lengths, but of
/// lengths that share a plan.
struct Subject {
  std::shared_ptr<void> model;
  std::function<PlanCacheUse()> use;
  std::function<void()> clear;
  std::vector<Call> calls;
};

template <typename Model>
Subject subject_of(Model loaded, const std::function<std::vector<Call>(Model&)>& calls_of) {
  const auto model = std::make_shared<Model>(std::move(loaded));
  return {model, [model] { return model->plan_cache(); }, [model] { model->clear_plan_cache(); },
          calls_of(*model)};
}

Subject sequence_model(const std::string& path, const Placement& placement) {
  return subject_of<SequenceModel>(SequenceModel::load(path, placement), [](SequenceModel& model) {
    std::vector<Call> calls;
    const auto decode = [&](std::vector<std::string> inputs, const DecodeOptions& options) {
      calls.push_back([&model, inputs, options] {
        std::string text;
        for (const Decoded& one : model.decode(inputs, options)) text += text_of(one.hypotheses);
        return text;
      });
    };
    DecodeOptions options;
    options.beam = 3;
    options.nbest = 2;
    options.max_length = 12;
    decode({words(3)}, options);
    decode({words(5)}, options);
    decode({words(40), "", words(2, 1), words(9)}, options);
    options.attention = true;
    decode({words(5), words(7, 3)}, options);
    options.attention = false;
    options.prefixes = {"a b", ""};
    decode({words(6), words(1)}, options);
    options.prefixes.clear();
    for (const std::uint64_t seed : {5, 6}) {
      options.sample.emplace();
      options.sample->samples = 3;
      options.sample->seed = seed;
      decode({words(4), words(6, 2)}, options);
    }
    calls.push_back([&model] {
      const std::vector<std::pair<std::string, std::string>> pairs{
          {words(3), words(4)}, {words(11), words(2, 4)}, {words(1), ""}};
      return text_of(model.score(pairs));
    });
    return calls;
  });
}

Subject language_model(const std::string& path, const Placement& placement) {
  return subject_of<LanguageModel>(LanguageModel::load(path, placement), [](LanguageModel& model) {
    std::vector<Call> calls;
    const auto generate = [&](const GenerateOptions& options) {
      calls.push_back([&model, options] { return text_of(model.generate(options)); });
    };
    GenerateOptions options;
    options.max_length = 10;
    options.sample.samples = 5;
    generate(options);
    options.sample.samples = 7;
    options.sample.seed = 9;
    generate(options);
    options.prefix = "a b";
    generate(options);
    options.search.emplace();
    options.search->nbest = 2;
    generate(options);
    calls.push_back([&model] {
      GenerateOptions part;
      part.max_length = 4;
      part.sample.samples = 3;
      TextParts parts = model.generate_part(part);
      std::string text = text_of(parts.texts);
      part.max_length = 5;
      parts = model.generate_part(part, parts.state);
      return text + text_of(parts.texts);
    });
    calls.push_back([&model] {
      const std::vector<std::string> texts{words(3), words(14), ""};
      return text_of(model.score(texts));
    });
    return calls;
  });
}

Subject tagger(const std::string& path, const Placement& placement) {
  return subject_of<Tagger>(Tagger::load(path, placement), [](Tagger& model) {
    std::vector<Call> calls;
    const auto tag = [&](const std::vector<std::size_t>& lengths) {
      std::vector<std::vector<std::string>> sentences;
      for (const std::size_t length : lengths) sentences.push_back(split(words(length, length)));
      calls.push_back([&model, sentences] {
        std::string text;
        for (const TaggedSentence& one : model.tag(sentences)) text += to_conll(one);
        return text;
      });
    };
    tag({2});
    tag({4, 3});
    tag({17, 1, 5});
    tag({5, 5, 6, 70});
    calls.push_back([&model] {
      model.begin_sentence();
      return to_conll(model.tag_part(split(words(3)))) + to_conll(model.tag_part(split(words(6))));
    });
    return calls;
  });
}

Subject classifier(const std::string& path, const Placement& placement) {
  return subject_of<Classifier>(Classifier::load(path, placement), [](Classifier& model) {
    std::vector<Call> calls;
    const auto classify = [&](const std::vector<std::size_t>& lengths) {
      std::vector<std::string> texts;
      for (const std::size_t length : lengths) texts.push_back(words(length, length));
      calls.push_back([&model, texts] {
        std::string text;
        for (const Classified& one : model.classify(texts)) {
          for (const double p : one.probabilities) text += fmt::format("{} ", p);
        }
        return text;
      });
    };
    classify({2});
    classify({4, 3});
    classify({0, 9, 1});
    classify({5, 5, 6, 70});
    calls.push_back([&model] {
      model.begin_text();
      model.classify_part(words(4));
      std::string text;
      for (const double p : model.classify_part(words(7)).probabilities) {
        text += fmt::format("{} ", p);
      }
      return text;
    });
    return calls;
  });
}

Subject feature_model(const std::string& path, const Placement& placement) {
  return subject_of<FeatureModel>(FeatureModel::load(path, placement), [](FeatureModel& model) {
    std::vector<Call> calls;
    const auto frames_of = [](std::size_t time) {
      Frames frames;
      frames.width = 2;
      for (std::size_t i = 0; i < 2 * time; ++i) {
        frames.values.push_back(static_cast<float>((i * i + time) % 11) / 4 - 1);
      }
      return frames;
    };
    const auto text = [](const Frames& frames) {
      std::string all;
      for (const float value : frames.values) all += fmt::format("{} ", value);
      return all;
    };
    const auto run = [&](const std::vector<std::size_t>& times) {
      std::vector<Frames> sequences;
      for (const std::size_t time : times) sequences.push_back(frames_of(time));
      calls.push_back([&model, sequences, text] {
        std::string all;
        for (const Frames& one : model.run(sequences)) all += text(one) + "|";
        return all;
      });
    };
    run({2});
    run({4, 3});
    run({21, 1, 5});
    run({5, 90});
    calls.push_back([&model, frames_of, text] {
      model.begin_sequence();
      return text(model.run_part(frames_of(3))) + text(model.run_part(frames_of(5)));
    });
    return calls;
  });
}

struct Kind {
  const char* name;
  Subject (*open)(const std::string& path, const Placement& placement);
};

constexpr Kind kKinds[] = {{"pairs", sequence_model},
                           {"text", language_model},
                           {"tags", tagger},
                           {"live", classifier},
                           {"sensor", feature_model}};

/// Models that are trained once on the cpu.
class PlanCacheApi : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    std::string pairs, lines, table = "text,label\n", conll;
    for (std::size_t i = 0; i < 12; ++i) {
      const std::string text = words(1 + i % 7, i);
      pairs += text + '\t' + words(1 + i % 5, i + 1) + '\n';
      lines += text + '\n';
      table += text + (i % 2 == 0 ? ",x\n" : ",y\n");
      for (const std::string& word : split(text))
        conll += word + (word < "c" ? "\tO\n" : "\tB-x\n");
      conll += '\n';
    }
    folder_->write("pairs.tsv", pairs);
    train("pairs", kTrain + "tsv = \"" + at("pairs.tsv") + "\"\n" + kModel);
    folder_->write("lines.txt", lines);
    train("text",
          kTrain + "text = \"" + at("lines.txt") + "\"\n" + kModel + "kind = \"language_model\"\n");
    folder_->write("tags.conll", conll);
    train("tags", kTrain + "conll = \"" + at("tags.conll") + "\"\n" + kModel +
                      "kind = \"tagger\"\noutput = \"softmax\"\nbidirectional = false\n");
    folder_->write("live.csv", table);
    train("live", kTrain + "table = \"" + at("live.csv") + "\"\n" + kModel +
                      "kind = \"classifier\"\npooling = \"last\"\nbidirectional = false\n");
    std::vector<float> frames;
    for (int i = 0; i < 24; ++i) frames.push_back(static_cast<float>(i * 7 % 11) / 5 - 1);
    folder_->write("frames.npy", testing::npy_file({12, 2}, frames));
    train("sensor", "[training]\nmax_steps = 5\n[data]\nfeatures = \"" + at("frames.npy") +
                        "\"\ntargets = \"" + at("frames.npy") + "\"\n" + kModel +
                        "kind = \"features\"\nbidirectional = false\n");
  }
  static Subject open(const Kind& kind, std::int64_t plan_cache_bytes = -1) {
    return kind.open(at(std::string(kind.name) + "/last"),
                     {.device = GetParam(), .plan_cache_bytes = plan_cache_bytes});
  }
  /// Of fresh models.
  static std::vector<std::string> answers(const Kind& kind) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < open(kind).calls.size(); ++i) {
      all.push_back(open(kind).calls[i]());
      EXPECT_FALSE(all.back().empty()) << i;
    }
    return all;
  }
};

TEST_P(PlanCacheApi, ServesTheNextCallOfLikeLength) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const Subject subject = open(kind);
    EXPECT_EQ(subject.use().plans, 0);
    subject.calls[0]();
    const PlanCacheUse first = subject.use();
    EXPECT_EQ(first.plans, 1);
    EXPECT_EQ(first.plans_made, 1);
    EXPECT_GE(first.weights_packed, 1);
    EXPECT_GT(first.bytes, 0);
    for (const int call : {0, 1, 0, 1}) subject.calls[static_cast<std::size_t>(call)]();
    const PlanCacheUse now = subject.use();
    EXPECT_EQ(now.plans_made, 1);
    EXPECT_EQ(now.weights_packed, first.weights_packed);
    EXPECT_EQ(now.bytes, first.bytes);
  }
}

TEST_P(PlanCacheApi, PacksWeightsOnceForAllPlans) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const Subject subject = open(kind);
    std::int64_t packed = 0;
    for (int round = 0; round < 2; ++round) {
      for (const Call& call : subject.calls) call();
      if (round == 0) packed = subject.use().weights_packed;
    }
    EXPECT_GT(subject.use().plans, 1);
    EXPECT_EQ(subject.use().plans_made, subject.use().plans) << "all are kept";
    EXPECT_EQ(subject.use().weights_packed, packed);
    if (std::string_view(GetParam()) == "cuda") continue;  // layouts there go by capacity
    // Encoder and decoder, or the one stack there is; with AMX many rows and few have layouts of
    // their own.
    EXPECT_LE(packed, kind.open == sequence_model ? 4 : 2);
    EXPECT_LT(packed, subject.use().plans);
  }
}

TEST_P(PlanCacheApi, ChangesNoAnswer) {
  std::mt19937 engine(20);
  for (const Kind& kind : kKinds) {
    const std::vector<std::string> expected = answers(kind);
    // All that is ever needed, some of it, and nothing.
    for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{40'000}, std::int64_t{0}}) {
      const Subject subject = open(kind, bytes);
      for (int i = 0; i < 25; ++i) {
        const std::size_t call = engine() % subject.calls.size();
        SCOPED_TRACE(::testing::Message()
                     << kind.name << ", " << bytes << " bytes, turn " << i << ", call " << call);
        EXPECT_EQ(subject.calls[call](), expected[call]);
        if (i % 9 == 8) subject.clear();
      }
    }
  }
}

TEST_P(PlanCacheApi, StaysWithinItsBound) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    // A sequence that comes in parts has its own memory, until the model goes.
    const auto run_all = [](const Subject& subject, std::int64_t bound) {
      std::int64_t most = 0;
      for (int round = 0; round < 2; ++round) {
        for (std::size_t i = 0; i < 4; ++i) {
          subject.calls[i]();
          most = std::max(most, subject.use().bytes);
          if (bound >= 0) {
            EXPECT_LE(subject.use().bytes, bound) << i;
          }
        }
      }
      return most;
    };
    const Subject free = open(kind);
    const std::int64_t most = run_all(free, -1);
    const Subject bound = open(kind, most / 2);
    run_all(bound, most / 2);
    EXPECT_GT(bound.use().plans_made, free.use().plans_made) << "some were dropped";
    const Subject none = open(kind, 0);
    run_all(none, 0);
    EXPECT_EQ(none.use().plans, 0);
    free.clear();
    EXPECT_EQ(free.use().bytes, 0);
  }
}

TEST_P(PlanCacheApi, RefusesABoundThatIsNone) {
  const Error error = testing::error_of([] { open(kKinds[0], -2); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("plan_cache_bytes is -2"), std::string::npos)
      << error.what();
}

INSTANTIATE_TEST_SUITE_P(Devices, PlanCacheApi, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice
