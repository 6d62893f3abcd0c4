#pragma once

/// The kernels that are compiled, a source file each arithmetic (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// Of (LaunchArgs), by the shape of a cluster.
struct Kernels {
  const void* four;
  const void* eight;
};
extern const Kernels lstm_bf16, lstm_f16, lstm_tf32;

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
