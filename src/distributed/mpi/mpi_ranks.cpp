#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "base/check.h"
#include "distributed/mpi/mpi_call.h"
#include "distributed/mpi/mpi_window.h"
#include "distributed/mpi_part.h"
#include "distributed/reduce.h"
#include "runtime/build_id.h"

namespace sluice::distributed {
namespace {

using mpi::check;
using mpi::kMostBytes;

// A sum takes as much memory again.
constexpr std::int64_t kMostElements = std::int64_t{1} << 22;

/// The shares of all ranks, in bytes.
struct Shares {
  std::vector<int> counts, offsets;

  Shares(std::int64_t elements, std::size_t size, std::int64_t ranks) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Share share = share_of(elements, rank, ranks);
      counts.push_back(static_cast<int>(static_cast<std::size_t>(share.end - share.begin) * size));
      offsets.push_back(static_cast<int>(static_cast<std::size_t>(share.begin) * size));
    }
  }
};

/// Each rank gets its share of the elements of all ranks and adds them up in the order of ranks.
void reduce_shares(MPI_Comm ranks, std::int64_t rank, std::int64_t count, std::byte* values,
                   const Shares& shares, base::DType dtype) {
  const int own = shares.counts[static_cast<std::size_t>(rank)];
  const std::vector<int> own_counts(static_cast<std::size_t>(count), own);
  std::vector<int> places;
  for (std::int64_t other = 0; other < count; ++other) {
    places.push_back(own * static_cast<int>(other));
  }
  std::vector<std::byte> all(static_cast<std::size_t>(own) * static_cast<std::size_t>(count));
  check(MPI_Alltoallv(values, shares.counts.data(), shares.offsets.data(), MPI_BYTE, all.data(),
                      own_counts.data(), places.data(), MPI_BYTE, ranks),
        "exchange the shares of a sum");
  for (std::int64_t other = 1; other < count; ++other) {
    reduce_into(all.data(), all.data() + places[static_cast<std::size_t>(other)], dtype,
                own / static_cast<std::int64_t>(base::size_of(dtype)));
  }
  std::copy_n(all.begin(), own, values + shares.offsets[static_cast<std::size_t>(rank)]);
}

/// Gives all ranks the shares of all.
void gather_shares(MPI_Comm ranks, std::byte* values, const Shares& shares) {
  check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, values, shares.counts.data(),
                       shares.offsets.data(), MPI_BYTE, ranks),
        "give the shares to all ranks");
}

class MpiRank final : public Communicator {
 public:
  MpiRank() {
    int provided = 0, started = 0;
    check(MPI_Initialized(&started), "tell whether it has started");
    if (started != 0) {
      check(MPI_Query_thread(&provided), "tell what threads may do");
    } else {
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "start");
      ends_mpi_ = true;
    }
    // Work of a device meets apart from what hosts say, in whatever thread it runs.
    check(MPI_Comm_dup(MPI_COMM_WORLD, &device_), "make a communicator");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &host_), "make a communicator");
    for (const MPI_Comm one : {device_, host_}) {
      check(MPI_Comm_set_errhandler(one, MPI_ERRORS_RETURN), "have errors returned");
    }
    int rank = 0, size = 1;
    check(MPI_Comm_rank(host_, &rank), "tell the rank");
    check(MPI_Comm_size(host_, &size), "tell the number of ranks");
    rank_ = rank;
    size_ = size;
    if (provided < MPI_THREAD_MULTIPLE) {
      base::fail(ErrorCode::kUnsupported,
                 "this MPI was built without threads (MPI_THREAD_MULTIPLE); take one with them");
    }
  }
  ~MpiRank() override {
    int ended = 0;
    MPI_Finalized(&ended);
    if (ends_mpi_ && ended == 0) MPI_Finalize();
  }
  MpiRank(const MpiRank&) = delete;
  MpiRank& operator=(const MpiRank&) = delete;

  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return size_; }

  void all_reduce(const Context& context, const Tensor& values, Reduction reduction) override {
    check_reduction(values, reduction);
    launch(context, [=, this] {
      const std::size_t size = base::size_of(values.dtype());
      for (std::int64_t begin = 0; begin < values.element_count(); begin += kMostElements) {
        std::byte* some =
            static_cast<std::byte*>(values.data()) + static_cast<std::size_t>(begin) * size;
        const Shares shares(std::min(kMostElements, values.element_count() - begin), size, size_);
        reduce_shares(device_, rank_, size_, some, shares, values.dtype());
        gather_shares(device_, some, shares);
      }
    });
  }

  void reduce_scatter(const Context& context, const Tensor& values) override {
    check_reduction(values, Reduction::kSum);
    each_piece(context, values, [this, values](std::byte* first, const Shares& shares) {
      reduce_shares(device_, rank_, size_, first, shares, values.dtype());
    });
  }

  void all_gather(const Context& context, const Tensor& values) override {
    each_piece(context, values, [this](std::byte* first, const Shares& shares) {
      gather_shares(device_, first, shares);
    });
  }

  void broadcast(const Context& context, const Tensor& values, std::int64_t root) override {
    SLUICE_CHECK(values.is_contiguous() && root >= 0 && root < size_,
                 "a broadcast is of a contiguous tensor, from a rank");
    launch(context, [=, this] {
      for (std::size_t begin = 0; begin < values.byte_size(); begin += kMostBytes) {
        check(MPI_Bcast(static_cast<std::byte*>(values.data()) + begin,
                        static_cast<int>(std::min(kMostBytes, values.byte_size() - begin)),
                        MPI_BYTE, static_cast<int>(root), device_),
              "give what a rank has to all");
      }
    });
  }

  std::unique_ptr<Window> open_window(const Context& context, std::size_t bytes,
                                      std::size_t numbers) override {
    check_host(context);
    return mpi::open_window(host_, rank_, bytes, numbers);
  }

  std::vector<std::string> exchange(std::string_view own) override {
    std::vector<int> counts(static_cast<std::size_t>(size_));
    const int count = static_cast<int>(std::min(own.size(), kMostBytes));
    check(MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, host_), "exchange sizes");
    std::vector<int> offsets;
    std::int64_t total = 0;
    for (const int one : counts) {
      offsets.push_back(static_cast<int>(total));
      total += one;
    }
    if (total > std::numeric_limits<int>::max() || own.size() > kMostBytes) {
      base::fail(ErrorCode::kUnsupported, "ranks can't exchange {} bytes over MPI at once", total);
    }
    std::string all(static_cast<std::size_t>(total), ' ');
    check(MPI_Allgatherv(own.data(), count, MPI_BYTE, all.data(), counts.data(), offsets.data(),
                         MPI_BYTE, host_),
          "exchange words");
    std::vector<std::string> said;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      said.push_back(all.substr(static_cast<std::size_t>(offsets[rank]),
                                static_cast<std::size_t>(counts[rank])));
    }
    return said;
  }

  void abort(const Error& error) noexcept override {
    // Where several fail alike, the first of them says so and ends the others meanwhile, for which
    // mpirun takes more than a second.
    std::this_thread::sleep_for(std::min<std::int64_t>(rank_, 5) * std::chrono::seconds(3));
    std::fprintf(stderr, "sluice: error: rank %lld: %s\n", static_cast<long long>(rank_),
                 error.what());
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);
  }

 private:
  /// Queues work(elements, shares) on so much of all parts of `values` at a time as MPI can count.
  template <typename Work>
  void each_piece(const Context& context, const Tensor& values, Work work) {
    check_parts(values, size_);
    launch(context, [=, this] {
      const std::size_t size = base::size_of(values.dtype());
      const std::int64_t part = values.element_count() / size_;
      const std::int64_t most = std::max<std::int64_t>(1, kMostElements / size_);
      std::vector<std::byte> piece;
      for (std::int64_t begin = 0; begin < part; begin += most) {
        const std::int64_t count = std::min(most, part - begin);
        const std::size_t bytes = static_cast<std::size_t>(count) * size;
        piece.resize(bytes * static_cast<std::size_t>(size_));
        const auto place = [&](std::int64_t rank) {
          return static_cast<std::byte*>(values.data()) +
                 static_cast<std::size_t>(rank * part + begin) * size;
        };
        for (std::int64_t rank = 0; rank < size_; ++rank) {
          std::copy_n(place(rank), bytes, piece.data() + static_cast<std::size_t>(rank) * bytes);
        }
        work(piece.data(), Shares(count * size_, size, size_));
        for (std::int64_t rank = 0; rank < size_; ++rank) {
          std::copy_n(piece.data() + static_cast<std::size_t>(rank) * bytes, bytes, place(rank));
        }
      }
    });
  }

  static void check_host(const Context& context) {
    SLUICE_CHECK(context.device().runs_host_kernels(), "ranks of MPI run on CPUs, not on {}",
                 context.device().name());
  }

  template <typename Work>
  void launch(const Context& context, Work work) {
    check_host(context);
    context.stream().launch(std::move(work));
  }

  MPI_Comm device_ = MPI_COMM_NULL, host_ = MPI_COMM_NULL;
  std::int64_t rank_ = 0, size_ = 1;
  bool ends_mpi_ = false;  ///< a program that started MPI itself ends it
};

std::unique_ptr<Communicator> start() { return std::make_unique<MpiRank>(); }

}  // namespace
}  // namespace sluice::distributed

extern "C" [[gnu::visibility("default")]] const sluice::runtime::Part* sluice_mpi_part() {
  static const sluice::distributed::MpiPart part{{sluice::runtime::build_id()},
                                                 sluice::distributed::start};
  return &part;
}
