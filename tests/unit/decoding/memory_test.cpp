#include <gtest/gtest.h>

#include "decoding/search.h"
#include "models/seq2seq_decoding.h"
#include "runtime/test/test_device.h"

namespace sluice::decoding {
namespace {

constexpr std::size_t kPage = 4096;
/// Two arenas of two parts each, rounded to pages.
constexpr std::size_t kRounding = 4 * kPage;

// What is told to people who ran out of memory is what is taken.
TEST(DecodingMemory, IsWhatIsTold) {
  runtime::test::TestDevice device(std::size_t{1} << 30);
  const Context context(device);
  models::Seq2SeqConfig config;
  config.source_vocabulary = config.target_vocabulary = 500;
  config.embedding = config.hidden = 32;
  models::Seq2Seq model(config);
  model.parameters().allocate(context, DType::kFloat32, false);
  model.parameters().initialize(context, 1);
  SearchOptions options;
  for (const bool attention : {false, true}) {
    options.attention = attention;
    for (const std::int64_t inputs : {1, 7}) {
      const std::size_t before = device.free_bytes();
      const models::Seq2SeqDecoding::Capacity capacity{inputs, 40, inputs * options.beam};
      models::Seq2SeqDecoding decoding(context, model, capacity);
      const BeamSearch search(context, decoding, options, {inputs, 40});
      const std::size_t told = models::Seq2SeqDecoding::bytes(context, model, capacity) +
                               BeamSearch::bytes(500, options, {inputs, 40});
      const std::size_t taken = before - device.free_bytes();
      EXPECT_GE(taken, told);
      EXPECT_LE(taken, told + kRounding);
    }
  }
}

}  // namespace
}  // namespace sluice::decoding
