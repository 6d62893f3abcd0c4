#include "runtime/device_fault.h"

#include <algorithm>
#include <array>

namespace sluice::runtime {
namespace {

// Those that driver_types.h of CUDA 13.0 says leave the process in an inconsistent state or call
// for a new one, and uncorrectable errors of hardware, after which memory can't be trusted.
constexpr std::array<std::string_view, 16> kFaults{
    "cudaErrorAssert",               // of device code
    "cudaErrorContained",            // hardware, kept to this process
    "cudaErrorContextIsDestroyed",   // by somebody else in the process
    "cudaErrorECCUncorrectable",     //
    "cudaErrorExternalDevice",       //
    "cudaErrorHardwareStackError",   //
    "cudaErrorIllegalAddress",       //
    "cudaErrorIllegalInstruction",   //
    "cudaErrorInvalidAddressSpace",  //
    "cudaErrorInvalidPc",            //
    "cudaErrorLaunchFailure",        //
    "cudaErrorLaunchTimeout",        // of a GPU with a display
    "cudaErrorMisalignedAddress",    //
    "cudaErrorMpsClientTerminated",  //
    "cudaErrorNvlinkUncorrectable",  //
    "cudaErrorTensorMemoryLeak",
};

}  // namespace

bool loses_device(std::string_view cuda_error) {
  return std::ranges::find(kFaults, cuda_error) != kFaults.end();
}

}  // namespace sluice::runtime
