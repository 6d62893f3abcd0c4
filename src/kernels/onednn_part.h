#pragma once

#include <string>

#include "runtime/part_library.h"

/// oneDNN is a part of its own (runtime/part_library.h) that finds the oneDNN it was built with: a
/// program may have loaded another one, as torch and TensorFlow do.
namespace sluice::kernels {

namespace matmul {
struct BFloat16Product;
}
namespace recurrent {
struct Candidate;
}

/// What libsluice_onednn.so offers.
struct OnednnPart : runtime::Part {
  /// Returns false if oneDNN has no such product on this machine.
  bool (*multiply)(const matmul::BFloat16Product& product);
  /// oneDNN's own recurrent layers, in its candidates' order.
  const recurrent::Candidate* stack;
  const recurrent::Candidate* int8_stack;
};
/// The one entry of libsluice_onednn.so.
inline constexpr const char* kOnednnEntry = "sluice_onednn_part";

struct OpenedOnednn {
  const OnednnPart* part = nullptr;
  std::string missing;  ///< the reason if there is no part, a clause
};

/// Opens the part when it is called for the first time.
const OpenedOnednn& onednn_part();

}  // namespace sluice::kernels
