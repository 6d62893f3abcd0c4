#pragma once

#include <string_view>

#include "base/check.h"
#include "runtime/context.h"

namespace sluice::kernels {

namespace attention_decoder {
struct Candidates;
}
namespace beam_search {
struct Leaves;
}
namespace crf {
struct Leaves;
}
namespace elementwise {
struct Leaves;
}
namespace embedding {
struct Leaves;
}
namespace loss {
struct Leaves;
}
namespace matmul {
struct Leaves;
}
namespace optimizer {
struct Leaves;
}
namespace pooling {
struct Leaves;
}
namespace recurrent {
struct Candidates;
struct CudnnPlaces;
}  // namespace recurrent
namespace sampling {
struct Leaves;
}
namespace token_mask {
struct Leaves;
}

/// What a device that runs no host functions brings along (runtime::Device::kernels): a table for
/// each family of operations, null for those that it lacks. Tables live as long as the program.
struct DeviceKernels {
  const attention_decoder::Candidates* attention_decoder = nullptr;
  const beam_search::Leaves* beam_search = nullptr;
  const crf::Leaves* crf = nullptr;
  const elementwise::Leaves* elementwise = nullptr;
  const embedding::Leaves* embedding = nullptr;
  const loss::Leaves* loss = nullptr;
  const matmul::Leaves* matmul = nullptr;
  const optimizer::Leaves* optimizer = nullptr;
  const pooling::Leaves* pooling = nullptr;
  const recurrent::Candidates* recurrent = nullptr;
  const recurrent::CudnnPlaces* cudnn_places = nullptr;
  const sampling::Leaves* sampling = nullptr;
  const token_mask::Leaves* token_mask = nullptr;
};

/// The table of the context's device: `host` for one that runs host functions. Throws
/// ErrorCode::kUnsupported if the device lacks the family.
template <typename Table>
const Table& leaves_of(const runtime::Device& device, const Table& host,
                       const Table* DeviceKernels::*member, std::string_view family) {
  if (device.runs_host_kernels()) return host;
  const DeviceKernels* kernels = device.kernels();
  if (kernels == nullptr || kernels->*member == nullptr) {
    base::fail(ErrorCode::kUnsupported, "device {} has no {} operations", device.name(), family);
  }
  return *(kernels->*member);
}

template <typename Table>
const Table& leaves_of(const runtime::Context& context, const Table& host,
                       const Table* DeviceKernels::*member, std::string_view family) {
  return leaves_of(context.device(), host, member, family);
}

}  // namespace sluice::kernels
