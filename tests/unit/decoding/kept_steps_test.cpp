#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "data/tokenizer.h"
#include "decoding/sampling.h"
#include "decoding/search.h"
#include "models/language_model_decoding.h"
#include "models/seq2seq_decoding.h"
#include "unit/support/on_device.h"

namespace sluice::decoding {
namespace {

using Ids = std::vector<std::int32_t>;
using Found = std::vector<std::vector<Hypothesis>>;

constexpr std::int64_t kVocabulary = 23, kInputs = 4, kRowsOfInput = 3, kLongest = 9;
constexpr std::int64_t kSteps = 8;  ///< that are captured together

/// One search.
struct Case {
  std::vector<Ids> sources;  ///< or prompts
  std::int64_t source_time = kLongest;
  std::vector<Ids> prefixes = {};
};

/// Each comes twice or more, with others between, the longer ones behind the shorter ones: what was
/// captured for one must not be launched for another of other sizes.
const std::vector<Case> kCases{
    {{{5, 9, 4}, {6}, {4, 4}}, 4},
    {{{5, 9, 4}, {6}, {4, 4}}, 6},
    {{{5, 9, 4}, {6}, {4, 4}}},
    {{{10, 11, 12, 13, 14, 15, 16, 17, 9}, {6}, {4, 4}}},
    {{{10, 11, 12, 13, 14, 15, 16, 17, 9}, {6}, {4, 4}}, kLongest, {{5, 9, 5}, {}, {7}}},
    {{{10, 11, 12, 13, 14, 15, 16, 17, 9}, {6}, {4, 4}}, kLongest, {{}, {20, 11}, {8}}},
    {{{8, 5, 4}, {16, 6}, {20, 4}}, 4},
    {{{10, 11, 12, 13, 14, 15, 16, 17, 9}, {6}, {4, 4}, {7}}},
};

template <typename Options>
Options long_ones(std::int64_t poll_every) {
  Options options;
  options.min_length = 3 * kSteps;
  options.max_length = 100;
  options.max_length_factor = 1;
  options.max_length_offset = 3 * kSteps;
  options.poll_every = poll_every;
  return options;
}
SearchOptions beams(std::int64_t poll_every) {
  auto options = long_ones<SearchOptions>(poll_every);
  options.beam = options.nbest = kRowsOfInput;
  return options;
}
SamplingOptions samples(std::int64_t poll_every) {
  auto options = long_ones<SamplingOptions>(poll_every);
  options.samples = kRowsOfInput;
  return options;
}

Ids lengths_of(const std::vector<Ids>& rows) {
  Ids lengths;
  for (const Ids& row : rows) lengths.push_back(static_cast<std::int32_t>(row.size()));
  return lengths;
}

/// Searches one after another by one plan, which keeps steps that it has captured, against each by
/// a plan of its own that captures none.
class KeptSteps : public testing::OnDevice {
 protected:
  template <typename Model>
  void make_weights(Model& model) {
    model.parameters().allocate(context_, DType::kFloat32, false);
    model.parameters().initialize(context_, 8);
    auto host = context_.download<float>(model.parameters().values());
    for (float& value : host) value *= 8;  // so that outputs differ from input to input
    context_.upload<float>(model.parameters().values(), host);
  }

  Found run(BeamSearch& search, const Case& one, const Ids& lengths) const {
    return fetch(context_, search.run(context_, lengths, one.prefixes));
  }
  Found run(Sampling& search, const Case& one, const Ids& lengths) const {
    return fetch(context_, search.run(context_, lengths, {}, one.prefixes));
  }

  /// `encode(decoder, one)` has the inputs of a case encoded, and returns their lengths.
  template <typename Search, typename Options, typename MakeDecoder, typename Encode>
  void expect_same(const Options& keeping, const Options& looking, const MakeDecoder& make_decoder,
                   const Encode& encode) {
    const SearchCapacity capacity{kInputs, kLongest, DType::kFloat32, 3};
    std::vector<Found> expected;
    for (const Case& one : kCases) {
      const auto decoder = make_decoder();
      Search search(context_, *decoder, looking, capacity);
      expected.push_back(run(search, one, encode(*decoder, one)));
    }
    const auto decoder = make_decoder();
    Search search(context_, *decoder, keeping, capacity);
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < kCases.size(); ++i) {
        SCOPED_TRACE(::testing::Message() << "round " << round << ", case " << i);
        const Found found = run(search, kCases[i], encode(*decoder, kCases[i]));
        ASSERT_EQ(found.size(), kCases[i].sources.size());
        for (std::size_t input = 0; input < found.size(); ++input) {
          expect_identical(found[input], expected[i][input]);
        }
      }
    }
  }

  static void expect_identical(const std::vector<Hypothesis>& found,
                               const std::vector<Hypothesis>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t j = 0; j < found.size(); ++j) {
      EXPECT_GE(found[j].tokens.size(), std::size_t{3 * kSteps});
      EXPECT_EQ(found[j].tokens, expected[j].tokens);
      EXPECT_EQ(found[j].score, expected[j].score);
      EXPECT_EQ(found[j].attention, expected[j].attention);
    }
  }

  /// Compares searches of an encoder-decoder, whose attention is kept if it has one.
  template <typename Search, typename Options>
  void expect_same_of_sources(Options keeping, Options looking, const char* attention) {
    models::Seq2SeqConfig config;
    config.attention = attention;
    keeping.attention = looking.attention = config.attends();
    config.source_vocabulary = config.target_vocabulary = kVocabulary;
    config.embedding = 7;
    config.hidden = 10;
    config.encoder_layers = config.decoder_layers = 2;
    models::Seq2Seq model(config);
    make_weights(model);
    using models::Seq2SeqDecoding;
    const auto make_decoder = [&] {
      return std::make_unique<Seq2SeqDecoding>(
          context_, model, Seq2SeqDecoding::Capacity{kInputs, kLongest, kInputs * kRowsOfInput});
    };
    expect_same<Search>(
        keeping, looking, make_decoder, [&](Seq2SeqDecoding& decoder, const Case& one) {
          const std::size_t count = one.sources.size();
          Ids tokens(static_cast<std::size_t>(one.source_time) * count, data::kPadId);
          for (std::size_t r = 0; r < count; ++r) {
            for (std::size_t t = 0; t < one.sources[r].size(); ++t) {
              tokens[t * count + r] = one.sources[r][t];
            }
          }
          const Ids lengths = lengths_of(one.sources);
          decoder.encode(context_, put(tokens, {one.source_time, static_cast<std::int64_t>(count)}),
                         put(lengths));
          return lengths;
        });
  }

  /// Of a language model, which goes on from prompts.
  template <typename Search, typename Options>
  void expect_same_of_prompts(const Options& keeping, const Options& looking) {
    models::LanguageModelConfig config;
    config.vocabulary = kVocabulary;
    config.embedding = 8;
    config.hidden = 12;
    config.layers = 2;
    models::LanguageModel model(config);
    make_weights(model);
    using models::LanguageModelDecoding;
    const auto make_decoder = [&] {
      return std::make_unique<LanguageModelDecoding>(
          context_, model,
          LanguageModelDecoding::Capacity{kInputs, kInputs * kRowsOfInput, kLongest});
    };
    expect_same<Search>(keeping, looking, make_decoder,
                        [&](LanguageModelDecoding& decoder, const Case& one) {
                          LanguageModelDecoding::Inputs inputs;
                          inputs.count = std::ssize(one.sources);
                          inputs.prompts = one.sources;
                          decoder.encode(context_, inputs);
                          return lengths_of(one.sources);
                        });
  }
};

TEST_P(KeptSteps, ServeBeamSearchesOfTheSameSizes) {
  for (const char* attention : {"additive", "none"}) {
    expect_same_of_sources<BeamSearch>(beams(100), beams(1), attention);
  }
  expect_same_of_prompts<BeamSearch>(beams(100), beams(1));
}

TEST_P(KeptSteps, ServeSamplingOfTheSameSizes) {
  for (const char* attention : {"additive", "none"}) {
    expect_same_of_sources<Sampling>(samples(100), samples(1), attention);
  }
  expect_same_of_prompts<Sampling>(samples(100), samples(1));
}

INSTANTIATE_TEST_SUITE_P(Devices, KeptSteps, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::decoding
