// Steps of several ranks are those of one that has all rows; what must fail does.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "data/corpus.h"
#include "kernels/loss/loss.h"
#include "models/seq2seq.h"
#include "training/ranks/dealt_rows.h"
#include "training/ranks/whole_step.h"
#include "training/training_step.h"
#include "unit/support/on_device.h"
#include "unit/support/on_ranks.h"

namespace sluice::training {
namespace {

using distributed::Communicator;
using distributed::Reduction;

/// What goes wrong on rank 1.
enum class Fault { kNone, kRowsOfRankZero, kGradientsDropped, kMarksApart };

/// A rank of which one exchange does not take place.
class FaultyRank final : public Communicator {
 public:
  FaultyRank(Communicator& rank, Fault fault) : rank_(rank), fault_(fault) {}

  std::int64_t rank() const override { return rank_.rank(); }
  std::int64_t size() const override { return rank_.size(); }
  void all_reduce(const runtime::Context& context, const runtime::Tensor& values,
                  Reduction reduction) override {
    if (fault_ == Fault::kMarksApart && reduction == Reduction::kMax) return;
    const bool gradients = values.dtype() == runtime::DType::kFloat32;
    if (fault_ == Fault::kGradientsDropped && gradients && rank() == 1) context.zero(values);
    rank_.all_reduce(context, values, reduction);
  }
  void reduce_scatter(const runtime::Context& context, const runtime::Tensor& values) override {
    if (fault_ == Fault::kGradientsDropped && rank() == 1) context.zero(values);
    rank_.reduce_scatter(context, values);
  }
  void all_gather(const runtime::Context& context, const runtime::Tensor& values) override {
    rank_.all_gather(context, values);
  }
  void broadcast(const runtime::Context& context, const runtime::Tensor& values,
                 std::int64_t root) override {
    rank_.broadcast(context, values, root);
  }
  std::vector<std::string> exchange(std::string_view own) override { return rank_.exchange(own); }
  void abort(const Error& error) noexcept override { rank_.abort(error); }

 private:
  Communicator& rank_;
  Fault fault_;
};

class RankedStepsTest : public ::testing::TestWithParam<const char*> {
 protected:
  RankedStepsTest() {
    // Adam turns the last bits of a gradient that is nearly zero into a whole step.
    optimizer_.optimizer = "sgd";
    optimizer_.momentum = 0.9;
    optimizer_.clip_norm = 0.5;
  }

  static constexpr int kVocabulary = 900;
  static constexpr std::int64_t kSteps = 6;

  struct Trained {
    std::vector<float> parameters;
    std::vector<double> losses, norms;
  };

  static std::int64_t embedding_rows() { return kVocabulary; }

  models::Seq2SeqConfig model_config() const {
    models::Seq2SeqConfig config;
    config.source_vocabulary = config.target_vocabulary = kVocabulary;
    config.embedding = embedding_;
    config.hidden = 16;
    config.encoder_layers = config.decoder_layers = 2;
    config.bidirectional = true;
    config.dropout = 0.25;
    return config;
  }

  /// Batches of few rows with rare tokens, the last of one row.
  std::vector<data::Batch> draw() {
    std::vector<data::Batch> batches;
    for (std::int64_t step = 0; step < kSteps * accumulate_; ++step) {
      data::PairCorpus corpus;
      const std::int64_t rows = step + 1 == kSteps * accumulate_ ? 1 : 3 + random_() % 6;
      const auto sentence = [&] {
        std::vector<std::int32_t> tokens(random_() % 9);
        for (auto& token : tokens) {
          token = 4 + static_cast<std::int32_t>(random_() % (kVocabulary - 4));
        }
        return tokens;
      };
      for (std::int64_t row = 0; row < rows; ++row) {
        corpus.source.push_back(sentence());
        corpus.target.push_back(sentence());
      }
      std::vector<std::int64_t> all(static_cast<std::size_t>(rows));
      std::iota(all.begin(), all.end(), 0);
      batches.push_back(corpus.assemble(all));
      // No two batches have rows of one number, which would get the same masks.
      for (auto& row : batches.back().global_row) row += 100 * step;
    }
    return batches;
  }

  /// Steps of one rank; null: of the one that there is, which knows nothing of ranks. `nudge`: each
  /// parameter starts so many times its last bit away.
  Trained train(const std::vector<data::Batch>& batches, Communicator* ranks, Fault fault,
                int nudge) {
    const auto device = runtime::open_device(GetParam());
    const runtime::Context context(*device);
    models::Seq2Seq model(model_config());
    layers::Parameters& parameters = model.parameters();
    parameters.allocate(context, runtime::DType::kFloat32, true);
    parameters.initialize(context, 3);
    if (nudge != 0) {
      std::vector<float> values = context.download<float>(parameters.values());
      for (float& value : values) value = std::nextafter(value, nudge > 0 ? 9.0f : -9.0f);
      context.upload<float>(parameters.values(), values);
    }
    TrainingStep::Options options{.label_smoothing = 0.1, .seed = 5};
    options.static_shapes = static_shapes_;
    options.ranks = ranks;
    options.exchange = exchange_;
    TrainingStep steps(context, model, optimizer_, options);
    Trained trained;
    for (std::int64_t step = 1; step <= kSteps; ++step) {
      const auto begin = batches.begin() + (step - 1) * accumulate_;
      std::vector<data::Batch> some(begin, begin + accumulate_);
      WholeStep whole = whole_step_of(some, false);
      const std::int64_t tokens = whole.target_tokens;
      if (all_rows_travel_) whole.rows_read = embedding_rows();
      if (ranks != nullptr) {
        const std::int64_t dealt = fault == Fault::kRowsOfRankZero ? 0 : ranks->rank();
        for (data::Batch& batch : some) batch = dealt_rows(batch, dealt, ranks->size(), false);
      }
      const StepSums sums = ranks == nullptr ? steps.run(context, some, step, 1e-2)
                                             : steps.run_together(context, some, step, 1e-2, whole);
      double loss = 0;
      const std::vector<double> all = context.download<double>(sums.loss);
      for (std::size_t i = 0; i < all.size(); i += kernels::loss::kSums) loss += all[i];
      trained.losses.push_back(loss / static_cast<double>(tokens));
      trained.norms.push_back(std::sqrt(context.download<double>(sums.gradient_squares)[0]));
    }
    trained.parameters = context.download<float>(parameters.values());
    return trained;
  }

  /// By all ranks; those after the first must have the same bits.
  Trained by_ranks(const std::vector<data::Batch>& batches, std::int64_t count,
                   Fault fault = Fault::kNone) {
    std::vector<Trained> all(static_cast<std::size_t>(count));
    const auto thrown = testing::on_ranks(count, [&](Communicator& rank) {
      FaultyRank faulty(rank, fault);
      all[static_cast<std::size_t>(rank.rank())] = train(batches, &faulty, fault, 0);
    });
    EXPECT_EQ(thrown, testing::no_errors(count));
    if (fault != Fault::kNone) return all[0];
    for (const Trained& one : all) {
      EXPECT_EQ(one.losses, all[0].losses);
      EXPECT_EQ(one.norms, all[0].norms);
      EXPECT_EQ(one.parameters, all[0].parameters);
    }
    return all[0];
  }

  /// How far two runs came apart, as a share of the largest.
  static double distance(const Trained& a, const Trained& b) {
    const auto apart = [](const auto& x, const auto& y) {
      double most = 0, largest = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        most = std::max(most, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
        largest = std::max(largest, std::abs(static_cast<double>(x[i])));
      }
      return most / largest;
    };
    return std::max(
        {apart(a.parameters, b.parameters), apart(a.losses, b.losses), apart(a.norms, b.norms)});
  }

  /// Sums in another order differ in their last bits, as numbers do that start from other last
  /// bits: what those become tells how far ranks may come apart. Two starts are few, hence 10.
  double bound(const std::vector<data::Batch>& batches, const Trained& alone) {
    return 10 * std::max(distance(alone, train(batches, nullptr, Fault::kNone, 1)),
                         distance(alone, train(batches, nullptr, Fault::kNone, -1)));
  }

  std::int64_t embedding_ = 16;
  bool all_rows_travel_ = false;
  std::int64_t accumulate_ = 1;
  bool static_shapes_ = false;
  ExchangeOptions exchange_;
  OptimizerConfig optimizer_;
  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
};

TEST_P(RankedStepsTest, AreThoseOfOneThatHasAllRows) {
  for (const bool static_shapes : {false, true}) {
    for (const std::int64_t accumulate : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed_ << " static " << static_shapes
                                        << " accumulate " << accumulate);
      static_shapes_ = static_shapes;
      accumulate_ = accumulate;
      const auto batches = draw();
      const Trained alone = train(batches, nullptr, Fault::kNone, 0);
      const double most = bound(batches, alone);
      ASSERT_LT(most, 1e-3);
      for (const std::int64_t ranks : {1, 2, 3, 4}) {
        EXPECT_LE(distance(alone, by_ranks(batches, ranks)), most) << ranks;
      }
    }
  }
}

TEST_P(RankedStepsTest, AreTheSameWhereEachStepsItsPart) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  exchange_.shard = true;
  for (const bool averages : {false, true}) {
    optimizer_.ema_decay = averages ? 0.9 : 0;
    optimizer_.freeze = averages ? "decoder.*" : "";  // a part may then have nothing to step
    const auto batches = draw();
    const Trained alone = train(batches, nullptr, Fault::kNone, 0);
    const double most = bound(batches, alone);
    for (const std::int64_t ranks : {1, 2, 3, 5}) {
      EXPECT_LE(distance(alone, by_ranks(batches, ranks)), most) << ranks;
    }
  }
}

/// Rows of embeddings that nobody read are zero on all ranks: the sums are the same without them.
TEST_P(RankedStepsTest, AreTheSameWhereFewRowsTravel) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  // A row of chunks of its own, and rows that share chunks with their neighbours.
  for (const std::int64_t embedding : {128, 300}) {
    embedding_ = embedding;
    for (const bool bfloat16 : {false, true}) {
      exchange_.bfloat16 = bfloat16;
      const auto batches = draw();
      ASSERT_LT(2 * whole_step_of({batches.data(), 1}, false).rows_read, embedding_rows());
      for (const std::int64_t ranks : {1, 2, 3}) {
        all_rows_travel_ = false;
        const Trained few = by_ranks(batches, ranks);
        all_rows_travel_ = true;
        const Trained all = by_ranks(batches, ranks);
        EXPECT_EQ(few.parameters, all.parameters) << embedding << ' ' << ranks;
        EXPECT_EQ(few.norms, all.norms);
        all_rows_travel_ = false;
        const Trained alone = train(batches, nullptr, Fault::kNone, 0);
        if (bfloat16) continue;
        EXPECT_LE(distance(alone, few), bound(batches, alone)) << ranks;
      }
    }
  }
}

/// Rounding gradients to 8 bits shows, and does no more than that.
TEST_P(RankedStepsTest, OfRoundedGradientsAreNearThem) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  const auto batches = draw();
  const Trained alone = train(batches, nullptr, Fault::kNone, 0);
  exchange_.bfloat16 = true;
  for (const bool shard : {false, true}) {
    exchange_.shard = shard;
    for (const std::int64_t ranks : {2, 3}) {
      // A gradient and each sum of two are rounded by up to 2^-9 of themselves.
      const double apart = distance(alone, by_ranks(batches, ranks));
      EXPECT_LE(apart, static_cast<double>(2 * ranks) / 512) << ranks;
      EXPECT_GT(apart, bound(batches, alone)) << ranks;
    }
  }
}

TEST_P(RankedStepsTest, FaultsShow) {
  embedding_ = random_() % 2 == 0 ? 16 : 128;  // all rows travel, or few
  const auto batches = draw();
  const Trained alone = train(batches, nullptr, Fault::kNone, 0);
  const double most = bound(batches, alone);
  for (const Fault fault : {Fault::kRowsOfRankZero, Fault::kGradientsDropped, Fault::kMarksApart}) {
    EXPECT_GT(distance(alone, by_ranks(batches, 2, fault)), 3 * most)
        << "seed " << seed_ << " fault " << static_cast<int>(fault);
  }
  exchange_.shard = true;
  EXPECT_GT(distance(alone, by_ranks(batches, 2, Fault::kGradientsDropped)), 3 * most) << seed_;
}

INSTANTIATE_TEST_SUITE_P(Devices, RankedStepsTest, testing::host_devices());

}  // namespace
}  // namespace sluice::training
