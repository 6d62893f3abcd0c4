#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "kernels/loss/cpu/softmax_rows.h"
#include "kernels/sampling/cpu/draw.h"
#include "kernels/sampling/cpu/sampling.h"

namespace sluice::kernels::sampling::cpu {
namespace {

/// log of the sum of exp(x - maximum): the loss family's, so that scores have its bits. NaN if the
/// row has no softmax.
template <typename T>
struct Normaliser {
  T maximum;
  double log_sum;

  Normaliser(const T* x, std::int64_t vocabulary) {
    const auto& rows = loss::cpu::softmax_rows<T>();
    maximum = rows.maximum(x, vocabulary);
    log_sum = std::isfinite(maximum)
                  ? std::log(rows.sums(x, vocabulary, maximum, nullptr).exponentials)
                  : std::numeric_limits<double>::quiet_NaN();
  }
  double log_p(T x) const {
    return (static_cast<double>(x) - static_cast<double>(maximum)) - log_sum;
  }
};

/// One live row of a step.
template <typename T>
class Sample {
 public:
  Sample(const Rules& rules, const Distribution& distribution, const State& state,
         const Tensor& logits, const Tensor& attention, const Tensor& choices, std::int64_t row)
      : rules_(rules),
        distribution_(distribution),
        state_(state),
        logits_(logits.data_as<const T>() + row * logits.size(1)),
        choices_(choices.data_as<const T>() + row * logits.size(1)),
        attention_(state.extent.attention
                       ? attention.data_as<const T>() + row * state.extent.source_time
                       : nullptr),
        vocabulary_(logits.size(1)),
        row_(row),
        input_(row / state.extent.samples),
        step_(*state.step.data_as<const std::int32_t>()),
        position_(step_ + *state.first_step.data_as<const std::int32_t>()),
        longest_(state.max_lengths.data_as<const std::int32_t>()[input_]) {}

  void advance() const {
    const Normaliser<T> normaliser(logits_, vocabulary_);
    if (std::isnan(normaliser.log_sum)) {
      auto* fault = state_.faults.data_as<std::int32_t>() + input_;
      // Rows of an input may be advanced by different threads.
#pragma omp atomic write
      *fault = step_ + 1;
      return refuse();
    }
    const std::int32_t token = next_token();
    if (token < 0) return refuse();
    state_.scores.data_as<double>()[row_] += normaliser.log_p(logits_[token]);
    if (token == rules_.eos) return finish(kEnded);
    emit(token);
    if (!rules_.force_end && step_ + 1 >= longest_) *at(state_.status) = kCut;
  }

 private:
  std::int32_t next_token() const {
    const Allowed allowed(rules_, forced(), position_, step_ >= longest_);
    if (allowed.only >= 0) return std::isfinite(logits_[allowed.only]) ? allowed.only : -1;
    const DrawKey key{
        rules_.seed,
        static_cast<std::uint32_t>(state_.input_ids.data_as<const std::int32_t>()[input_]),
        static_cast<std::uint32_t>(row_ % state_.extent.samples),
        static_cast<std::uint32_t>(position_)};
    return draw_token(choices_, vocabulary_, allowed, distribution_, key);
  }

  std::int32_t forced() const {
    const std::int64_t time = state_.extent.prefix_time;
    if (step_ >= time || step_ >= state_.prefix_lengths.data_as<const std::int32_t>()[input_]) {
      return -1;
    }
    return state_.prefix.data_as<const std::int32_t>()[input_ * time + step_];
  }

  void emit(std::int32_t token) const {
    const Extent& e = state_.extent;
    *at(state_.tokens) = token;
    *at(state_.lengths) = step_ + 1;
    state_.emitted.data_as<std::int32_t>()[row_ * e.max_length + step_] = token;
    if (attention_ == nullptr) return;
    std::memcpy(state_.attention.data_as<T>() + (row_ * e.max_length + step_) * e.source_time,
                attention_, static_cast<std::size_t>(e.source_time) * sizeof(T));
  }
  void finish(Status status) const {
    *at(state_.status) = status;
    *at(state_.tokens) = rules_.pad;
  }
  void refuse() const {
    *at(state_.lengths) = -1;
    finish(kImpossible);
  }
  std::int32_t* at(const Tensor& of_rows) const { return of_rows.data_as<std::int32_t>() + row_; }

  const Rules& rules_;
  const Distribution& distribution_;
  const State& state_;
  const T* logits_;
  const T* choices_;
  const T* attention_;
  std::int64_t vocabulary_, row_, input_;
  std::int32_t step_, position_, longest_;
};

template <typename T>
void run(const Rules& rules, const State& state, const Tensor& logits, const Tensor& attention,
         const Tensor& choices) {
  const std::int64_t rows = state.extent.rows();
  const Distribution distribution(rules);
  const auto* status = state.status.data_as<const std::int32_t>();
#pragma omp parallel for schedule(static) if (rows * logits.size(1) > 4096)
  for (std::int64_t row = 0; row < rows; ++row) {
    if (status[row] != kLive) continue;
    Sample<T>(rules, distribution, state, logits, attention, choices, row).advance();
  }
  *state.unfinished.data_as<std::int32_t>() =
      static_cast<std::int32_t>(std::count(status, status + rows, std::int32_t{kLive}));
  ++*state.step.data_as<std::int32_t>();
}

}  // namespace

void advance(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention, const Tensor& choices) {
  base::dispatch_master(state.extent.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([=] { run<T>(rules, state, logits, attention, choices); });
  });
}

}  // namespace sluice::kernels::sampling::cpu
