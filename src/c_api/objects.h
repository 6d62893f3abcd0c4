#pragma once

#include <sluice.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "base/check.h"
#include "kernels/recurrent/recurrent.h"
#include "runtime/context.h"
#include "runtime/device.h"

/// The objects that the handles of include/sluice.h point to.
struct sluice_device {
  std::unique_ptr<sluice::runtime::Device> device;
};

struct sluice_stream {
  sluice::runtime::Device* device = nullptr;
  std::unique_ptr<sluice::runtime::Stream> own;  ///< null: the device's own stream

  sluice::runtime::Stream& stream() const { return own ? *own : device->default_stream(); }
};

struct sluice_recurrent {
  sluice::runtime::Context context;
  sluice::kernels::recurrent::Descriptor descriptor;
  sluice::base::DType weights, cells;
  std::unique_ptr<sluice::kernels::recurrent::Plan> plan;
  std::string implementation, explanation, packed_layout;
};

namespace sluice::c_api {

/// Writes what went wrong to `error`, if there is one, and returns its status.
sluice_status report(sluice_error* error, ErrorCode code, const char* message) noexcept;

/// Runs `work`; what it throws becomes a status and a sentence. No exception leaves.
template <typename Work>
sluice_status guarded(sluice_error* error, const Work& work) noexcept {
  try {
    work();
    return SLUICE_OK;
  } catch (const Error& thrown) {
    return report(error, thrown.code(), thrown.what());
  } catch (const std::bad_alloc&) {
    return report(error, ErrorCode::kOutOfMemory, "the host has no memory left");
  } catch (const std::exception& thrown) {
    return report(error, ErrorCode::kInternal, thrown.what());
  } catch (...) {
    return report(error, ErrorCode::kInternal, "an unknown exception was thrown");
  }
}

void require(const void* pointer, const char* name);

/// A caller's struct as this library knows it: members that the caller's header has not are zero.
/// Throws ErrorCode::kInvalidArgument if it is null or its size is none, and
/// ErrorCode::kUnsupported if members that this library has not are set.
template <typename Struct>
Struct read(const Struct* callers, const char* name) {
  require(callers, name);
  Struct own{};
  const std::size_t size = callers->size;
  // The size of any header's struct is a multiple of that of a pointer.
  SLUICE_CHECK(
      size >= sizeof(std::size_t) && size <= 16 * sizeof(Struct) && size % sizeof(std::size_t) == 0,
      "{}.size is {}; set it to the size of the struct (SLUICE_INIT does)", name, size);
  std::memcpy(&own, callers, std::min(size, sizeof(Struct)));
  const char* bytes = reinterpret_cast<const char*>(callers);
  for (std::size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] == 0) continue;
    base::fail(ErrorCode::kUnsupported,
               "{} has a member that this library ({}) does not know; use a newer library", name,
               sluice_version());
  }
  own.size = sizeof(Struct);
  return own;
}

/// Fills a caller's struct, as much of it as its header has.
template <typename Struct>
void write(const Struct& own, Struct* callers, const char* name) {
  require(callers, name);
  const std::size_t size = callers->size;
  SLUICE_CHECK(size >= sizeof(std::size_t),
               "{}.size is {}; set it to the size of the struct (SLUICE_INIT does)", name, size);
  std::memcpy(callers, &own, std::min(size, sizeof(Struct)));
  callers->size = size;
}

}  // namespace sluice::c_api
