#include "kernels/crf/cuda/crf.h"
#include "kernels/crf/cuda/scores.h"
#include "kernels/loss/cuda/sums.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::crf::cuda {
namespace {

constexpr int kBlock = 128;

template <typename T>
struct Gradient {
  Scores<T> scores;
  const RowResult* results;
  const double* forward;
  const double* backward;
  double* boundary;
  double* sums;
  const std::int32_t* targets;
  T* d_emissions;  ///< may be the emissions
  T* d_transitions;
  T* d_start;
  T* d_end;
  loss::cuda::Scale scale;
  int parts;
};

/// Expected minus observed transitions of every gridDim.y-th step, all rows of it: a part of the
/// sum for each pair of labels.
template <typename T>
__global__ void __launch_bounds__(kBlock) transition_parts_kernel(Gradient<T> g) {
  const Scores<T>& s = g.scores;
  const int pairs = s.labels * s.labels;
  const int pair = static_cast<int>(blockIdx.x) * kBlock + static_cast<int>(threadIdx.x);
  if (pair >= pairs) return;
  const int from = pair / s.labels, to = pair % s.labels;
  const double transition = s.transition(from, to);
  double sum = 0;
  for (int t = 1 + static_cast<int>(blockIdx.y); t < s.time; t += static_cast<int>(gridDim.y)) {
    for (int row = 0; row < s.rows; ++row) {
      if (t >= s.length(row)) continue;
      const std::int64_t n = std::int64_t{t} * s.rows + row;
      const double before = g.forward[s.cell(t - 1, row) + from];
      const double after = s.emission(t, row, to) + g.backward[s.cell(t, row) + to];
      sum += ::exp(before + transition + after - g.results[row].log_z);
      if (g.targets[n - s.rows] == from && g.targets[n] == to) sum -= 1;
    }
  }
  g.sums[std::int64_t{blockIdx.y} * pairs + pair] = sum;
}

/// A thread for each step, row and label.
template <typename T>
__global__ void __launch_bounds__(kBlock) emissions_kernel(Gradient<T> g) {
  const Scores<T>& s = g.scores;
  const std::int64_t count = s.cell(s.time, 0);
  const double scale = g.scale.value();
  for (std::int64_t k = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; k < count;
       k += std::int64_t{gridDim.x} * kBlock) {
    const std::int64_t n = k / s.labels;
    const int label = static_cast<int>(k % s.labels), t = static_cast<int>(n / s.rows);
    const int row = static_cast<int>(n % s.rows), length = s.length(row);
    double d = 0;
    if (t < length) {
      d = ::exp(g.forward[k] + g.backward[k] - g.results[row].log_z);
      if (g.targets[n] == label) d -= 1;
      const std::int64_t at = std::int64_t{row} * s.labels + label;
      if (t == 0) g.boundary[at] = d;
      if (t == length - 1) g.boundary[std::int64_t{s.rows} * s.labels + at] = d;
    }
    g.d_emissions[k] = static_cast<T>(scale * d);
  }
}

/// Adds the parts up in rising order, and the boundaries in the order of rows.
template <typename T>
__global__ void __launch_bounds__(kBlock) chain_kernel(Gradient<T> g) {
  const Scores<T>& s = g.scores;
  const int pairs = s.labels * s.labels;
  int at = static_cast<int>(blockIdx.x) * kBlock + static_cast<int>(threadIdx.x);
  double sum = 0;
  if (at < pairs) {
    for (int part = 0; part < g.parts; ++part) sum += g.sums[std::int64_t{part} * pairs + at];
    g.d_transitions[at] += static_cast<T>(g.scale.value() * sum);
    return;
  }
  at -= pairs;
  if (at >= 2 * s.labels) return;
  const bool is_end = at >= s.labels;
  const int label = is_end ? at - s.labels : at;
  const double* boundary = g.boundary + (is_end ? std::int64_t{s.rows} * s.labels : 0);
  for (int row = 0; row < s.rows; ++row) {
    if (s.length(row) > 0) sum += boundary[std::int64_t{row} * s.labels + label];
  }
  (is_end ? g.d_end : g.d_start)[label] += static_cast<T>(g.scale.value() * sum);
}

}  // namespace

template <typename T>
void add_gradient(Stream& stream, const LossArgs& args, const Workspace& workspace) {
  const Scores<T> scores(args);
  const int pairs = scores.labels * scores.labels;
  const auto parts = static_cast<int>(transition_parts(scores.labels));
  const Gradient<T> g{scores,
                      workspace.results,
                      workspace.forward,
                      workspace.backward,
                      workspace.boundary,
                      workspace.sums,
                      args.targets.data_as<const std::int32_t>(),
                      args.d_emissions.data_as<T>(),
                      args.d_chain.transitions.data_as<T>(),
                      args.d_chain.start.data_as<T>(),
                      args.d_chain.end.data_as<T>(),
                      loss::cuda::Scale(args),
                      parts};
  const auto blocks = [](int count) {
    return static_cast<unsigned>((count + kBlock - 1) / kBlock);
  };
  // The emissions, which their gradient may overwrite, are needed once more.
  runtime::cuda::launch(stream, "add up transitions", transition_parts_kernel<T>,
                        dim3(blocks(pairs), static_cast<unsigned>(parts)), kBlock, 0, g);
  runtime::cuda::launch(stream, "differentiate emissions", emissions_kernel<T>,
                        runtime::cuda::blocks_for(args.emissions.element_count(), kBlock), kBlock,
                        0, g);
  runtime::cuda::launch(stream, "differentiate transitions", chain_kernel<T>,
                        blocks(pairs + 2 * scores.labels), kBlock, 0, g);
}

template void add_gradient<float>(Stream&, const LossArgs&, const Workspace&);
template void add_gradient<double>(Stream&, const LossArgs&, const Workspace&);

}  // namespace sluice::kernels::crf::cuda
