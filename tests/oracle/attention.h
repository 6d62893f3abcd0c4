#pragma once

#include <cstdint>
#include <vector>

namespace sluice::oracle {

/// How a query q [H] scores a memory entry m [M]:
///   kAdditive (Bahdanau et al. 2015):             v . tanh(W_q q + W_m m)
///   kMultiplicative (Luong et al. 2015, general): q . W_a m
enum class Attention { kAdditive, kMultiplicative };

/// S source time, B rows, M memory width, H query width, K width of the additive score.
struct AttentionShape {
  Attention kind = Attention::kAdditive;
  int64_t source_time = 1;
  int64_t rows = 1;
  int64_t memory = 1;
  int64_t query = 1;
  int64_t key = 1;

  /// Width of the projected query: W_q q [K], or q W_a [M].
  int64_t projected() const { return kind == Attention::kAdditive ? key : memory; }
};

/// Row-major. Additive: query [K, H], memory [K, M], score [K]; multiplicative: general [H, M]. The
/// others are empty. The same struct holds their gradients.
struct AttentionWeights {
  std::vector<double> query;
  std::vector<double> memory;
  std::vector<double> score;
  std::vector<double> general;
};

AttentionWeights zero_weights(const AttentionShape& shape);

/// What every query of a batch reads: memory [S, B, M] (finite everywhere), its keys W_m m [S, B,
/// K] (additive only) and how many entries of it each row has [B].
struct AttentionMemory {
  std::vector<double> memory;
  std::vector<double> keys;
  std::vector<int> lengths;
};

/// Zeros what lies past each row's length and computes the keys.
AttentionMemory attention_memory(const AttentionShape& shape, const AttentionWeights& weights,
                                 std::vector<double> memory, std::vector<int> lengths);

/// One query per row, q [B, H], rows with active[b] only (the outputs of others are left alone).
/// projected [B, K or M] must come in as zero; alpha [B, S] becomes the softmax of the scores over
/// the row's own entries and 0 beyond; context of row b, [M] at context + b * context_stride, the
/// mean of the memory weighted by alpha. A row without memory gets alpha 0 and context 0.
void attend(const AttentionShape& shape, const AttentionWeights& weights,
            const AttentionMemory& memory, const std::vector<char>& active, const double* q,
            double* projected, double* alpha, double* context, int64_t context_stride);

/// The gradients of `attend`, for active rows. In: dcontext, laid out as context. Out: d_projected
/// [B, K or M], which must come in as zero; dq [B, H], d_memory [S, B, M] (through the context and
/// the multiplicative score), d_keys [S, B, K] and d_score [K] are added to. The weights' other
/// gradients follow from d_projected and d_keys over all steps.
void attend_backward(const AttentionShape& shape, const AttentionWeights& weights,
                     const AttentionMemory& memory, const std::vector<char>& active,
                     const double* projected, const double* alpha, const double* dcontext,
                     int64_t context_stride, double* d_projected, double* dq, double* d_memory,
                     double* d_keys, double* d_score);

}  // namespace sluice::oracle
