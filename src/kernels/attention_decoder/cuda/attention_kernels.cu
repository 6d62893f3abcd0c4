#include "kernels/attention_decoder/cuda/attention_kernels.h"
#include "kernels/attention_decoder/cuda/block.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

/// Shared memory of a block that attends for one row.
template <typename S>
struct Shared {
  using W = Wide<S>;
  PlanarVector<S> parts;    ///< [threads() * kWidest]
  PlanarVector<S> query;    ///< [key_width]
  PlanarVector<S> vector;   ///< [key_width]: the score vector
  PlanarVector<S> context;  ///< [value_width]: its gradient
  W* warps;                 ///< [warps()]
  W* scores;                ///< [source_time]

  __device__ Shared(std::byte* base, int key_width, int value_width) {
    auto* next = reinterpret_cast<W*>(base);
    const auto take = [&next](int count) {
      const PlanarVector<S> taken{next, count / kWidest<S>};
      next += count;
      return taken;
    };
    parts = take(threads() * kWidest<S>);
    query = take(key_width);
    vector = take(key_width);
    context = take(value_width);
    warps = next;
    scores = warps + cuda::warps();
  }
};

extern __shared__ __align__(kWidestBytes) std::byte shared_bytes[];

/// One row at one step.
template <typename S>
struct RowView {
  std::int64_t row;
  int length;  ///< source positions to attend to; 0 if the row is inactive
  const S* keys;
  const S* values;

  __device__ RowView(const Attended<S>& args, std::int64_t t) : row(blockIdx.x) {
    const std::int64_t input = args.input_of_row == nullptr ? row : args.input_of_row[row];
    const bool active = args.target_lengths == nullptr || t < args.target_lengths[row];
    const std::int64_t whole =
        args.source_lengths == nullptr ? args.source_time : args.source_lengths[input];
    length = active ? static_cast<int>(whole) : 0;
    keys = args.keys + input * args.source_time * args.key_width;
    values = args.values + input * args.source_time * args.value_width;
  }
};

/// tanh(key + query) of neighbours. In 16-bit storage four of them by one reciprocal of what is
/// below all of them: special functions, of which each would need two, have a quarter of the
/// others' speed.
template <typename S>
struct Tanhs {
  using W = Wide<S>;
  using Part = typename PlanarVector<S>::Part;
  static constexpr bool kTogether = sizeof(S) == 2;
  static constexpr float kTwoLog2E = 2.88539008f;

  /// What is kept of a query.
  static __device__ W prepared(W query) { return kTogether ? kTwoLog2E * query : query; }

  static __device__ Part of(const Part& key, const Part& query) {
    Part y;
    if constexpr (kTogether) {
      // Beyond 2^30 a tanh is 1 in float32, and four of them have a finite product.
#pragma unroll
      for (int i = 0; i < kWidest<S>; ++i) {
        const float power = fmaf(key.x[i], kTwoLog2E, query.x[i]);
        y.x[i] = 1.0f + recurrent::cuda::fast_exp2(recurrent::cuda::at_most(30.0f, power));
      }
#pragma unroll
      for (int i = 0; i < kWidest<S>; i += 4) {
        float* below = y.x + i;
        const float first = below[0] * below[1], last = below[2] * below[3];
        const float all = -2 * recurrent::cuda::fast_reciprocal(first * last);
        const float of_first = all * last, of_last = all * first;
        const float copy[] = {below[1], below[0], below[3], below[2]};
#pragma unroll
        for (int k = 0; k < 4; ++k) below[k] = fmaf(k < 2 ? of_first : of_last, copy[k], 1.0f);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kWidest<S>; ++i) y.x[i] = Activation<S>::tanh(key.x[i] + query.x[i]);
    }
    return y;
  }
};

template <typename S>
__device__ void load_query(const Attended<S>& args, const Query<S>& query, std::int64_t row,
                           const Shared<S>& shared) {
  for (int k = threadIdx.x; k < args.key_width; k += threads()) {
    if (args.score_vector != nullptr) {
      shared.query.at(k) = Tanhs<S>::prepared(query.projected[row * args.key_width + k]);
      shared.vector.at(k) = args.score_vector[k];
    } else {
      shared.query.at(k) = static_cast<Wide<S>>(query.state[row * query.stride + k]);
    }
  }
}

template <typename W, int kCount>
__device__ W dot(const Values<W, kCount>& a, const Values<W, kCount>& b) {
  W sum = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum += a.x[i] * b.x[i];
  return sum;
}

template <typename S>
__device__ Wide<S> additive(const typename PlanarVector<S>::Part& key,
                            const typename PlanarVector<S>::Part& query,
                            const typename PlanarVector<S>::Part& vector) {
  return dot(vector, Tanhs<S>::of(key, query));
}

template <typename W, int kCount>
__device__ void add_scaled(W factor, const Values<W, kCount>& term, Values<W, kCount>& sum) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum.x[i] += factor * term.x[i];
}

/// scores[0, length) in place to their softmax.
template <typename W>
__device__ void softmax(W* scores, int length, W* warps) {
  W most = scores[0];
  for (int s = threadIdx.x; s < length; s += threads()) most = max(most, scores[s]);
  most = block_max(most, warps);
  W total = 0;
  for (int s = threadIdx.x; s < length; s += threads()) {
    scores[s] = exp(scores[s] - most);
    total += scores[s];
  }
  const W factor = W(1) / block_sum(total, warps);
  for (int s = threadIdx.x; s < length; s += threads()) scores[s] *= factor;
}

template <typename S>
__global__ void __launch_bounds__(kMostAttendThreads) attend_kernel(AttendArgs<S> args) {
  using W = Wide<S>;
  using Part = typename PlanarVector<S>::Part;
  const Attended<S>& a = args.attended;
  const RowView<S> view(a, args.t);
  const Shared<S> shared(shared_bytes, a.key_width, a.value_width);
  const int key_width = static_cast<int>(a.key_width);
  const int value_width = static_cast<int>(a.value_width);
  load_query(a, args.query, view.row, shared);
  __syncthreads();
  if (a.score_vector != nullptr) {
    sum_rows(view.length, key_width, view.keys, shared.scores, [&](int k, const auto& key) {
      return additive<S>(key, shared.query.load(k / kWidest<S>),
                         shared.vector.load(k / kWidest<S>));
    });
  } else {
    sum_rows(view.length, key_width, view.keys, shared.scores,
             [&](int k, const auto& key) { return dot(key, shared.query.load(k / kWidest<S>)); });
  }
  __syncthreads();
  if (view.length > 0) softmax(shared.scores, view.length, shared.warps);
  __syncthreads();
  for (int s = threadIdx.x; s < a.source_time; s += threads()) {
    const W alpha = s < view.length ? shared.scores[s] : W(0);
    args.alpha[view.row * a.source_time + s] = alpha;
    if (args.alpha_out != nullptr) {
      args.alpha_out[view.row * a.source_time + s] = static_cast<S>(alpha);
    }
  }
  sum_columns(
      view.length, value_width, view.values, shared.parts,
      [&](int s, int, const Part& value, Part& sum) { add_scaled(shared.scores[s], value, sum); },
      [&](int column, const Part& sum) {
        store(args.context + view.row * args.context_stride + column, sum);
      });
}

/// scores[s]: the gradient of the score of s, from that of its alpha there.
template <typename W>
__device__ void softmax_backward(W* scores, const W* alpha, int length, W* warps) {
  W mean = 0;
  for (int s = threadIdx.x; s < length; s += threads()) mean += alpha[s] * scores[s];
  mean = block_sum(mean, warps);
  for (int s = threadIdx.x; s < length; s += threads()) {
    scores[s] = alpha[s] * (scores[s] - mean);
  }
}

/// Adds to the query's gradient, but for the score vector's factor, what comes through one score.
template <typename S>
__device__ void add_query_gradient(const typename PlanarVector<S>::Part& key, Wide<S> d_score,
                                   const typename PlanarVector<S>::Part& query,
                                   typename PlanarVector<S>::Part& sum) {
  const auto activations = Tanhs<S>::of(key, query);
#pragma unroll
  for (int i = 0; i < kWidest<S>; ++i) {
    sum.x[i] += d_score * (1 - activations.x[i] * activations.x[i]);
  }
}

template <typename S>
__global__ void __launch_bounds__(kMostAttendThreads)
    attend_backward_kernel(AttendBackwardArgs<S> args) {
  using W = Wide<S>;
  using Part = typename PlanarVector<S>::Part;
  const Attended<S>& a = args.attended;
  const RowView<S> view(a, args.t);
  const Shared<S> shared(shared_bytes, a.key_width, a.value_width);
  const int key_width = static_cast<int>(a.key_width);
  const int value_width = static_cast<int>(a.value_width);
  const bool additive = a.score_vector != nullptr;
  load_query(a, args.query, view.row, shared);
  for (int m = threadIdx.x; m < value_width; m += threads()) {
    shared.context.at(m) = args.d_context[view.row * args.d_context_stride + m];
  }
  __syncthreads();
  sum_rows(view.length, value_width, view.values, shared.scores, [&](int m, const auto& value) {
    return dot(value, shared.context.load(m / kWidest<S>));
  });
  __syncthreads();
  softmax_backward(shared.scores, args.alpha + view.row * a.source_time, view.length, shared.warps);
  __syncthreads();
  for (int s = threadIdx.x; s < a.source_time; s += threads()) {
    args.d_scores[view.row * a.source_time + s] = s < view.length ? shared.scores[s] : W(0);
  }
  if (additive) {
    sum_columns(
        view.length, key_width, view.keys, shared.parts,
        [&](int s, int k, const Part& key, Part& sum) {
          add_query_gradient<S>(key, shared.scores[s], shared.query.load(k / kWidest<S>), sum);
        },
        [&](int k, Part sum) {
          const Part vector = shared.vector.load(k / kWidest<S>);
#pragma unroll
          for (int i = 0; i < kWidest<S>; ++i) {
            sum.x[i] = within(sum.x[i] * vector.x[i], args.limit);
          }
          store(args.d_query + view.row * key_width + k, sum);
        });
    return;
  }
  sum_columns(
      view.length, key_width, view.keys, shared.parts,
      [&](int s, int, const Part& key, Part& sum) { add_scaled(shared.scores[s], key, sum); },
      [&](int k, const Part& sum) {
        W* d_state = args.d_state + view.row * args.d_context_stride + k;
        Part both = load<kWidest<S>>(d_state);
        add_scaled(W(1), sum, both);
        store(d_state, both);
      });
}

std::size_t shared_bytes_of(int threads, std::int64_t source_time, std::int64_t key_width,
                            std::int64_t value_width, base::DType storage) {
  const std::size_t wide = base::size_of(base::policy_of(storage).accumulate);
  const std::size_t parts =
      static_cast<std::size_t>(threads) * (kWidestBytes / base::size_of(storage));
  return wide * (parts + static_cast<std::size_t>(threads / kWarp + 2 * key_width + value_width +
                                                  source_time));
}

/// A row's time is mostly waiting. Few rows wait least with a warp for each source position of a
/// short sentence; many, in blocks so small that some share a multiprocessor.
int threads_for(std::int64_t rows, int processors) {
  if (rows <= processors) return kMostAttendThreads;
  return rows <= 2 * processors ? kMostAttendThreads / 2 : kMostAttendThreads / 4;
}

template <typename S, typename Args>
void launch_rows(Stream& stream, const char* what, void (*kernel)(Args), const Args& args) {
  const Attended<S>& a = args.attended;
  const int threads = threads_for(a.rows, runtime::cuda::gpu_of(stream).processors);
  runtime::cuda::launch(
      stream, what, kernel, dim3(static_cast<unsigned>(a.rows)), threads,
      shared_bytes_of(threads, a.source_time, a.key_width, a.value_width, storage_dtype<S>()),
      args);
}

}  // namespace

std::size_t attention_shared_bytes(std::int64_t source_time, std::int64_t key_width,
                                   std::int64_t value_width, base::DType storage) {
  return shared_bytes_of(kMostAttendThreads, source_time, key_width, value_width, storage);
}

template <typename S>
void attend(Stream& stream, const AttendArgs<S>& args) {
  launch_rows<S>(stream, "attend", attend_kernel<S>, args);
}

template <typename S>
void attend_backward(Stream& stream, const AttendBackwardArgs<S>& args) {
  launch_rows<S>(stream, "attend backward", attend_backward_kernel<S>, args);
}

template void attend(Stream&, const AttendArgs<double>&);
template void attend_backward(Stream&, const AttendBackwardArgs<double>&);
template void attend(Stream&, const AttendArgs<float>&);
template void attend_backward(Stream&, const AttendBackwardArgs<float>&);
template void attend(Stream&, const AttendArgs<__nv_bfloat16>&);
template void attend_backward(Stream&, const AttendBackwardArgs<__nv_bfloat16>&);
template void attend(Stream&, const AttendArgs<__half>&);
template void attend_backward(Stream&, const AttendBackwardArgs<__half>&);

}  // namespace sluice::kernels::attention_decoder::cuda
