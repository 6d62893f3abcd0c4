#include "kernels/attention_decoder/cuda/attention_kernels.h"
#include "kernels/attention_decoder/cuda/block.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

/// Shared memory of a block that attends for one row.
template <typename W>
struct Shared {
  Four<W>* parts;  ///< [kAttendThreads]
  W* warps;        ///< [kAttendWarps]
  W* query;        ///< [key_width]
  W* vector;       ///< [key_width]: the score vector
  W* context;      ///< [value_width]: its gradient
  W* scores;       ///< [source_time]

  __device__ Shared(std::byte* base, std::int64_t key_width, std::int64_t value_width) {
    parts = reinterpret_cast<Four<W>*>(base);
    warps = reinterpret_cast<W*>(parts + kAttendThreads);
    query = warps + kAttendWarps;
    vector = query + key_width;
    context = vector + key_width;
    scores = context + value_width;
  }
};

extern __shared__ std::byte shared_bytes[];

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

template <typename S>
__device__ void load_query(const Attended<S>& args, const Query<S>& query, std::int64_t row,
                           const Shared<Wide<S>>& shared) {
  for (int k = threadIdx.x; k < args.key_width; k += kAttendThreads) {
    if (args.score_vector != nullptr) {
      shared.query[k] = query.projected[row * args.key_width + k];
      shared.vector[k] = args.score_vector[k];
    } else {
      shared.query[k] = static_cast<Wide<S>>(query.state[row * query.stride + k]);
    }
  }
}

template <typename W>
__device__ W dot_four(const Four<W>& a, const W* b) {
  return a.x[0] * b[0] + a.x[1] * b[1] + (a.x[2] * b[2] + a.x[3] * b[3]);
}

template <typename W>
__device__ W additive_four(const Four<W>& key, const W* query, const W* vector) {
  W sum = 0;
#pragma unroll
  for (int i = 0; i < kVector; ++i) sum += vector[i] * tanh(key.x[i] + query[i]);
  return sum;
}

/// scores[0, length) in place to their softmax.
template <typename W>
__device__ void softmax(W* scores, int length, W* warps) {
  W most = scores[0];
  for (int s = threadIdx.x; s < length; s += kAttendThreads) most = max(most, scores[s]);
  most = block_max(most, warps);
  W total = 0;
  for (int s = threadIdx.x; s < length; s += kAttendThreads) {
    scores[s] = exp(scores[s] - most);
    total += scores[s];
  }
  const W factor = W(1) / block_sum(total, warps);
  for (int s = threadIdx.x; s < length; s += kAttendThreads) scores[s] *= factor;
}

template <typename S>
__global__ void __launch_bounds__(kAttendThreads) attend_kernel(AttendArgs<S> args) {
  using W = Wide<S>;
  const Attended<S>& a = args.attended;
  const RowView<S> view(a, args.t);
  const Shared<W> shared(shared_bytes, a.key_width, a.value_width);
  const int key_width = static_cast<int>(a.key_width);
  const int value_width = static_cast<int>(a.value_width);
  load_query(a, args.query, view.row, shared);
  __syncthreads();
  const bool additive = a.score_vector != nullptr;
  sum_rows(view.length, key_width, shared.scores, [&](int s, int k) {
    const Four<W> key = load_four(view.keys + std::int64_t{s} * key_width + k);
    return additive ? additive_four(key, shared.query + k, shared.vector + k)
                    : dot_four(key, shared.query + k);
  });
  __syncthreads();
  if (view.length > 0) softmax(shared.scores, view.length, shared.warps);
  __syncthreads();
  for (int s = threadIdx.x; s < a.source_time; s += kAttendThreads) {
    const W alpha = s < view.length ? shared.scores[s] : W(0);
    args.alpha[view.row * a.source_time + s] = alpha;
    if (args.alpha_out != nullptr) {
      args.alpha_out[view.row * a.source_time + s] = static_cast<S>(alpha);
    }
  }
  sum_columns(
      view.length, value_width, shared.parts,
      [&](int s, int column, Four<W>& sum) {
        const Four<W> value = load_four(view.values + std::int64_t{s} * value_width + column);
#pragma unroll
        for (int i = 0; i < kVector; ++i) sum.x[i] += shared.scores[s] * value.x[i];
      },
      [&](int column, const Four<W>& sum) {
        store_four(args.context + view.row * args.context_stride + column, sum);
      });
}

/// scores[s]: the gradient of the score of s, from that of its alpha there.
template <typename W>
__device__ void softmax_backward(W* scores, const W* alpha, int length, W* warps) {
  W mean = 0;
  for (int s = threadIdx.x; s < length; s += kAttendThreads) mean += alpha[s] * scores[s];
  mean = block_sum(mean, warps);
  for (int s = threadIdx.x; s < length; s += kAttendThreads) {
    scores[s] = alpha[s] * (scores[s] - mean);
  }
}

/// Adds to four elements of the query's gradient what comes through one score.
template <typename W>
__device__ void add_query_gradient(bool additive, const Four<W>& key, W d_score, const W* query,
                                   const W* vector, Four<W>& sum) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (additive) {
      const W activation = tanh(key.x[i] + query[i]);
      sum.x[i] += d_score * vector[i] * (W(1) - activation * activation);
    } else {
      sum.x[i] += d_score * key.x[i];
    }
  }
}

template <typename S>
__global__ void __launch_bounds__(kAttendThreads)
    attend_backward_kernel(AttendBackwardArgs<S> args) {
  using W = Wide<S>;
  const Attended<S>& a = args.attended;
  const RowView<S> view(a, args.t);
  const Shared<W> shared(shared_bytes, a.key_width, a.value_width);
  const int key_width = static_cast<int>(a.key_width);
  const int value_width = static_cast<int>(a.value_width);
  const bool additive = a.score_vector != nullptr;
  load_query(a, args.query, view.row, shared);
  for (int m = threadIdx.x; m < value_width; m += kAttendThreads) {
    shared.context[m] = args.d_context[view.row * args.d_context_stride + m];
  }
  __syncthreads();
  sum_rows(view.length, value_width, shared.scores, [&](int s, int m) {
    return dot_four(load_four(view.values + std::int64_t{s} * value_width + m), shared.context + m);
  });
  __syncthreads();
  softmax_backward(shared.scores, args.alpha + view.row * a.source_time, view.length, shared.warps);
  __syncthreads();
  for (int s = threadIdx.x; s < a.source_time; s += kAttendThreads) {
    args.d_scores[view.row * a.source_time + s] = s < view.length ? shared.scores[s] : W(0);
  }
  sum_columns(
      view.length, key_width, shared.parts,
      [&](int s, int k, Four<W>& sum) {
        const Four<W> key = load_four(view.keys + std::int64_t{s} * key_width + k);
        add_query_gradient(additive, key, shared.scores[s], shared.query + k, shared.vector + k,
                           sum);
      },
      [&](int k, Four<W> sum) {
        if (additive) {
          store_four(args.d_query + view.row * key_width + k, sum);
          return;
        }
        W* d_state = args.d_state + view.row * args.d_context_stride + k;
        const Four<W> before = load_four(d_state);
#pragma unroll
        for (int i = 0; i < kVector; ++i) sum.x[i] += before.x[i];
        store_four(d_state, sum);
      });
}

}  // namespace

std::size_t attention_shared_bytes(std::int64_t source_time, std::int64_t key_width,
                                   std::int64_t value_width, std::size_t wide_bytes) {
  return static_cast<std::size_t>(kVector * kAttendThreads + kAttendWarps + 2 * key_width +
                                  value_width + source_time) *
         wide_bytes;
}

template <typename S>
void attend(Stream& stream, const AttendArgs<S>& args) {
  const Attended<S>& a = args.attended;
  runtime::cuda::launch(
      stream, "attend", attend_kernel<S>, dim3(static_cast<unsigned>(a.rows)), kAttendThreads,
      attention_shared_bytes(a.source_time, a.key_width, a.value_width, sizeof(Wide<S>)), args);
}

template <typename S>
void attend_backward(Stream& stream, const AttendBackwardArgs<S>& args) {
  const Attended<S>& a = args.attended;
  runtime::cuda::launch(
      stream, "attend backward", attend_backward_kernel<S>, dim3(static_cast<unsigned>(a.rows)),
      kAttendThreads,
      attention_shared_bytes(a.source_time, a.key_width, a.value_width, sizeof(Wide<S>)), args);
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
