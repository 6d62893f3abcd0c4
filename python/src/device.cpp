#include "device.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <utility>

namespace sluice::python {
namespace {

/// The address that a Python function returned; None is none.
void* address(const nb::object& result) {
  return result.is_none() ? nullptr : reinterpret_cast<void*>(nb::cast<std::uintptr_t>(result));
}

void* allocate(void* user, std::size_t bytes) {
  const nb::gil_scoped_acquire acquired;
  auto& allocator = *static_cast<Allocator*>(user);
  try {
    return address(allocator.allocate(bytes));
  } catch (nb::python_error& error) {
    allocator.raised.emplace(std::move(error));
  } catch (const std::exception&) {
    PyErr_SetString(PyExc_TypeError, "allocate must return an address or None");
    allocator.raised.emplace();
  }
  return nullptr;
}

void release(void* user, void* memory, std::size_t bytes) {
  const nb::gil_scoped_acquire acquired;
  auto& allocator = *static_cast<Allocator*>(user);
  try {
    allocator.release(reinterpret_cast<std::uintptr_t>(memory), bytes);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("the release function of a Stream");
  }
}

std::shared_ptr<sluice_device> open(const std::string& name) {
  sluice_error error = SLUICE_INIT(sluice_error);
  sluice_device* device = nullptr;
  sluice_status status;
  {
    const nb::gil_scoped_release released;
    status = sluice_device_open(name.c_str(), &device, &error);
  }
  check(status, error);
  return {device, sluice_device_close};
}

}  // namespace

Device::Device(std::string name) : name_(std::move(name)), device_(open(name_)) {}

Buffer::Buffer(const Device& device, std::size_t bytes) : device_(device), bytes_(bytes) {
  sluice_error error = SLUICE_INIT(sluice_error);
  check(sluice_device_allocate(device_.get(), bytes, &memory_, &error), error);
}

Buffer::~Buffer() { sluice_device_free(device_.get(), memory_, bytes_); }

Stream::Stream(Device device) : device_(std::move(device)) {
  run([&](sluice_error* error) { return sluice_stream_create(device_.get(), &stream_, error); });
}

Stream::Stream(Device device, std::uintptr_t cuda_stream, nb::object allocate_function,
               nb::object release_function)
    : device_(std::move(device)) {
  if (allocate_function.is_none() != release_function.is_none()) {
    throw nb::value_error("a Stream needs both allocate and release, or neither");
  }
  sluice_allocator functions = SLUICE_INIT(sluice_allocator);
  if (!allocate_function.is_none()) {
    allocator_ = std::make_unique<Allocator>(
        Allocator{std::move(allocate_function), std::move(release_function), {}});
    functions.user = allocator_.get();
    functions.allocate = allocate;
    functions.release = release;
  }
  run([&](sluice_error* error) {
    return sluice_stream_wrap(device_.get(), reinterpret_cast<void*>(cuda_stream),
                              allocator_ ? &functions : nullptr, &stream_, error);
  });
}

Stream::~Stream() { sluice_stream_destroy(stream_); }

void Stream::fail(sluice_status status, const sluice_error& error) {
  if (allocator_ && allocator_->raised) {
    nb::python_error raised = std::move(*allocator_->raised);
    allocator_->raised.reset();
    throw raised;
  }
  check(status, error);
}

void Stream::synchronize() {
  run([&](sluice_error* error) { return sluice_stream_synchronize(stream_, error); });
}

void Stream::upload(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  run([&](sluice_error* error) {
    return sluice_stream_upload(stream_, reinterpret_cast<void*>(to),
                                reinterpret_cast<const void*>(from), bytes, error);
  });
}

void Stream::download(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  run([&](sluice_error* error) {
    return sluice_stream_download(stream_, reinterpret_cast<void*>(to),
                                  reinterpret_cast<const void*>(from), bytes, error);
  });
}

void bind_device(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Device>(module, "Device", "A device: \"cpu\", \"cuda\" or \"cuda:N\".")
      .def(nb::init<std::string>(), "name"_a = "cpu")
      .def_prop_ro("name", &Device::name);
  nb::class_<Buffer>(module, "Buffer", "Memory of a device, freed with the object.")
      .def(nb::init<const Device&, std::size_t>(), "device"_a, "bytes"_a)
      .def_prop_ro("pointer", &Buffer::pointer)
      .def_prop_ro("bytes", &Buffer::bytes);
  nb::class_<Stream>(module, "Stream", "A queue of work. A CPU's does its work at once.")
      .def_static(
          "create", [](const Device& device) { return std::make_shared<Stream>(device); },
          "device"_a, "A stream of its own.")
      .def_static(
          "wrap",
          [](const Device& device, std::uintptr_t cuda_stream, nb::object allocate,
             nb::object release) {
            return std::make_shared<Stream>(device, cuda_stream, std::move(allocate),
                                            std::move(release));
          },
          "device"_a, "cuda_stream"_a, "allocate"_a = nb::none(), "release"_a = nb::none(),
          "A CUDA stream of the caller's, by its cudaStream_t as an integer. allocate(bytes) "
          "returns an address aligned to 256 bytes, or None; release(address, bytes) frees it.")
      .def_prop_ro("device", &Stream::device)
      .def("synchronize", &Stream::synchronize, "Waits until all queued work is done.")
      .def("upload", &Stream::upload, "device_pointer"_a, "host_pointer"_a, "bytes"_a)
      .def("download", &Stream::download, "host_pointer"_a, "device_pointer"_a, "bytes"_a);
}

}  // namespace sluice::python
