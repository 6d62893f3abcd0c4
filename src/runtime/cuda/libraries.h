#pragma once

#include <vector>

#include "runtime/cuda_library.h"
#include "runtime/vendor_library.h"

/// NVIDIA's libraries that are opened at run time, in the versions that this was built for.
namespace sluice::runtime::cuda {

extern const VendorSpec kCublasLt;
extern const VendorSpec kCudnn;
extern const VendorSpec kNccl;

/// Driver, runtime and the libraries above.
CudaSoftware software(LibrarySearch search);

}  // namespace sluice::runtime::cuda
