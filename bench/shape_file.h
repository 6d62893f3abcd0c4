#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/recurrent/recurrent.h"

namespace sluice::bench {

/// Forward alone is inference. With backward each run packs the weights anew, as in training they
/// have changed, and writes their gradients, in libraries' layers too (BackwardArgs::accumulate).
/// A step is one call for one time step of a stream that goes on.
enum class Pass { kForward, kForwardBackward, kStep };

std::string_view name_of(Pass pass);

/// One line of a shape file: what to run. The same files drive every benchmark and its peers.
struct BenchShape {
  std::string name;
  kernels::recurrent::CellType cell = kernels::recurrent::CellType::kLstm;
  std::int64_t time = 100;
  std::int64_t batch = 64;
  std::int64_t input = 512;
  std::int64_t hidden = 512;
  std::int64_t layers = 1;
  std::int64_t directions = 1;
  std::vector<std::int64_t> projections;  ///< projection=P, or P,P,.. of each layer; 0: none
  base::DType dtype = base::DType::kFloat32;
  bool tf32 = false;             ///< dtype=tf32: float32 whose products may round to TF32 on a GPU
  bool int8 = false;             ///< dtype=int8: float32 with products of 8 bits, on the CPU
  bool uniform_lengths = false;  ///< lengths=uniform: each row's on 1..time; full: all `time`
  std::uint64_t seed = 1;
  std::string device = "cpu";
  bool inference_only = false;  ///< pass=forward: there is no backward pass worth measuring
  // Options of cells beyond the plain equations (docs/equations.md).
  double reset = 0;              ///< probability that a sequence begins at a step of a row
  double zoneout = 0;            ///< rate of h, and of an LSTM's c
  double recurrent_dropout = 0;  ///< rate, in training
  bool peepholes = false;        ///< peepholes=on
  bool layer_norm = false;       ///< layer_norm=on
  bool hard_sigmoid = false;     ///< hard_sigmoid=on

  bool operator==(const BenchShape&) const = default;

  kernels::recurrent::Descriptor descriptor(bool training) const;
  /// "float32", "tf32", … as in a shape file; anything else is refused.
  void set_dtype(std::string_view type);
  bool has(Pass pass) const { return pass == Pass::kForward || !(inference_only || int8); }
  /// "float32", "tf32", …
  std::string_view dtype_name() const {
    return tf32 ? "tf32" : int8 ? "int8" : base::name_of(dtype);
  }
  /// FLOPs of the products of one forward pass over full lengths: 2*T*B*G*H*(I+R) for each layer
  /// and direction, I its input width and R that of its recurrent input (H, or P with a
  /// projection P, whose own product 2*T*B*P*H is added).
  double forward_flops() const;
};

/// Reads a file of lines `name key=value …` (`#` starts a comment; absent keys keep the defaults
/// above). Throws Error naming file and line for an unknown key (with the nearest known one), a
/// value that does not fit, a missing name or a file without shapes.
std::vector<BenchShape> read_shapes(const std::filesystem::path& path);
/// The same, of a text that `origin` names in errors.
std::vector<BenchShape> parse_shapes(std::string_view text, std::string_view origin);
/// As read_shapes, with every line in `dtype` and on `device` instead of its own, unless these are
/// empty. Lines that have become the same are left out.
std::vector<BenchShape> read_shapes(const std::filesystem::path& path, std::string_view dtype,
                                    std::string_view device);

}  // namespace sluice::bench
