#include <algorithm>

#include "base/dtype.h"
#include "kernels/crf/cuda/chain.h"
#include "kernels/crf/cuda/crf.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::crf::cuda {
namespace {

constexpr int kPrepareThreads = 1024;

/// What a block does with its row. The three need nothing of each other.
enum Role : unsigned { kBest, kForward, kBackward, kRoles };

template <typename T>
struct Problem {
  Scores<T> scores;
  Workspace workspace;
  const std::int32_t* targets;  ///< or null: only the best labels are asked for
  std::int32_t* best;
  double* best_scores;  ///< or null
  bool cached;          ///< whether a block keeps the weights in shared memory
};

/// weights and turned; turned may be null.
template <typename T>
__global__ void __launch_bounds__(kPrepareThreads)
    prepare_kernel(const T* transitions, int labels, double* largest_out, double* weights,
                   double* turned) {
  __shared__ double scratch[kPrepareThreads / runtime::cuda::kWarp];
  const Team<kPrepareThreads> team{static_cast<int>(threadIdx.x), scratch};
  const int pairs = labels * labels;
  double largest = -INFINITY;
  for (int k = team.rank; k < pairs; k += kPrepareThreads) {
    largest = runtime::cuda::Larger{}(largest, static_cast<double>(transitions[k]));
  }
  largest = team.reduce(largest, runtime::cuda::Larger{});
  if (!::isfinite(largest)) largest = 0;
  if (team.rank == 0) *largest_out = largest;
  for (int k = team.rank; k < pairs; k += kPrepareThreads) {
    const double weight = ::exp(static_cast<double>(transitions[k]) - largest);
    weights[k] = weight;
    if (turned != nullptr) turned[k % labels * labels + k / labels] = weight;
  }
}

template <int kSize, typename T>
__device__ void best_of_each(const Team<kSize>& team, const Problem<T>& p, int row, int length) {
  double score = 0;
  for (int t = 0; t < length; ++t) {
    double largest = 0;
    const int label = first_largest(
        team, p.scores.labels, [&](int j) { return p.scores.emission(t, row, j); }, largest);
    if (team.rank == 0) p.best[std::int64_t{t} * p.scores.rows + row] = label;
    score += largest;
  }
  if (team.rank == 0 && p.best_scores != nullptr) p.best_scores[row] = score;
}

template <int kSize, typename T>
__device__ void best_of_chain(const Team<kSize>& team, const Problem<T>& p, int row, int length,
                              StepMemory memory) {
  const Scores<T>& s = p.scores;
  double* viterbi = p.workspace.viterbi;
  for (int t = 0; t < length; ++t) {
    for (int j = team.rank; j < s.labels; j += kSize) {
      double largest = static_cast<double>(s.start[j]);
      if (t > 0) {
        largest = memory.current[0] + s.transition(0, j);
        for (int i = 1; i < s.labels; ++i) {
          const double value = memory.current[i] + s.transition(i, j);
          if (value > largest) largest = value;
        }
      }
      viterbi[s.cell(t, row) + j] = memory.next[j] = largest + s.emission(t, row, j);
    }
    memory.swap();
    team.sync();
  }
  // Who came before is looked for again, on the best path alone, rather than kept for every label.
  double score = 0, unused = 0;
  int label = first_largest(
      team, s.labels, [&](int j) { return memory.current[j] + static_cast<double>(s.end[j]); },
      score);
  for (int t = length - 1; t > 0; --t) {
    if (team.rank == 0) p.best[std::int64_t{t} * s.rows + row] = label;
    const double* from = viterbi + s.cell(t - 1, row);
    const int to = label;
    label = first_largest(
        team, s.labels, [&](int i) { return from[i] + s.transition(i, to); }, unused);
  }
  if (team.rank != 0) return;
  p.best[row] = label;
  if (p.best_scores != nullptr) p.best_scores[row] = score;
}

template <int kSize, typename T>
__device__ void find_best(const Team<kSize>& team, const Problem<T>& p, int row,
                          const StepMemory& memory) {
  const Scores<T>& s = p.scores;
  const int length = s.length(row);
  for (int t = length + team.rank; t < s.time; t += kSize) {
    p.best[std::int64_t{t} * s.rows + row] = 0;
  }
  if (length == 0) {
    if (team.rank == 0 && p.best_scores != nullptr) p.best_scores[row] = 0;
  } else if (s.transitions == nullptr) {
    best_of_each(team, p, row, length);
  } else {
    best_of_chain(team, p, row, length, memory);
  }
  if (p.targets == nullptr) return;
  team.sync();
  int correct = 0;
  for (int t = team.rank; t < length; t += kSize) {
    const std::int64_t n = std::int64_t{t} * s.rows + row;
    correct += p.best[n] == p.targets[n] ? 1 : 0;
  }
  correct = team.reduce(correct, Add{});
  if (team.rank == 0) p.workspace.results[row].correct = correct;
}

/// The weights of a role, in shared memory if they fit.
template <int kSize>
__device__ const double* fetch(const Team<kSize>& team, const double* weights, int pairs,
                               double* cache) {
  if (cache == nullptr) return weights;
  for (int k = team.rank; k < pairs; k += kSize) cache[k] = weights[k];
  return cache;
}

template <int kSize, typename T>
__device__ double target_score(const Team<kSize>& team, const Problem<T>& p, int row, int length) {
  const Scores<T>& s = p.scores;
  double score = 0;
  for (int t = team.rank; t < length; t += kSize) {
    const std::int64_t n = std::int64_t{t} * s.rows + row;
    const std::int32_t label = p.targets[n];
    const std::int32_t before = t > 0 ? p.targets[n - s.rows] : 0;
    if (!s.is_label(label) || !s.is_label(before)) {
      score = NAN;
      break;
    }
    score += t > 0 ? s.transition(before, label) : static_cast<double>(s.start[label]);
    score += s.emission(t, row, label);
    if (t == length - 1) score += static_cast<double>(s.end[label]);
  }
  return team.reduce(score, Add{});
}

/// forward[t, j]: of all that ends at time t in label j. Fills in the row's log Z and loss.
template <int kSize, typename T>
__device__ void sum_forward(const Team<kSize>& team, const Problem<T>& p, int row,
                            StepMemory memory, double* cache) {
  const Scores<T>& s = p.scores;
  const int length = s.length(row);
  RowResult& result = p.workspace.results[row];
  if (length == 0) {
    if (team.rank == 0) result.log_z = result.loss = result.counted = 0;
    return;
  }
  const auto transition = [&](int i, int j) { return s.transition(i, j); };
  const LogStep<decltype(transition)> step{
      s.labels, fetch(team, p.workspace.weights, s.labels * s.labels, cache), *p.workspace.largest,
      transition};
  const auto take = [&](int t, int j, double value) {
    memory.next[j] = p.workspace.forward[s.cell(t, row) + j] = value + s.emission(t, row, j);
  };
  for (int j = team.rank; j < s.labels; j += kSize) take(0, j, static_cast<double>(s.start[j]));
  for (int t = 1; t < length; ++t) {
    memory.swap();
    team.sync();
    step(team, memory, [&](int j, double value) { take(t, j, value); });
  }
  memory.swap();
  team.sync();
  const double log_z = team_log_sum(
      team, s.labels, [&](int j) { return memory.current[j] + static_cast<double>(s.end[j]); });
  const double score = target_score(team, p, row, length);
  if (team.rank != 0) return;
  result.log_z = log_z;
  result.loss = log_z - score;
  result.counted = length;
}

/// backward[t, i]: of all that follows label i at time t.
template <int kSize, typename T>
__device__ void sum_backward(const Team<kSize>& team, const Problem<T>& p, int row,
                             StepMemory memory, double* cache) {
  const Scores<T>& s = p.scores;
  const int length = s.length(row);
  if (length == 0) return;
  const auto transition = [&](int to, int from) { return s.transition(from, to); };
  const LogStep<decltype(transition)> step{
      s.labels, fetch(team, p.workspace.turned, s.labels * s.labels, cache), *p.workspace.largest,
      transition};
  const auto take = [&](int t, int i, double value) {
    p.workspace.backward[s.cell(t, row) + i] = value;
    memory.next[i] = value + s.emission(t, row, i);
  };
  for (int i = team.rank; i < s.labels; i += kSize) {
    take(length - 1, i, static_cast<double>(s.end[i]));
  }
  for (int t = length - 2; t >= 0; --t) {
    memory.swap();
    team.sync();
    step(team, memory, [&](int i, double value) { take(t, i, value); });
  }
}

/// A block for each row (x) and role (y).
template <typename T, int kSize>
__global__ void __launch_bounds__(kSize) chains_kernel(Problem<T> p) {
  extern __shared__ __align__(16) double shared[];
  __shared__ double scratch[kSize / runtime::cuda::kWarp];
  const Team<kSize> team{static_cast<int>(threadIdx.x), scratch};
  const auto row = static_cast<int>(blockIdx.x);
  const StepMemory memory(shared, p.scores.labels);
  double* cache = p.cached ? shared + kStepArrays * p.scores.labels : nullptr;
  switch (blockIdx.y) {
    case kBest:
      return find_best(team, p, row, memory);
    case kForward:
      return sum_forward(team, p, row, memory, cache);
    default:
      return sum_backward(team, p, row, memory, cache);
  }
}

template <typename T>
void launch_chains(Stream& stream, const Problem<T>& problem, unsigned roles) {
  Problem<T> p = problem;
  const auto labels = static_cast<std::size_t>(p.scores.labels);
  std::size_t shared = kStepArrays * labels * sizeof(double);
  const std::size_t cache = labels * labels * sizeof(double);
  constexpr std::size_t kOwnShared = 1024;
  p.cached = roles > 1 && shared + cache + kOwnShared <= runtime::cuda::gpu_of(stream).shared_bytes;
  if (p.cached) shared += cache;
  const auto run = [&](auto kernel, unsigned threads) {
    runtime::cuda::launch(stream, "sum up chains of labels", kernel,
                          dim3(static_cast<unsigned>(p.scores.rows), roles), threads, shared, p);
  };
  if (labels <= 32) {
    run(chains_kernel<T, 32>, 32);
  } else if (labels <= 128) {
    run(chains_kernel<T, 128>, 128);
  } else {
    run(chains_kernel<T, 512>, 512);
  }
}

constexpr int kTotalThreads = 256;

/// In an order that depends on the number of rows alone.
__global__ void __launch_bounds__(kTotalThreads)
    add_up_kernel(const RowResult* results, int rows, double* sums) {
  __shared__ double scratch[kTotalThreads / runtime::cuda::kWarp];
  const Team<kTotalThreads> team{static_cast<int>(threadIdx.x), scratch};
  double loss = 0, counted = 0, correct = 0;
  for (int row = team.rank; row < rows; row += kTotalThreads) {
    loss += results[row].loss;
    counted += results[row].counted;
    correct += results[row].correct;
  }
  loss = team.reduce(loss, Add{});
  counted = team.reduce(counted, Add{});
  correct = team.reduce(correct, Add{});
  if (team.rank != 0) return;
  sums[loss::kLoss] = sums[loss::kNll] = loss;
  sums[loss::kTokens] = counted;
  sums[loss::kCorrect] = correct;
}

}  // namespace

void negative_log_likelihood(Stream& stream, const LossArgs& args) {
  base::dispatch_master(args.emissions.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Scores<T> scores(args);
    const bool gradient = static_cast<bool>(args.d_emissions);
    const Workspace workspace(args.workspace, args.time, args.rows, scores.labels, true, gradient);
    runtime::cuda::launch(stream, "weigh transitions", prepare_kernel<T>, 1, kPrepareThreads, 0,
                          scores.transitions, scores.labels, workspace.largest, workspace.weights,
                          workspace.turned);
    launch_chains(stream,
                  Problem<T>{scores, workspace, args.targets.data_as<const std::int32_t>(),
                             args.best.data_as<std::int32_t>(), nullptr, false},
                  gradient ? kRoles : kBackward);
    runtime::cuda::launch(stream, "add up losses", add_up_kernel, 1, kTotalThreads, 0,
                          workspace.results, scores.rows, args.sums.data_as<double>());
    if (gradient) add_gradient<T>(stream, args, workspace);
  });
}

void best_labels(Stream& stream, const BestLabelsArgs& args) {
  base::dispatch_master(args.emissions.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Scores<T> scores(args);
    const Workspace workspace(args.workspace, args.time, args.rows, scores.labels, false, false);
    launch_chains(stream,
                  Problem<T>{scores, workspace, nullptr, args.best.data_as<std::int32_t>(),
                             args.scores.data_as<double>(), false},
                  1);
  });
}

}  // namespace sluice::kernels::crf::cuda
