#pragma once

#include <memory>

#include "distributed/communicator.h"
#include "runtime/device.h"
#include "runtime/part_library.h"

/// NCCL moves what GPUs exchange. Its leaf is a second entry of libsluice_cuda.so
/// (runtime/cuda_library.h), which opens NCCL on first use.
namespace sluice::distributed {

struct NcclPart : runtime::Part {
  Communicator* (*join)(runtime::Device& gpu, Communicator& hosts);
};
inline constexpr const char* kNcclEntry = "sluice_nccl_part";

/// Returns this rank with collectives on its GPU, the same for all ranks of `hosts`, which go on to
/// carry what hosts say. All ranks must call it, each with a GPU of its own. Both must outlive it.
/// Throws ErrorCode::kDevice with the reason if there is no NCCL, or none that fits.
std::unique_ptr<Communicator> join_nccl(runtime::Device& gpu, Communicator& hosts);

}  // namespace sluice::distributed
