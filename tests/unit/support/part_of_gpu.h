#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "runtime/vendor_library.h"
#include "sluice/error.h"

namespace sluice::testing {

/// While it lives, the calling thread has no more of the first GPU than some of its multiprocessors
/// (a green context of the driver), and what is asked of the GPU, such as how many blocks of a
/// kernel it runs at once, is answered for these. Throws ErrorCode::kDevice where the driver has
/// none. The GPU must have been opened.
class PartOfGpu {
 public:
  /// The driver may round their number up.
  explicit PartOfGpu(unsigned processors) {
    Resource all{}, rest{};
    call("cuDeviceGetDevResource", kGpu, &all, kProcessors);
    unsigned groups = 1;
    Resource part{};
    call("cuDevSmResourceSplitByCount", &part, &groups, &all, &rest, 0U, processors);
    void* description = nullptr;
    call("cuDevResourceGenerateDesc", &description, &part, 1U);
    constexpr unsigned kDefaultStream = 1;
    call("cuGreenCtxCreate", &context_, description, kGpu, kDefaultStream);
    void* context = nullptr;
    call("cuCtxFromGreenCtx", &context, context_);
    call("cuCtxPushCurrent_v2", context);
  }
  ~PartOfGpu() {
    void* context = nullptr;
    driver_.function<int(void**)>("cuCtxPopCurrent_v2")(&context);
    driver_.function<int(void*)>("cuGreenCtxDestroy")(context_);
  }
  PartOfGpu(const PartOfGpu&) = delete;
  PartOfGpu& operator=(const PartOfGpu&) = delete;

 private:
  static constexpr int kGpu = 0, kProcessors = 1;  ///< CU_DEV_RESOURCE_TYPE_SM
  /// CUdevResource, of which nothing is looked at here.
  struct alignas(8) Resource {
    std::array<std::byte, 144> bytes;
  };

  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    check(name, driver_.function<int(Arguments...)>(name)(arguments...));
  }
  static void check(const char* name, int status) {
    if (status == 0) return;
    throw Error(ErrorCode::kDevice, fmt::format("{} returned {}", name, status));
  }

  const runtime::VendorLibrary driver_ = runtime::find_library("libcuda.so.1");
  void* context_ = nullptr;
};

}  // namespace sluice::testing
