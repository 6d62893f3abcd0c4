#include "distributed/mpi/mpi_window.h"

#include <algorithm>
#include <cstring>

#include "distributed/mpi/mpi_call.h"

namespace sluice::distributed::mpi {
namespace {

using runtime::Context;
using runtime::Tensor;

/// Memory that others reach by MPI's one-sided calls.
class MpiWindow final : public Window {
 public:
  MpiWindow(MPI_Comm ranks, std::int64_t rank, std::size_t bytes, std::size_t numbers)
      : bytes_(bytes) {
    check(MPI_Comm_dup(ranks, &ranks_), "make a communicator");
    memory_ = allocate(bytes, 1);
    numbers_ = allocate(rank == 0 ? numbers * sizeof(std::int64_t) : 0, sizeof(std::int64_t));
    check(MPI_Barrier(ranks_), "wait for all ranks");
    check(MPI_Win_lock_all(0, numbers_), "open numbers for all ranks");
  }
  void finish() override {
    check(MPI_Win_unlock_all(numbers_), "end the numbers of all ranks");
    check(MPI_Win_free(&numbers_), "give memory back");
    check(MPI_Win_free(&memory_), "give memory back");
    check(MPI_Comm_free(&ranks_), "give a communicator back");
  }
  MpiWindow(const MpiWindow&) = delete;
  MpiWindow& operator=(const MpiWindow&) = delete;

  void lock(std::int64_t owner) override {
    check(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, static_cast<int>(owner), 0, memory_),
          "hold a rank's memory");
  }
  void unlock(const Context& context, std::int64_t owner) override {
    // The stream does nothing in this memory on its own: copies are done already.
    check(MPI_Win_unlock(static_cast<int>(owner), memory_), "let a rank's memory go");
    context.synchronize();
  }

  void get(const Context& context, std::int64_t owner, std::size_t offset,
           const Tensor& to) override {
    context.synchronize();
    each_piece(to, offset, [&](std::byte* memory, int count, MPI_Aint place) {
      check(MPI_Get(memory, count, MPI_BYTE, static_cast<int>(owner), place, count, MPI_BYTE,
                    memory_),
            "read a rank's memory");
    });
    check(MPI_Win_flush(static_cast<int>(owner), memory_), "read a rank's memory");
  }
  void put(const Context& context, std::int64_t owner, std::size_t offset,
           const Tensor& from) override {
    context.synchronize();
    each_piece(from, offset, [&](const std::byte* memory, int count, MPI_Aint place) {
      check(MPI_Put(memory, count, MPI_BYTE, static_cast<int>(owner), place, count, MPI_BYTE,
                    memory_),
            "write a rank's memory");
    });
    check(MPI_Win_flush(static_cast<int>(owner), memory_), "write a rank's memory");
  }

  std::int64_t add(std::size_t number, std::int64_t amount) override {
    std::int64_t before = 0;
    check(MPI_Fetch_and_op(&amount, &before, MPI_INT64_T, 0, static_cast<MPI_Aint>(number), MPI_SUM,
                           numbers_),
          "add to a number");
    check(MPI_Win_flush(0, numbers_), "add to a number");
    return before;
  }

 private:
  /// Others count in units of so many bytes.
  MPI_Win allocate(std::size_t bytes, int unit) const {
    void* memory = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    const int status = MPI_Win_allocate(static_cast<MPI_Aint>(bytes), unit, MPI_INFO_NULL, ranks_,
                                        &memory, &window);
    if (status != MPI_SUCCESS) {
      base::fail(ErrorCode::kUnsupported,
                 "MPI gives no memory that all ranks reach, as distributed.mode = async needs: its "
                 "ranks must run on one machine, or on a network with remote memory access");
    }
    check(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN), "have errors returned");
    if (bytes > 0) std::memset(memory, 0, bytes);
    return window;
  }

  template <typename Work>
  void each_piece(const Tensor& tensor, std::size_t offset, Work work) const {
    check_in_window(tensor, offset, bytes_);
    auto* first = static_cast<std::byte*>(tensor.data());
    for (std::size_t begin = 0; begin < tensor.byte_size(); begin += kMostBytes) {
      work(first + begin, static_cast<int>(std::min(kMostBytes, tensor.byte_size() - begin)),
           static_cast<MPI_Aint>(offset + begin));
    }
  }

  MPI_Comm ranks_ = MPI_COMM_NULL;
  std::size_t bytes_;
  MPI_Win memory_ = MPI_WIN_NULL, numbers_ = MPI_WIN_NULL;
};

}  // namespace

std::unique_ptr<Window> open_window(MPI_Comm ranks, std::int64_t rank, std::size_t bytes,
                                    std::size_t numbers) {
  return std::make_unique<MpiWindow>(ranks, rank, bytes, numbers);
}

}  // namespace sluice::distributed::mpi
