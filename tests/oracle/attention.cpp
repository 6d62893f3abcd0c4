#include "oracle/attention.h"

#include <algorithm>
#include <cmath>

#include "oracle/matrix.h"

namespace sluice::oracle {
namespace {

using Vector = std::vector<double>;

/// Elements of a step from which on threads pay.
constexpr int64_t kWorthThreads = 16384;

double dot(const double* a, const double* b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double scale, const double* a, int64_t size, double* to) {
  for (int64_t i = 0; i < size; ++i) to[i] += scale * a[i];
}

/// Scores [length] of one row.
Vector scores_of(const AttentionShape& s, const AttentionWeights& w, const AttentionMemory& m,
                 int64_t b, const double* projected) {
  Vector scores(m.lengths[b]);
  for (size_t i = 0; i < scores.size(); ++i) {
    const int64_t place = static_cast<int64_t>(i) * s.rows + b;
    if (s.kind == Attention::kMultiplicative) {
      scores[i] = dot(projected, &m.memory[place * s.memory], s.memory);
      continue;
    }
    const double* key = &m.keys[place * s.key];
    for (int64_t k = 0; k < s.key; ++k) scores[i] += w.score[k] * std::tanh(projected[k] + key[k]);
  }
  return scores;
}

void softmax(const Vector& scores, double* alpha) {
  if (scores.empty()) return;
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) sum += alpha[i] = std::exp(scores[i] - top);
  for (size_t i = 0; i < scores.size(); ++i) alpha[i] /= sum;
}

/// One row of attend_backward from the scores' gradient: into d_projected, d_memory, d_keys and
/// d_score [K].
void score_backward(const AttentionShape& s, const AttentionWeights& w, const AttentionMemory& m,
                    int64_t place, const double* projected, double dscore, double* d_projected,
                    double* d_memory, double* d_keys, double* d_score) {
  if (s.kind == Attention::kMultiplicative) {
    add_scaled(dscore, &m.memory[place * s.memory], s.memory, d_projected);
    add_scaled(dscore, projected, s.memory, d_memory + place * s.memory);
    return;
  }
  for (int64_t k = 0; k < s.key; ++k) {
    const double u = std::tanh(projected[k] + m.keys[place * s.key + k]);
    const double du = dscore * w.score[k] * (1 - u * u);
    d_score[k] += dscore * u;
    d_projected[k] += du;
    d_keys[place * s.key + k] += du;
  }
}

}  // namespace

AttentionWeights zero_weights(const AttentionShape& s) {
  if (s.kind == Attention::kMultiplicative) return {{}, {}, {}, Vector(s.query * s.memory)};
  return {Vector(s.key * s.query), Vector(s.key * s.memory), Vector(s.key), {}};
}

AttentionMemory attention_memory(const AttentionShape& s, const AttentionWeights& weights,
                                 Vector memory, std::vector<int> lengths) {
  for (int64_t i = 0; i < s.source_time; ++i)
    for (int64_t b = 0; b < s.rows; ++b)
      if (i >= lengths[b]) std::fill_n(&memory[(i * s.rows + b) * s.memory], s.memory, 0.0);
  AttentionMemory result{std::move(memory), {}, std::move(lengths)};
  if (s.kind == Attention::kMultiplicative) return result;
  const int64_t places = s.source_time * s.rows;
  result.keys.resize(places * s.key);
  multiply_add(places, s.key, s.memory, plain(result.memory.data(), s.memory),
               transposed(weights.memory.data(), s.memory), result.keys.data());
  return result;
}

void attend(const AttentionShape& s, const AttentionWeights& weights, const AttentionMemory& memory,
            const std::vector<char>& active, const double* q, double* projected, double* alpha,
            double* context, int64_t context_stride) {
  const int64_t width = s.projected();
  multiply_add(s.rows, width, s.query, plain(q, s.query),
               s.kind == Attention::kAdditive ? transposed(weights.query.data(), s.query)
                                              : plain(weights.general.data(), s.memory),
               projected);
#pragma omp parallel for schedule(static) if (s.rows * s.source_time * width > kWorthThreads)
  for (int64_t b = 0; b < s.rows; ++b) {
    if (!active[b]) continue;
    double* row_alpha = alpha + b * s.source_time;
    double* row_context = context + b * context_stride;
    std::fill_n(row_alpha, s.source_time, 0.0);
    std::fill_n(row_context, s.memory, 0.0);
    softmax(scores_of(s, weights, memory, b, projected + b * width), row_alpha);
    for (int64_t i = 0; i < memory.lengths[b]; ++i)
      add_scaled(row_alpha[i], &memory.memory[(i * s.rows + b) * s.memory], s.memory, row_context);
  }
}

void attend_backward(const AttentionShape& s, const AttentionWeights& weights,
                     const AttentionMemory& memory, const std::vector<char>& active,
                     const double* projected, const double* alpha, const double* dcontext,
                     int64_t context_stride, double* d_projected, double* dq, double* d_memory,
                     double* d_keys, double* d_score) {
  const int64_t width = s.projected();
  Vector row_d_score(s.rows * s.key);
#pragma omp parallel for schedule(static) if (s.rows * s.source_time * width > kWorthThreads)
  for (int64_t b = 0; b < s.rows; ++b) {
    if (!active[b]) continue;
    const double* a = alpha + b * s.source_time;
    const double* dctx = dcontext + b * context_stride;
    const int64_t length = memory.lengths[b];
    Vector dalpha(length);
    for (int64_t i = 0; i < length; ++i)
      dalpha[i] = dot(dctx, &memory.memory[(i * s.rows + b) * s.memory], s.memory);
    const double mean = dot(a, dalpha.data(), length);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t place = i * s.rows + b;
      add_scaled(a[i], dctx, s.memory, d_memory + place * s.memory);
      score_backward(s, weights, memory, place, projected + b * width, a[i] * (dalpha[i] - mean),
                     d_projected + b * width, d_memory, d_keys, row_d_score.data() + b * s.key);
    }
  }
  if (s.kind == Attention::kAdditive) add_column_sums(s.rows, s.key, row_d_score.data(), d_score);
  multiply_add(s.rows, s.query, width, plain(d_projected, width),
               s.kind == Attention::kAdditive ? plain(weights.query.data(), s.query)
                                              : transposed(weights.general.data(), s.memory),
               dq);
}

}  // namespace sluice::oracle
