#include "api/beam_result.h"

#include <utility>

#include "kernels/elementwise/elementwise.h"

namespace sluice {
namespace {

using runtime::DType;
using runtime::Tensor;

constexpr std::size_t kAlignment = 256;

/// Places in a buffer, one behind the other.
class Places {
 public:
  std::size_t take(DType dtype, const base::Shape& shape) {
    const std::size_t place = end_;
    const std::size_t bytes = Tensor(nullptr, dtype, shape).byte_size();
    end_ = base::checked_add(end_, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    return place;
  }
  std::size_t end() const { return end_; }

 private:
  std::size_t end_ = 0;
};

}  // namespace

Beam::State::State(const runtime::Context& context_in, const data::Tokenizer& tokenizer_in,
                   const decoding::BeamStepsResults& found,
                   std::span<const models::StateTensor> states, bool every_beam_in)
    : context(context_in),
      tokenizer(tokenizer_in),
      inputs(found.state.extent.inputs),
      beam(found.state.extent.beam),
      nbest(found.state.extent.nbest),
      steps(found.steps),
      every_beam(every_beam_in) {
  const kernels::beam_search::State& state = found.state;
  struct Copy {
    Tensor* to;
    Tensor from;
    DType dtype;
    std::size_t place = 0;
  };
  const auto taken = [&](const Tensor& record) { return record.slice(0, 0, steps); };
  std::vector<Copy> copies{{&tokens, taken(found.record.tokens), DType::kInt32},
                           {&parents, taken(found.record.parents), DType::kInt32},
                           {&scores, taken(found.record.scores), DType::kFloat64},
                           {&best_scores, state.best_scores, DType::kFloat64},
                           {&best_normalised, state.best_normalised, DType::kFloat64},
                           {&best_lengths, state.best_lengths, DType::kInt32},
                           {&best_rows, state.best_rows, DType::kInt32},
                           {&last, state.tokens, DType::kInt32}};
  for (const models::StateTensor& part : states) {
    copies.push_back({part.name == "h" ? &h : &c, part.value, DType::kFloat32});
  }
  Places places;
  for (Copy& copy : copies) copy.place = places.take(copy.dtype, copy.from.shape());
  memory = runtime::Buffer(context.device(), places.end());
  for (const Copy& copy : copies) {
    *copy.to = memory.tensor(copy.dtype, copy.from.shape(), copy.place);
    if (copy.from.dtype() == copy.dtype) {
      context.copy(*copy.to, copy.from);
    } else {
      kernels::elementwise::convert(context, copy.from, *copy.to);
    }
  }
}

std::vector<std::vector<FinishedSequence>> Beam::State::finished() const {
  const auto lengths = context.download<std::int32_t>(best_lengths);
  const auto rows = context.download<std::int32_t>(best_rows);
  const auto scores_of = context.download<double>(best_scores);
  const auto normalised = context.download<double>(best_normalised);
  const auto chosen = context.download<std::int32_t>(tokens);
  const auto came_from = context.download<std::int32_t>(parents);
  const std::int64_t every = inputs * beam;
  std::vector<std::vector<FinishedSequence>> all(static_cast<std::size_t>(inputs));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0) continue;
    FinishedSequence one;
    one.score = scores_of[i];
    one.normalised_score = normalised[i];
    one.row = rows[i];
    one.tokens.resize(static_cast<std::size_t>(lengths[i]));
    for (std::int64_t step = lengths[i] - 1; step >= 0; --step) {
      const auto at = static_cast<std::size_t>(step * every + one.row);
      one.tokens[static_cast<std::size_t>(step)] = chosen[at];
      one.row = came_from[at];
    }
    if (!every_beam) one.row /= beam;
    one.text = tokenizer.decode(one.tokens);
    all[i / static_cast<std::size_t>(nbest)].push_back(std::move(one));
  }
  return all;
}

Beam::Beam(std::unique_ptr<State> state) : state_(std::move(state)) {}
Beam::~Beam() = default;
Beam::Beam(Beam&&) noexcept = default;
Beam& Beam::operator=(Beam&&) noexcept = default;

std::int64_t Beam::inputs() const { return state_->inputs; }
std::int64_t Beam::beam() const { return state_->beam; }
std::int64_t Beam::steps() const { return state_->steps; }

std::vector<std::int32_t> Beam::tokens() const {
  return state_->context.download<std::int32_t>(state_->tokens);
}
std::vector<std::int32_t> Beam::parents() const {
  return state_->context.download<std::int32_t>(state_->parents);
}
std::vector<double> Beam::scores() const {
  return state_->context.download<double>(state_->scores);
}
std::vector<std::vector<FinishedSequence>> Beam::finished() const { return state_->finished(); }

RowStates Beam::states() const {
  RowStates states;
  states.h = state_->context.download<float>(state_->h);
  if (state_->c) states.c = state_->context.download<float>(state_->c);
  states.tokens = state_->context.download<std::int32_t>(state_->last);
  return states;
}

// Waits for the copies, so that any stream may read them.
const std::int32_t* Beam::device_tokens() const {
  state_->context.stream().synchronize();
  return state_->tokens.data_as<const std::int32_t>();
}
const std::int32_t* Beam::device_parents() const {
  state_->context.stream().synchronize();
  return state_->parents.data_as<const std::int32_t>();
}
const double* Beam::device_scores() const {
  state_->context.stream().synchronize();
  return state_->scores.data_as<const double>();
}

}  // namespace sluice
