// The first 100 training losses of the seq2seq model beside torch's (first_losses.h).
#include <numeric>

#include "data/corpus.h"
#include "models/seq2seq.h"
#include "unit/models/first_losses.h"

namespace sluice::models {
namespace {

/// The examples of a batch, as tokens() of the script draws them.
data::PairCorpus examples_of(const nlohmann::json& golden, std::int64_t batch) {
  Numbers numbers(batch);
  const auto draw_tokens = [&](std::int64_t count, std::int64_t vocabulary) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    for (std::int32_t& token : tokens) token = numbers.token(vocabulary);
    return tokens;
  };
  data::PairCorpus corpus;
  for (std::int64_t row = 0; row < golden.at("rows"); ++row) {
    const std::int64_t source_length = 1 + numbers.draw(golden.at("source_time"));
    const std::int64_t target_length =
        1 + numbers.draw(golden.at("target_time").get<std::int64_t>() - 1);
    corpus.source.push_back(draw_tokens(source_length, golden.at("source_vocabulary")));
    corpus.target.push_back(draw_tokens(target_length, golden.at("target_vocabulary")));
  }
  return corpus;
}

class Seq2SeqLosses : public FirstLosses {
 protected:
  std::string script() const override { return "seq2seq_losses"; }

  std::unique_ptr<Model> model_of(const Json& golden) const override {
    Seq2SeqConfig config;
    config.cell = golden.at("cell");
    config.attention = golden.at("attention");
    config.bidirectional = golden.at("bidirectional");
    config.encoder_layers = golden.at("encoder_layers");
    config.decoder_layers = golden.at("decoder_layers");
    config.source_vocabulary = golden.at("source_vocabulary");
    config.target_vocabulary = golden.at("target_vocabulary");
    config.embedding = golden.at("embedding");
    config.hidden = golden.at("hidden");
    config.dropout = 0;
    return std::make_unique<Seq2Seq>(config);
  }

  Batch batch_of(const Json& golden, std::int64_t index) override {
    const data::PairCorpus corpus = examples_of(golden, index);
    std::vector<std::int64_t> rows(corpus.source.size());
    std::iota(rows.begin(), rows.end(), 0);
    return upload(corpus.assemble(rows));
  }

  Extent capacity_of(const Json& golden) const override {
    return {golden.at("rows"), golden.at("source_time"), golden.at("target_time")};
  }

 private:
  Batch upload(const data::Batch& host) {
    Batch batch;
    batch.extent = {host.rows, host.source_time, host.target_time};
    batch.source = put(host.source, {host.source_time, host.rows});
    batch.source_lengths = put(host.source_lengths);
    batch.target_in = put(host.target_in, {host.target_time, host.rows});
    batch.target_out = put(host.target_out, {host.target_time, host.rows});
    batch.target_lengths = put(host.target_lengths);
    batch.row_ids = put(std::vector<std::int32_t>(host.global_row.begin(), host.global_row.end()));
    return batch;
  }
};

TEST_P(Seq2SeqLosses, EqualTorchOverAHundredSteps) { compare("float32"); }
TEST_P(Seq2SeqLosses, StayWithinTheRoundingOfTf32) { compare("tf32"); }
TEST_P(Seq2SeqLosses, StayWithinTheRoundingOfBFloat16) { compare("bfloat16"); }
TEST_P(Seq2SeqLosses, StayWithinTheRoundingOfFloat16) { compare("float16"); }

TEST_P(Seq2SeqLosses, MistakesInTrainingShow) {
  if (std::string(GetParam()) != "cpu")
    GTEST_SKIP() << "this is a test of the tolerance, which has no device";
  compare_mistakes();
}

INSTANTIATE_TEST_SUITE_P(Devices, Seq2SeqLosses, sluice::testing::devices(),
                         sluice::testing::device_name);

}  // namespace
}  // namespace sluice::models
