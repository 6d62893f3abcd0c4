#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>

#include "api/tokenize.h"
#include "data/tokenizer.h"
#include "kernels/beam_search/beam_search.h"
#include "kernels/beam_search/perturbation.h"
#include "kernels/token_mask/token_mask.h"
#include "model_files/loaded_model.h"
#include "models/seq2seq_decoding.h"
#include "sluice/model_info.h"
#include "unit/api/trained_models.h"

/// A trained model's beam search on a device and on the CPU, step by step: both find the same where
/// scores differ by more than rounding.
namespace sluice {
namespace {

namespace kernel = kernels::beam_search;

using Ids = std::vector<std::int32_t>;
using runtime::DType;
using runtime::Tensor;

constexpr std::int64_t kBeam = 5, kMaxLength = 12, kHidden = 24;

/// What is searched for.
struct Search {
  const char* what;
  double coverage = 0;
  bool draws = false;
  std::int64_t no_repeat = 0;
};

/// One device's part.
class Side {
 public:
  Side(const char* device, const std::string& checkpoint)
      : device_(runtime::open_device(device)),
        context_(*device_),
        loaded_(model_files::load_model(context_, checkpoint)) {}

  const data::Tokenizer& source_tokenizer() const { return *loaded_.tokenizers.source; }

  void start(const api::TokenIds& sources, const Search& search) {
    const auto& model = dynamic_cast<const models::Seq2Seq&>(*loaded_.model);
    const auto inputs = std::ssize(sources);
    std::int64_t longest = 0;
    Ids lengths, ids;
    for (const Ids& source : sources) {
      longest = std::max(longest, std::ssize(source));
      ids.push_back(static_cast<std::int32_t>(ids.size()));
      lengths.push_back(static_cast<std::int32_t>(source.size()));
    }
    Ids tokens(static_cast<std::size_t>(longest * inputs), data::kPadId);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      for (std::size_t t = 0; t < sources[i].size(); ++t) {
        tokens[t * sources.size() + i] = sources[i][t];
      }
    }
    kernel::Extent extent{inputs, kBeam, kBeam, kMaxLength, longest, false, DType::kFloat32};
    extent.coverage = search.coverage > 0;
    extent.masked = search.no_repeat > 0;
    extent.sampled_vocabulary = search.draws ? model.config().target_vocabulary : 0;
    kernels::token_mask::Extent masked{extent.rows(), model.config().target_vocabulary, kMaxLength};
    runtime::ArenaPlanner planner;
    const kernel::StateSlots slots(planner, extent);
    const kernels::token_mask::StateSlots mask_slots(planner, masked);
    const auto logits = planner.saved(DType::kFloat32, {extent.rows(), masked.vocabulary});
    const auto attention = planner.saved(DType::kFloat32, {extent.rows(), longest});
    const auto source = planner.saved(DType::kInt32, {longest, inputs});
    const auto counts = planner.saved(DType::kInt32, {inputs});
    arena_ = runtime::Arena(*device_, planner);
    state_ = slots.view(arena_, extent);
    mask_ = mask_slots.view(arena_, masked);
    logits_ = arena_.tensor(logits, DType::kFloat32, {extent.rows(), masked.vocabulary});
    attention_ = arena_.tensor(attention, DType::kFloat32, {extent.rows(), longest});
    search_ = search;
    rules_.length_penalty = 0.6;
    decoding_.emplace(context_, model,
                      models::Seq2SeqDecoding::Capacity{inputs, longest, extent.rows()});
    const Tensor source_tokens = arena_.tensor(source, DType::kInt32, {longest, inputs});
    const Tensor source_counts = arena_.tensor(counts, DType::kInt32, {inputs});
    context_.upload<std::int32_t>(source_tokens, tokens);
    context_.upload<std::int32_t>(source_counts, lengths);
    context_.upload<std::int32_t>(state_.max_lengths, Ids(sources.size(), kMaxLength));
    context_.upload<std::int32_t>(mask_.allowed,
                                  Ids(static_cast<std::size_t>(mask_.allowed.size(0)), -1));
    if (extent.coverage) context_.upload<std::int32_t>(state_.source_lengths, lengths);
    if (search.draws) context_.upload<std::int32_t>(state_.input_ids, ids);
    decoding_->encode(context_, source_tokens, source_counts);
    kernel::start(context_, rules_, state_);
    decoding_->start(context_, state_.input_of_row, extent.rows());
  }

  void step(bool first) {
    if (!first) decoding_->reorder(context_, state_.parents);
    decoding_->step(context_, state_.tokens, logits_, attention_);
    kernel::Extras extras;
    extras.coverage = search_.coverage;
    if (search_.no_repeat > 0) {
      kernels::token_mask::update(context_, {search_.no_repeat}, mask_, state_.step, state_.tokens,
                                  state_.parents);
      extras.mask = mask_.mask;
    }
    kernel::advance(context_, rules_, state_, logits_, attention_, extras);
  }

  Ids ids(const Tensor& tensor) const { return context_.download<std::int32_t>(tensor); }
  const kernel::State& state() const { return state_; }
  /// What rows rank by.
  std::vector<double> ranks() const {
    return numbers(search_.draws ? state_.perturbed : state_.scores);
  }
  std::vector<double> kept() const { return numbers(state_.best_normalised); }
  std::vector<double> numbers(const Tensor& tensor) const {
    return context_.download<double>(tensor);
  }
  double largest_logit() const {
    double largest = 0;
    for (const float x : context_.download<float>(logits_)) {
      largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
    return largest;
  }

 private:
  std::unique_ptr<runtime::Device> device_;
  runtime::Context context_;
  model_files::LoadedModel loaded_;
  std::optional<models::Seq2SeqDecoding> decoding_;
  runtime::Arena arena_;
  kernel::State state_;
  kernels::token_mask::State mask_;
  kernel::Rules rules_;
  Tensor logits_, attention_;
  Search search_{};
};

class SameSearch : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    std::mt19937 engine(4);
    std::string examples;
    for (int i = 0; i < 400; ++i) {
      const std::string source = sentence(engine);
      std::string target(source.rbegin(), source.rend());
      examples += source + "\t" + target + "\n";
    }
    folder_->write("reverse.data", examples);
    train("reverse",
          "[tokenizer]\nkind = \"words\"\n[training]\nmax_epochs = 80\nmax_steps = "
          "80\nlearning_rate = 0.03\n"
          "[data]\ntsv = \"" +
              at("reverse.data") +
              "\"\n[model]\nembedding = 16\nhidden = " + std::to_string(kHidden) + "\n");
  }
  /// Words of one letter, so that a sentence backwards is one, too.
  static std::string sentence(std::mt19937& engine) {
    std::string text;
    for (unsigned words = 2 + engine() % 6; words > 0; --words) {
      if (!text.empty()) text += ' ';
      text += static_cast<char>('a' + engine() % 12);
    }
    return text;
  }
};

// Two sums of `kHidden` float32 products in different orders are off by at most kHidden * 2^-24
// times the sum of the products' sizes, which is about the largest logit. log p has two of them,
// and the state that they are made of was rounded as often on its way: a factor of four in all.
// Scores add up a step's each.
double step_rounding(double largest_logit) {
  return 4 * static_cast<double>(kHidden) * 0x1p-24 * (1 + largest_logit);
}

/// How far a side's draws may be from what it would draw with log q changed by rounding. A draw is
/// T = -log(exp(-maximum) - exp(-largest) + exp(-value)) of its prefix's T, which is the maximum,
/// and of log q and noise. What the maximum is off by counts at most once, since T is no more; what
/// log q is off by counts exp(T - value) times as value, and no more as largest.
class DrawErrors {
 public:
  explicit DrawErrors(std::int64_t inputs)
      : of_rows_(static_cast<std::size_t>(inputs * kBeam)),
        of_kept_(static_cast<std::size_t>(inputs)),
        chosen_(of_kept_) {}

  /// Behind a step: log q is off by at most `bound`.
  void add_step(const Side& side, std::int64_t step, double bound) {
    const kernel::State& state = side.state();
    const auto keys = side.numbers(state.candidate_keys),
               log_q = side.numbers(state.candidate_log_q),
               scores = side.numbers(state.candidate_scores), drawn = side.ranks(),
               live = side.numbers(state.scores);
    const Ids candidates = side.ids(state.candidate_tokens), tokens = side.ids(state.tokens),
              parents = side.ids(state.parents);
    const auto width = static_cast<std::size_t>(state.extent.width());
    const std::vector<double> before = of_rows_;
    for (std::size_t i = 0; i < of_kept_.size(); ++i) {
      constexpr double kLowest = -std::numeric_limits<double>::infinity();
      double lowest = -kLowest;
      for (std::size_t row = i * kBeam; row < (i + 1) * kBeam; ++row) {
        lowest = std::min(lowest, std::isfinite(live[row]) ? drawn[row] : kLowest);
      }
      chosen_[i] = 0;
      for (std::size_t at = i * kBeam * width; at < (i + 1) * kBeam * width; ++at) {
        // Rounding may put one that is a little lower in the place of one that was chosen.
        if (!std::isfinite(scores[at]) || keys[at] < lowest - 1e-3) continue;
        const std::size_t row = at / width;
        const kernel::NoiseKey key{1, static_cast<std::uint32_t>(i),
                                   static_cast<std::uint32_t>(step),
                                   static_cast<std::uint32_t>(row % kBeam)};
        const double value =
            log_q[at] + kernel::gumbel<double>(key, static_cast<std::uint32_t>(candidates[at]));
        const double error = before[row] + 2 * bound * std::exp(keys[at] - value);
        chosen_[i] = std::max(chosen_[i], error);
        if (candidates[at] == data::kEosId) of_kept_[i] = std::max(of_kept_[i], error);
        for (std::size_t next = i * kBeam; next < (i + 1) * kBeam; ++next) {
          if (parents[next] == static_cast<std::int32_t>(row) && tokens[next] == candidates[at]) {
            of_rows_[next] = error;
          }
        }
      }
    }
  }

  double of_chosen(std::size_t input) const { return chosen_[input]; }
  double of_kept(std::size_t input) const { return of_kept_[input]; }

 private:
  std::vector<double> of_rows_, of_kept_, chosen_;
};

// Sorted lists of numbers that are off by at most so much are off by no more at any place. So where
// rows part, the candidates that changed places differ by no more than twice that.
TEST_P(SameSearch, PartsFromTheCpuOnlyWhereScoresAreEqualButForRounding) {
  Side host("cpu", checkpoint("reverse")), other(GetParam(), checkpoint("reverse"));
  std::mt19937 engine(5);
  std::vector<std::string> texts;
  for (int i = 0; i < 24; ++i) texts.push_back(sentence(engine));
  const api::TokenIds sources = api::tokenize(texts, host.source_tokenizer());
  for (const Search& search : {Search{"plain"}, Search{"coverage", 0.4}, Search{"draws", 0, true},
                               Search{"no_repeat", 0, false, 1}}) {
    SCOPED_TRACE(search.what);
    host.start(sources, search);
    other.start(sources, search);
    std::vector<bool> parted(sources.size(), false);
    DrawErrors errors(std::ssize(sources));
    double bound = 0, most_allowed = 0;
    for (std::int64_t step = 0; step <= kMaxLength; ++step) {
      host.step(step == 0);
      other.step(step == 0);
      bound += step_rounding(host.largest_logit());
      if (search.draws) errors.add_step(host, step, bound);
      const auto host_ranks = host.ranks(), other_ranks = other.ranks();
      const Ids host_tokens = host.ids(host.state().tokens),
                host_parents = host.ids(host.state().parents),
                other_tokens = other.ids(other.state().tokens),
                other_parents = other.ids(other.state().parents),
                host_done = host.ids(host.state().done), other_done = other.ids(other.state().done);
      const auto host_kept = host.kept(), other_kept = other.kept();
      for (std::size_t i = 0; i < sources.size(); ++i) {
        if (parted[i]) continue;
        const double allowed = search.draws ? errors.of_chosen(i) : bound;
        const double kept_allowed = search.draws ? errors.of_kept(i) : bound;
        most_allowed = std::max({most_allowed, allowed, kept_allowed});
        for (std::size_t row = i * kBeam; row < (i + 1) * kBeam; ++row) {
          if (host_tokens[row] != other_tokens[row] || host_parents[row] != other_parents[row]) {
            parted[i] = true;
          }
          if (std::isfinite(host_kept[row]) || std::isfinite(other_kept[row])) {
            EXPECT_NEAR(host_kept[row], other_kept[row], 2 * kept_allowed) << "input " << i;
          }
          if (host_done[i] != other_done[i] || host_done[i] != 0) continue;
          if (!std::isfinite(host_ranks[row]) && !std::isfinite(other_ranks[row])) continue;
          EXPECT_NEAR(host_ranks[row], other_ranks[row], allowed)
              << "input " << i << " step " << step << (parted[i] ? ", where they part" : "");
        }
      }
    }
    const auto apart = std::ranges::count(parted, true);
    std::cout << search.what << ": " << apart << " of " << sources.size()
              << " inputs part, where scores differ by up to " << most_allowed << "\n";
    EXPECT_LE(4 * apart, std::ssize(sources));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SameSearch, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice
