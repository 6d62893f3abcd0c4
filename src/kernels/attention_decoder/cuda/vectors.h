#pragma once

#include "kernels/attention_decoder/cuda/numbers.h"
#include "kernels/recurrent/cuda/cells.h"
#include "runtime/cuda/neighbours.h"

/// For .cu files only.
namespace sluice::kernels::attention_decoder::cuda {

/// Neighbouring elements that a thread works on at once.
template <typename W, int kCount>
struct Values {
  W x[kCount] = {};
};

/// Of kernels of units.
constexpr int kVector = 4;
template <typename W>
using Four = Values<W, kVector>;

/// As many as one access of memory moves.
constexpr std::size_t kWidestBytes = 16;
template <typename S>
constexpr int kWidest = static_cast<int>(kWidestBytes / sizeof(S));
static_assert(kPad % kWidest<__half> == 0);

using runtime::cuda::Neighbours;

/// `source` is aligned to kCount elements or to kWidestBytes.
template <int kCount, typename S>
__device__ inline Values<Wide<S>, kCount> load(const S* source) {
  const auto raw = *reinterpret_cast<const Neighbours<S, kCount>*>(source);
  Values<Wide<S>, kCount> values;
#pragma unroll
  for (int i = 0; i < kCount; ++i) values.x[i] = static_cast<Wide<S>>(raw.at[i]);
  return values;
}

template <typename S>
__device__ inline Four<Wide<S>> load_four(const S* source) {
  return load<kVector>(source);
}

/// `target` is in global memory, aligned as load wants it.
template <typename S, int kCount>
__device__ inline void store(S* target, const Values<Wide<S>, kCount>& values) {
  Neighbours<S, kCount> raw;
#pragma unroll
  for (int i = 0; i < kCount; ++i) raw.at[i] = static_cast<S>(values.x[i]);
  runtime::cuda::store_neighbours(target, raw);
}

template <typename S>
__device__ inline void store_four(S* target, const Four<Wide<S>>& values) {
  store(target, values);
}

/// Numbers in shared memory, of which each thread takes kWidest neighbours at once. Lanes that read
/// pieces of 32 bytes would meet in the same banks, so the 16 bytes that make up an access lie in
/// planes.
template <typename S>
struct PlanarVector {
  using W = Wide<S>;
  using Part = Values<W, kWidest<S>>;
  static constexpr int kPiece = kWidest<W>;
  static constexpr int kPlanes = kWidest<S> / kPiece;

  W* data = nullptr;  ///< aligned to kWidestBytes
  int vectors = 0;    ///< of kWidest numbers

  __device__ W& at(int k) const {
    const int vector = k / kWidest<S>, plane = k % kWidest<S> / kPiece;
    return data[(plane * vectors + vector) * kPiece + k % kPiece];
  }
  __device__ Part load(int vector) const {
    Part part;
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      const auto piece = cuda::load<kPiece>(data + (plane * vectors + vector) * kPiece);
#pragma unroll
      for (int i = 0; i < kPiece; ++i) part.x[plane * kPiece + i] = piece.x[i];
    }
    return part;
  }
  __device__ void store(int vector, const Part& part) const {
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      Neighbours<W, kPiece> piece;
#pragma unroll
      for (int i = 0; i < kPiece; ++i) piece.at[i] = part.x[plane * kPiece + i];
      W* const to = data + (plane * vectors + vector) * kPiece;
      *reinterpret_cast<Neighbours<W, kPiece>*>(to) = piece;
    }
  }
};

/// tanh of scores, millions a step: by two special functions where the storage's own rounding,
/// 2^-12 of a value at best, is far above the 2^-20 by which that may err; else as exact as its
/// type allows.
template <typename S>
struct Activation {
  static __device__ Wide<S> tanh(Wide<S> x) {
    if constexpr (sizeof(S) == 2) {
      return recurrent::cuda::FastMath::tanh(x);
    } else {
      return ::tanh(x);
    }
  }
};

/// tanh(key + query), of sums whose terms come again: each term is prepared once.
template <typename S>
struct SumTanh {
  using W = Wide<S>;
  static __device__ W prepare(W term) { return term; }
  static __device__ W of(W key, W query) { return Activation<S>::tanh(key + query); }
};

/// The same for 16-bit storage by one special function a sum, since e^2(key + query) has a factor
/// of each, and by one exponential a term. A key's factor is within 2^+-58, so that no infinite one
/// of a query meets a zero: they lead to 1 and -1, as they should.
struct FactoredTanh {
  static constexpr float kMostKey = 20;
  static __device__ float prepare(float term) {
    constexpr float kTwoLog2E = 2.88539008f;
    return recurrent::cuda::fast_exp2(kTwoLog2E * term);
  }
  static __device__ float of(float key, float query) {
    return fmaf(-2.0f, recurrent::cuda::fast_reciprocal(fmaf(key, query, 1.0f)), 1.0f);
  }
};

}  // namespace sluice::kernels::attention_decoder::cuda
