#include <gtest/gtest.h>

#include "decoding/search.h"
#include "models/seq2seq_decoding.h"
#include "runtime/plan_store.h"
#include "unit/support/on_device.h"

namespace sluice::decoding {
namespace {

using Ids = std::vector<std::int32_t>;
using models::Seq2Seq;
using models::Seq2SeqDecoding;

constexpr std::int64_t kVocabulary = 23, kBeam = 3;

models::Seq2SeqConfig config() {
  models::Seq2SeqConfig config;
  config.source_vocabulary = config.target_vocabulary = kVocabulary;
  config.embedding = 7;
  config.hidden = 10;
  return config;
}

/// Long ones, whose steps are captured by eights where the device can.
SearchOptions options() {
  SearchOptions options;
  options.beam = options.nbest = kBeam;
  options.min_length = 20;
  options.max_length = 60;
  options.poll_every = 8;
  return options;
}

/// Decodes one source; its memory is a store's.
struct Plan {
  Plan(const runtime::Context& context, const Seq2Seq& model, std::int64_t time,
       runtime::ArenaPlanner& planner, const runtime::Arena& arena)
      : decoder(context, model, {1, time, kBeam}, planner, arena),
        search(decoder, options(), {1, time}, planner, arena) {}

  Seq2SeqDecoding decoder;
  BeamSearch search;
};

class KeptPlans : public testing::OnDevice {
 protected:
  KeptPlans() : model_(config()) {
    model_.parameters().allocate(context_, DType::kFloat32, false);
    change_weights(1);
  }
  /// As loading does, but larger, so that outputs differ from input to input.
  void change_weights(std::uint64_t seed) {
    model_.parameters().initialize(context_, seed);
    for (layers::ParameterId id = 0; id < model_.parameters().specs().size(); ++id) {
      auto values = model_.parameters().download<float>(context_, id);
      for (float& value : values) value *= 8;
      model_.parameters().upload<float>(context_, id, values);
    }
  }

  std::vector<Hypothesis> run(Seq2SeqDecoding& decoder, BeamSearch& search, const Ids& source) {
    const Ids lengths{static_cast<std::int32_t>(source.size())};
    decoder.encode(context_, put(source, {std::ssize(source), 1}), put(lengths));
    return fetch(context_, search.run(context_, lengths)).front();
  }
  std::vector<Hypothesis> kept(const Ids& source, std::int64_t time) {
    auto& plan =
        store_.plan<Plan>(context_, std::to_string(time), [&](runtime::ArenaPlanner& planner) {
          return std::make_unique<Plan>(context_, model_, time, planner, store_.arena());
        });
    plan.decoder.pack(context_);
    return run(plan.decoder, plan.search, source);
  }
  std::vector<Hypothesis> fresh(const Ids& source, std::int64_t time) {
    Seq2SeqDecoding decoder(context_, model_, {1, time, kBeam});
    BeamSearch search(context_, decoder, options(), {1, time});
    return run(decoder, search, source);
  }
  void expect_same(const Ids& source, std::int64_t time) {
    const auto found = kept(source, time), expected = fresh(source, time);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].tokens, expected[i].tokens);
      EXPECT_EQ(found[i].score, expected[i].score);
    }
  }

  Seq2Seq model_;
  runtime::PlanStore store_{std::size_t{1} << 30};
};

TEST_P(KeptPlans, OutliveMemoryThatMoves) {
  // Every other plan has more memory than all before; each is used often enough to be captured.
  for (const std::int64_t time : {8, 8, 8, 32, 8, 32, 8, 32, 200, 8, 8, 200, 32, 32, 200}) {
    SCOPED_TRACE(time);
    expect_same({5, 9, 4, 7}, time);
    expect_same({10, 11, 12, 13, 14, 15, 16}, time);
  }
  EXPECT_EQ(store_.plans_made(), 3);
}

TEST_P(KeptPlans, PackWeightsThatHaveChanged) {
  const Ids source{5, 9, 4, 7};
  const auto before = kept(source, 8);
  const std::int64_t packs = store_.packs();
  expect_same(source, 8);
  EXPECT_EQ(store_.packs(), packs);
  change_weights(2);
  expect_same(source, 8);
  EXPECT_EQ(store_.packs(), 2 * packs);
  EXPECT_NE(kept(source, 8).front().score, before.front().score);
}

INSTANTIATE_TEST_SUITE_P(Devices, KeptPlans, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::decoding
