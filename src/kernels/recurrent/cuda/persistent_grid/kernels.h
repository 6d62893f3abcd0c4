#pragma once

#include <array>

namespace sluice::kernels::recurrent::cuda {
struct CellKind;
}

/// The compiled kernels: one source file for each cell and storage (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::persistent_grid {

struct Pass {
  const void* kernel;  ///< of (LayerForward or LayerBackward, Grid); null: there is none
  int bytes;           ///< of shared memory
};
struct Kernels {
  Pass forward, backward;
};

/// Units of a block in one pass, and blocks of a cluster, which share the depth of their product.
struct PassForm {
  int units, cluster;
};
/// How layers of up to `most_hidden` units are distributed over the GPU. Each pass chooses its own
/// form.
struct Form {
  const char* name;
  PassForm forward, backward;
  int most_hidden;

  /// Depth that a warp multiplies, in loads of 32.
  constexpr int forward_loads() const { return loads(most_hidden, forward); }
  constexpr int backward_loads(int gates) const { return loads(gates * most_hidden, backward); }
  /// Rows of a block's matrix.
  constexpr int forward_rows(int gates) const { return gates * forward.units; }
  constexpr int backward_rows() const { return backward.cluster * backward.units; }

 private:
  static constexpr int loads(int depth, const PassForm& pass) {
    return pass.units == 0 ? 0 : (depth + 256 * pass.cluster - 1) / (256 * pass.cluster);
  }
};
/// In the order in which they are tried: a block with fewer units multiplies less. With more units
/// per block, fewer blocks form a group, so more groups share the rows. If registers don't hold the
/// weights, half of them are in shared memory. The last form is for inference. float32 has only the
/// first, because its weights fill twice the registers.
inline constexpr std::array kForms{
    Form{"narrow", {8, 1}, {10, 4}, 1024},      Form{"wide", {16, 1}, {18, 4}, 1024},
    Form{"dense", {32, 1}, {32, 2}, 1024},      Form{"deep", {16, 1}, {14, 4}, 1536},
    Form{"deep_dense", {24, 1}, {24, 2}, 1536}, Form{"deepest", {16, 1}, {0, 0}, 2048}};

/// One entry for each of kForms.
using FormKernels = std::array<Kernels, kForms.size()>;

/// The kernels of a cell and storage that have the form.
const Kernels& kernels_of(const CellKind& kind, const Form& form);

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
