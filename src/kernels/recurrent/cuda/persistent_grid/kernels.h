#pragma once

#include <array>

namespace sluice::kernels::recurrent::cuda {
struct CellKind;
}

/// The kernels that are compiled, a source file each cell and storage (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::persistent_grid {

struct Pass {
  const void* kernel;  ///< of (LayerForward or LayerBackward, Grid); null: there is none
  int bytes;           ///< of shared memory
};
struct Kernels {
  Pass forward, backward;
};

/// How one pass lies on a block: `cluster` blocks share the depth of their units' product.
struct PassForm {
  int units, cluster;
};
/// How layers of up to so many units lie on the GPU. Each pass chooses for itself.
struct Form {
  const char* name;
  PassForm forward, backward;
  int most_hidden;

  /// Depth that a warp takes, in loads of 32.
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
/// In the order in which they are tried: the fewer units a block has, the less it has to multiply,
/// the more, the fewer blocks wait for each other and the fewer rows have they. Where registers
/// don't hold them, half of the weights are in shared memory. The last is for inference. Float32,
/// whose weights fill twice the registers, has the first alone.
inline constexpr std::array kForms{
    Form{"narrow", {8, 1}, {10, 4}, 1024},      Form{"wide", {16, 1}, {18, 4}, 1024},
    Form{"dense", {32, 1}, {32, 2}, 1024},      Form{"deep", {16, 1}, {14, 4}, 1536},
    Form{"deep_dense", {24, 1}, {24, 2}, 1536}, Form{"deepest", {16, 1}, {0, 0}, 2048}};

/// Of kForms.
using FormKernels = std::array<Kernels, kForms.size()>;

/// Those of a cell and storage that has the form.
const Kernels& kernels_of(const CellKind& kind, const Form& form);

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
