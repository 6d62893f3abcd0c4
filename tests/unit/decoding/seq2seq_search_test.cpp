#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "data/tokenizer.h"
#include "decoding/search.h"
#include "kernels/beam_search/beam_search.h"
#include "models/seq2seq_decoding.h"
#include "models/seq2seq_training.h"
#include "unit/support/on_device.h"

namespace sluice::decoding {
namespace {

using Sources = std::vector<std::vector<std::int32_t>>;

constexpr std::int32_t kVocabulary = 23;

models::Seq2SeqConfig small_config(const char* cell, const char* attention) {
  models::Seq2SeqConfig config;
  config.cell = cell;
  config.attention = attention;
  config.source_vocabulary = config.target_vocabulary = kVocabulary;
  config.embedding = 7;
  config.hidden = 10;
  config.encoder_layers = 2;
  config.decoder_layers = 2;
  return config;
}

// The search over a real model with random weights.
class Seq2SeqSearch : public testing::OnDevice {
 protected:
  explicit Seq2SeqSearch(const char* cell = "lstm", const char* attention = "additive")
      : model_(small_config(cell, attention)) {}

  void make_model(DType dtype) {
    model_.parameters().allocate(context_, dtype, false);
    model_.parameters().initialize(context_, 8);
    // Larger weights, so that the outputs depend on the inputs and end at different lengths.
    base::dispatch_master(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const Tensor& values = model_.parameters().values();
      auto host = context_.download<T>(values);
      for (T& value : host) value *= 8;
      context_.upload<T>(values, host);
    });
  }

  /// Tokens of all rows one after the other as time-major [longest, rows], padded.
  Tensor time_major(const Sources& rows, std::int64_t longest) {
    const std::size_t count = rows.size();
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(longest) * count, data::kPadId);
    for (std::size_t r = 0; r < count; ++r) {
      for (std::size_t t = 0; t < rows[r].size(); ++t) tokens[t * count + r] = rows[r][t];
    }
    return put(tokens, {longest, static_cast<std::int64_t>(count)});
  }

  static std::vector<std::int32_t> lengths_of(const Sources& rows) {
    std::vector<std::int32_t> lengths;
    for (const auto& row : rows) lengths.push_back(static_cast<std::int32_t>(row.size()));
    return lengths;
  }

  std::vector<std::vector<Hypothesis>> decode(const Sources& sources,
                                              const SearchOptions& options) {
    const std::vector<std::int32_t> lengths = lengths_of(sources);
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    const auto inputs = static_cast<std::int64_t>(sources.size());
    models::Seq2SeqDecoding decoding(context_, model_, {inputs, longest, inputs * options.beam});
    SearchOptions kept = options;
    kept.attention = options.attention && model_.config().attends();
    BeamSearch search(context_, decoding, kept, {inputs, longest, model_.parameters().dtype()});
    decoding.encode(context_, time_major(sources, longest), put(lengths));
    return fetch(context_, search.run(context_, lengths));
  }

  /// log p of given outputs, eos included.
  double score(const std::vector<std::int32_t>& source, const std::vector<std::int32_t>& target) {
    std::vector<std::int32_t> in{data::kBosId}, out = target;
    in.insert(in.end(), target.begin(), target.end());
    out.push_back(data::kEosId);
    const auto time = static_cast<std::int64_t>(in.size());
    const auto source_time = static_cast<std::int64_t>(source.size());
    models::Batch batch;
    batch.extent = {1, source_time, time};
    batch.source = time_major({source}, source_time);
    batch.source_lengths = put(lengths_of({source}));
    batch.target_in = time_major({in}, time);
    batch.target_out = time_major({out}, time);
    batch.target_lengths = put(lengths_of({in}));
    batch.row_ids = put(std::vector<std::int32_t>{0});
    runtime::ArenaPlanner planner;
    models::Seq2SeqTraining plan(context_, model_, planner, batch.extent, false);
    const runtime::Arena arena(*device_, planner);
    const auto scores = get<double>(plan.score(context_, arena, batch));
    return std::accumulate(scores.begin(), scores.end(), 0.0);
  }

  /// In float64, or `in_float32` where the device's recurrent layers take none.
  void expect_scores_of_teacher_forcing(double in_float32);

  models::Seq2Seq model_;
};

/// A step of its decoder has two products after each other.
class ResetBeforeSearch : public Seq2SeqSearch {
 protected:
  ResetBeforeSearch() : Seq2SeqSearch("gru_reset_before") {}
};

/// A step of its decoder goes from one state to another.
class PlainSearch : public Seq2SeqSearch {
 protected:
  PlainSearch() : Seq2SeqSearch("lstm", "none") {}
};

const Sources kSources{{5, 9, 4, 22, 7}, {6}, {10, 11, 12, 13, 14, 15, 16, 17}, {4, 4}, {20, 8, 5}};

SearchOptions options_for(std::int64_t beam) {
  SearchOptions options;
  options.beam = beam;
  options.nbest = std::min<std::int64_t>(beam, 3);
  options.length_penalty = 0.7;
  options.max_length_offset = 4;
  options.attention = true;
  return options;
}

TEST_P(Seq2SeqSearch, BatchedEqualsSingleToTheBitInFloat64) {
  if (!device_->runs_host_kernels())
    GTEST_SKIP() << "this device has no recurrent layers in float64";
  make_model(DType::kFloat64);
  for (const std::int64_t beam : {1, 4}) {
    const auto together = decode(kSources, options_for(beam));
    for (std::size_t i = 0; i < kSources.size(); ++i) {
      const auto alone = decode({kSources[i]}, options_for(beam))[0];
      ASSERT_EQ(together[i].size(), alone.size());
      for (std::size_t j = 0; j < alone.size(); ++j) {
        EXPECT_EQ(together[i][j].tokens, alone[j].tokens);
        EXPECT_EQ(together[i][j].score, alone[j].score);
        EXPECT_EQ(together[i][j].attention, alone[j].attention);
      }
    }
  }
}

// Products may be blocked by shape. A score adds up at most 20 steps of about 1e-6 each; tokens may
// differ where scores nearly tie.
TEST_P(Seq2SeqSearch, BatchedNearlyEqualsSingleInFloat32) {
  make_model(DType::kFloat32);
  const auto together = decode(kSources, options_for(4));
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    const auto alone = decode({kSources[i]}, options_for(4))[0];
    ASSERT_EQ(together[i].size(), alone.size());
    for (std::size_t j = 0; j < alone.size(); ++j) {
      EXPECT_NEAR(together[i][j].normalised_score, alone[j].normalised_score, 1e-4);
    }
  }
}

void Seq2SeqSearch::expect_scores_of_teacher_forcing(double in_float32) {
  const bool wide = device_->runs_host_kernels();
  const double tolerance = wide ? 1e-10 : in_float32;
  make_model(wide ? DType::kFloat64 : DType::kFloat32);
  const auto found = decode(kSources, options_for(4));
  std::vector<std::size_t> lengths;
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    ASSERT_EQ(found[i].size(), 3u);
    for (const Hypothesis& hypothesis : found[i]) {
      EXPECT_NEAR(hypothesis.score, score(kSources[i], hypothesis.tokens), tolerance);
      lengths.push_back(hypothesis.tokens.size());
    }
  }
  // Or the case would show little.
  EXPECT_NE(*std::min_element(lengths.begin(), lengths.end()),
            *std::max_element(lengths.begin(), lengths.end()));
}

// In float32 logits around 10 are off by some 1e-5, and so is each of up to 13 tokens' log p.
TEST_P(Seq2SeqSearch, ScoresAsTeacherForcing) { expect_scores_of_teacher_forcing(2e-4); }
// What r is off by passes one of these large matrices more in each step: these scores in float32 on
// a CPU are off by up to 1.8e-4 from those in float64 (of the LSTM by 9e-6), and two orders of
// summation by as much each.
TEST_P(ResetBeforeSearch, ScoresAsTeacherForcing) { expect_scores_of_teacher_forcing(5e-4); }
TEST_P(PlainSearch, ScoresAsTeacherForcing) { expect_scores_of_teacher_forcing(5e-4); }

TEST_P(Seq2SeqSearch, AttentionIsADistributionOverTheSource) {
  make_model(DType::kFloat32);
  const auto found = decode(kSources, options_for(3));
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    for (const Hypothesis& hypothesis : found[i]) {
      ASSERT_EQ(hypothesis.attention.size(), hypothesis.tokens.size());
      for (const auto& weights : hypothesis.attention) {
        ASSERT_EQ(weights.size(), kSources[i].size());
        EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-5);
      }
    }
  }
}

// Whatever changes from step to step is data on the device, so a step that was captured once can be
// launched for all others.
TEST_P(Seq2SeqSearch, StepsCanBeCaptured) {
  namespace kernel = kernels::beam_search;
  if (!context_.stream().can_capture()) GTEST_SKIP() << "this device has no graphs";
  make_model(DType::kFloat32);
  const std::vector<std::int32_t> lengths = lengths_of(kSources);
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  kernel::Extent extent;
  extent.inputs = std::ssize(kSources);
  extent.beam = 3;
  extent.nbest = 2;
  extent.max_length = 7;  // with the end 8 steps: whole pairs
  const kernel::Rules rules;

  const auto search = [&](bool captured) {
    models::Seq2SeqDecoding decoding(context_, model_, {extent.inputs, longest, extent.rows()});
    decoding.encode(context_, time_major(kSources, longest), put(lengths));
    runtime::ArenaPlanner planner;
    const kernel::StateSlots slots(planner, extent);
    const runtime::Arena arena(*device_, planner);
    const kernel::State state = slots.view(arena, extent);
    const Tensor logits = poisoned(DType::kFloat32, {extent.rows(), kVocabulary});
    const std::vector<std::int32_t> most(kSources.size(), 7);
    context_.upload<std::int32_t>(state.max_lengths, most);
    kernel::start(context_, rules, state);
    decoding.start(context_, state.input_of_row, extent.rows());
    // The state that a model steps from moves to other memory with each step, and back.
    const auto two_steps = [&] {
      for (int i = 0; i < 2; ++i) {
        decoding.step(context_, state.tokens, logits, Tensor());
        kernel::advance(context_, rules, state, logits, Tensor());
        decoding.reorder(context_, state.parents);
      }
    };
    two_steps();
    std::unique_ptr<runtime::Graph> graph;
    if (captured) graph = context_.stream().capture(two_steps);
    for (int i = 0; i < 3; ++i) captured ? graph->launch(context_.stream()) : two_steps();
    const Tensor tokens = poisoned(DType::kInt32, {extent.inputs, extent.nbest, extent.max_length});
    kernel::trace_back(context_, rules, state, tokens, Tensor());
    return std::pair(get<std::int32_t>(tokens), get<double>(state.best_scores));
  };
  const auto queued = search(false);
  EXPECT_EQ(search(true), queued);
  for (const double score : queued.second) EXPECT_TRUE(std::isfinite(score)) << score;
}

// Of a long search most steps are captured; one that is looked at after each step captures none.
TEST_P(Seq2SeqSearch, LongSearchesEqualThoseStepByStep) {
  make_model(DType::kFloat32);
  SearchOptions options = options_for(3);
  options.min_length = 30;
  options.max_length = options.max_length_offset = 60;
  options.length_penalty = 0.5;
  options.poll_every = 1;
  const auto expected = decode(kSources, options);
  for (const std::int64_t every : {8, 20, 100}) {
    options.poll_every = every;
    const auto found = decode(kSources, options);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].size(), expected[i].size());
      for (std::size_t j = 0; j < found[i].size(); ++j) {
        EXPECT_GE(found[i][j].tokens.size(), 30u);
        EXPECT_EQ(found[i][j].tokens, expected[i][j].tokens);
        EXPECT_EQ(found[i][j].score, expected[i][j].score);
        EXPECT_EQ(found[i][j].attention, expected[i][j].attention);
      }
    }
  }
}

// Captured steps are kept for searches of the same sizes, whatever lies between those.
TEST_P(Seq2SeqSearch, LaterSearchesEqualThoseOfTheirOwn) {
  make_model(DType::kFloat32);
  SearchOptions options = options_for(3);
  options.min_length = 40;
  options.max_length = options.max_length_offset = 50;
  options.poll_every = 100;
  const std::int64_t longest = 8, inputs = std::ssize(kSources);
  const auto make_plan = [&] {
    auto plan = std::make_unique<models::Seq2SeqDecoding>(
        context_, model_,
        models::Seq2SeqDecoding::Capacity{inputs, longest, inputs * options.beam});
    BeamSearch search(context_, *plan, options, {inputs, longest, DType::kFloat32});
    return std::pair(std::move(plan), std::move(search));
  };
  const auto run = [&](auto& plan, const Sources& sources) {
    const std::vector<std::int32_t> lengths = lengths_of(sources);
    plan.first->encode(context_, time_major(sources, longest), put(lengths));
    return fetch(context_, plan.second.run(context_, lengths));
  };
  const Sources others{{9}, {7, 7, 7, 7, 7, 7, 7, 7}, {5, 6}, {21, 4, 13}, {10, 11}};
  const Sources fewer(kSources.begin(), kSources.begin() + 3);
  auto kept = make_plan();
  for (const Sources& sources : {kSources, others, fewer, others, kSources, fewer}) {
    auto own = make_plan();
    const auto found = run(kept, sources), expected = run(own, sources);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (std::size_t j = 0; j < expected[i].size(); ++j) {
        EXPECT_EQ(found[i].at(j).tokens, expected[i][j].tokens);
        EXPECT_EQ(found[i].at(j).score, expected[i][j].score);
        EXPECT_EQ(found[i].at(j).attention, expected[i][j].attention);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Seq2SeqSearch, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, ResetBeforeSearch, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, PlainSearch, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::decoding
