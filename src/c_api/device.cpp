#include <thread>

#include "c_api/objects.h"

namespace sluice::c_api {

sluice_status report(sluice_error* error, ErrorCode code, const char* message) noexcept {
  const auto status = static_cast<sluice_status>(static_cast<int>(code) + 1);
  constexpr std::size_t kLeast = offsetof(sluice_error, message) + 1;
  if (error == nullptr || error->size < kLeast) return status;
  error->status = status;
  const std::size_t room =
      std::min(error->size, sizeof(sluice_error)) - offsetof(sluice_error, message);
  const std::size_t length = std::min(std::strlen(message), room - 1);
  std::memcpy(error->message, message, length);
  error->message[length] = 0;
  return status;
}

static_assert(static_cast<int>(ErrorCode::kInvalidArgument) + 1 == SLUICE_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorCode::kUnsupported) + 1 == SLUICE_UNSUPPORTED);
static_assert(static_cast<int>(ErrorCode::kInternal) + 1 == SLUICE_INTERNAL);
static_assert(static_cast<int>(ErrorCode::kDeviceLost) + 1 == SLUICE_DEVICE_LOST);

void require(const void* pointer, const char* name) {
  SLUICE_CHECK(pointer != nullptr, "{} is NULL", name);
}

namespace {

/// Opens a device in a thread of its own: opening a GPU makes it current there, and the caller's
/// current GPU stays as it was.
std::unique_ptr<runtime::Device> open_beside(const char* name) {
  std::unique_ptr<runtime::Device> device;
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      device = runtime::open_device(name);
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
  return device;
}

/// Waits until the copy is done.
void copy(sluice_stream* stream, void* to, const void* from, std::size_t bytes,
          runtime::CopyKind kind) {
  const bool up = kind == runtime::CopyKind::kHostToDevice;
  require(stream, "stream");
  if (bytes == 0) return;
  require(to, up ? "device_memory" : "host");
  require(from, up ? "host" : "device_memory");
  stream->stream().copy(to, from, bytes, kind);
  stream->stream().synchronize();
}

}  // namespace
}  // namespace sluice::c_api

using namespace sluice::c_api;
namespace runtime = sluice::runtime;

const char* sluice_version() { return SLUICE_VERSION_TEXT; }

sluice_status sluice_device_open(const char* name, sluice_device** device, sluice_error* error) {
  return guarded(error, [&] {
    require(name, "name");
    require(device, "device");
    *device = nullptr;
    *device = new sluice_device{open_beside(name)};
  });
}

void sluice_device_close(sluice_device* device) { delete device; }

sluice_status sluice_device_allocate(sluice_device* device, std::size_t bytes, void** memory,
                                     sluice_error* error) {
  return guarded(error, [&] {
    require(device, "device");
    require(memory, "memory");
    *memory = nullptr;
    *memory = device->device->allocate(bytes);
  });
}

void sluice_device_free(sluice_device* device, void* memory, std::size_t bytes) {
  if (device != nullptr && memory != nullptr) device->device->deallocate(memory, bytes);
}

sluice_status sluice_stream_create(sluice_device* device, sluice_stream** stream,
                                   sluice_error* error) {
  return guarded(error, [&] {
    require(device, "device");
    require(stream, "stream");
    *stream = nullptr;
    runtime::Device& own = *device->device;
    auto made = std::make_unique<sluice_stream>();
    made->device = &own;
    if (!own.runs_host_kernels()) made->own = own.make_stream();
    *stream = made.release();
  });
}

sluice_status sluice_stream_wrap(sluice_device* device, void* cuda_stream,
                                 const sluice_allocator* allocator, sluice_stream** stream,
                                 sluice_error* error) {
  return guarded(error, [&] {
    require(device, "device");
    require(stream, "stream");
    *stream = nullptr;
    runtime::StreamMemory memory;
    if (allocator != nullptr) {
      const sluice_allocator own = read(allocator, "allocator");
      SLUICE_CHECK(own.allocate != nullptr && own.release != nullptr,
                   "allocator needs both allocate and release");
      memory.allocate = [own](std::size_t bytes) { return own.allocate(own.user, bytes); };
      memory.release = [own](void* what, std::size_t bytes) { own.release(own.user, what, bytes); };
    }
    auto made = std::make_unique<sluice_stream>();
    made->device = device->device.get();
    made->own = device->device->wrap_stream(cuda_stream, std::move(memory));
    *stream = made.release();
  });
}

void sluice_stream_destroy(sluice_stream* stream) { delete stream; }

sluice_status sluice_stream_synchronize(sluice_stream* stream, sluice_error* error) {
  return guarded(error, [&] {
    require(stream, "stream");
    stream->stream().synchronize();
  });
}

sluice_status sluice_stream_upload(sluice_stream* stream, void* device_memory, const void* host,
                                   std::size_t bytes, sluice_error* error) {
  return guarded(
      error, [&] { copy(stream, device_memory, host, bytes, runtime::CopyKind::kHostToDevice); });
}

sluice_status sluice_stream_download(sluice_stream* stream, void* host, const void* device_memory,
                                     std::size_t bytes, sluice_error* error) {
  return guarded(
      error, [&] { copy(stream, host, device_memory, bytes, runtime::CopyKind::kDeviceToHost); });
}
