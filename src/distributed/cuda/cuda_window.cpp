#include "distributed/cuda/cuda_window.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "distributed/cuda/shared_numbers.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/current_device.h"

namespace sluice::distributed::cuda {
namespace {

using runtime::cuda::check;
using runtime::cuda::CurrentDevice;

struct Unlock {
  const SharedNumbers& numbers;
  std::int64_t owner;
  ~Unlock() { numbers.unlock(owner); }
};

class CudaWindow final : public Window {
 public:
  CudaWindow(Communicator& ranks, int gpu, std::size_t bytes, std::size_t numbers)
      : ranks_(&ranks),
        numbers_(ranks, numbers),
        rank_(static_cast<std::size_t>(ranks.rank())),
        gpu_(gpu),
        bytes_(bytes),
        memory_(static_cast<std::size_t>(ranks.size())) {
    const CurrentDevice current(gpu_);
    // Memory of a Buffer may come from a pool, which other processes can't be shown.
    check(cudaMalloc(&memory_[rank_], bytes), "allocate memory for all ranks");
    check(cudaMemset(memory_[rank_], 0, bytes), "clear memory for all ranks");
    check(cudaDeviceSynchronize(), "clear memory for all ranks");
    cudaIpcMemHandle_t own;
    check(cudaIpcGetMemHandle(&own, memory_[rank_]), "show memory to other processes");
    const std::vector<std::string> handles =
        ranks.exchange({reinterpret_cast<const char*>(&own), sizeof own});
    for (std::size_t rank = 0; rank < handles.size(); ++rank) {
      if (rank == rank_) continue;
      cudaIpcMemHandle_t handle;
      SLUICE_ASSERT(handles[rank].size() == sizeof handle);
      std::memcpy(&handle, handles[rank].data(), sizeof handle);
      check(cudaIpcOpenMemHandle(&memory_[rank], handle, cudaIpcMemLazyEnablePeerAccess),
            "reach the memory of another rank's GPU");
    }
    ranks.exchange("");
  }

  void finish() override {
    const CurrentDevice current(gpu_);
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      if (rank != rank_) check(cudaIpcCloseMemHandle(memory_[rank]), "close another rank's memory");
    }
    ranks_->exchange("");  // nobody has it open any more
    check(cudaFree(memory_[rank_]), "give memory back");
  }
  CudaWindow(const CudaWindow&) = delete;
  CudaWindow& operator=(const CudaWindow&) = delete;

  void lock(std::int64_t owner) override { numbers_.lock(owner); }
  void unlock(const Context& context, std::int64_t owner) override {
    const Unlock at_end{numbers_, owner};
    context.synchronize();
  }
  void get(const Context& context, std::int64_t owner, std::size_t offset,
           const Tensor& to) override {
    copy(context, to.data(), place(owner, offset, to), to.byte_size());
  }
  void put(const Context& context, std::int64_t owner, std::size_t offset,
           const Tensor& from) override {
    copy(context, place(owner, offset, from), from.data(), from.byte_size());
  }
  std::int64_t add(std::size_t number, std::int64_t amount) override {
    return numbers_.number(number).fetch_add(amount);
  }

 private:
  std::byte* place(std::int64_t owner, std::size_t offset, const Tensor& tensor) const {
    check_in_window(tensor, offset, bytes_);
    return static_cast<std::byte*>(memory_.at(static_cast<std::size_t>(owner))) + offset;
  }
  void copy(const Context& context, void* to, const void* from, std::size_t bytes) const {
    const CurrentDevice current(gpu_);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
                          runtime::cuda::handle_of(context.stream())),
          "copy memory of another rank");
  }

  Communicator* ranks_;
  SharedNumbers numbers_;
  std::size_t rank_;
  int gpu_;
  std::size_t bytes_;
  std::vector<void*> memory_;  ///< of each rank, as this process sees it
};

}  // namespace

std::unique_ptr<Window> open_window(Communicator& ranks, int gpu, std::size_t bytes,
                                    std::size_t numbers) {
  return std::make_unique<CudaWindow>(ranks, gpu, bytes, numbers);
}

}  // namespace sluice::distributed::cuda
