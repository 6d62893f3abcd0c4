#include "distributed/nccl_part.h"

#include "base/check.h"

namespace sluice::distributed {

std::unique_ptr<Communicator> join_nccl(runtime::Device& gpu, Communicator& hosts) {
  const runtime::OpenedPart opened =
      runtime::open_part({.name = "libsluice_cuda",
                          .entry = kNcclEntry,
                          .needs = "GPUs",
                          .remedy = "build it where nvcc is, by `./dev build`"});
  if (opened.part == nullptr) base::fail(ErrorCode::kDevice, "{}", opened.missing);
  return std::unique_ptr<Communicator>(static_cast<const NcclPart*>(opened.part)->join(gpu, hosts));
}

}  // namespace sluice::distributed
