#include "distributed/cuda/shared_numbers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/check.h"

namespace sluice::distributed::cuda {
namespace {

/// A machine since it was started, and within it what shares /dev/shm.
std::string machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

void require_one_machine(Communicator& ranks) {
  const std::vector<std::string> machines = ranks.exchange(machine());
  if (std::ranges::all_of(machines, [&](const auto& one) { return one == machines.front(); }))
    return;
  base::fail(ErrorCode::kUnsupported,
             "distributed.mode = async needs the GPUs of one machine, and these ranks run on "
             "several; use mode sync or average");
}

/// A name in /dev/shm, which goes with this.
struct SharedName {
  std::string name;
  ~SharedName() {
    if (!name.empty()) shm_unlink(name.c_str());
  }
};

[[noreturn]] void fail_to_share(const std::string& name) {
  base::fail(ErrorCode::kIo,
             "ranks could not share memory as /dev/shm{}: {}; all must run in one container", name,
             std::strerror(errno));
}

}  // namespace

SharedNumbers::SharedNumbers(Communicator& ranks, std::size_t count)
    : ranks_(ranks.size()),
      count_(count),
      bytes_(count * sizeof(std::int64_t) +
             static_cast<std::size_t>(ranks.size()) * sizeof(pthread_mutex_t)) {
  require_one_machine(ranks);
  std::string name;
  SharedName own;
  if (ranks.rank() == 0) {
    name = fmt::format("/sluice-{}-{:x}", getpid(), reinterpret_cast<std::uintptr_t>(this));
    const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0) fail_to_share(name);
    own.name = name;
    if (ftruncate(file, static_cast<off_t>(bytes_)) != 0) {
      close(file);
      fail_to_share(name);
    }
    map(file);
    make_locks();
  }
  name = ranks.exchange(name).front();
  if (ranks.rank() != 0) {
    const int file = shm_open(name.c_str(), O_RDWR, 0);
    if (file < 0) fail_to_share(name);
    map(file);
  }
  ranks.exchange("");
  // The memory lives on without its name, and ends with the last process that has it.
}

SharedNumbers::~SharedNumbers() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

void SharedNumbers::map(int file) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  errno = error;
  if (memory == MAP_FAILED) fail_to_share("");
  memory_ = memory;
}

// Whoever waits for a process that died is told so, and doesn't wait for ever.
void SharedNumbers::make_locks() const {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  for (std::int64_t rank = 0; rank < ranks_; ++rank) pthread_mutex_init(&mutex_of(rank), &kind);
  pthread_mutexattr_destroy(&kind);
}

std::atomic<std::int64_t>& SharedNumbers::number(std::size_t which) const {
  SLUICE_ASSERT(which < count_);
  static_assert(sizeof(std::atomic<std::int64_t>) == sizeof(std::int64_t) &&
                std::atomic<std::int64_t>::is_always_lock_free);
  return static_cast<std::atomic<std::int64_t>*>(memory_)[which];
}

pthread_mutex_t& SharedNumbers::mutex_of(std::int64_t rank) const {
  SLUICE_ASSERT(rank >= 0 && rank < ranks_);
  auto* mutexes = reinterpret_cast<pthread_mutex_t*>(static_cast<std::byte*>(memory_) +
                                                     count_ * sizeof(std::int64_t));
  return mutexes[rank];
}

void SharedNumbers::lock(std::int64_t rank) const {
  if (pthread_mutex_lock(&mutex_of(rank)) == 0) return;
  base::fail(ErrorCode::kDevice, "a rank ended while it stepped the parameters of rank {}", rank);
}

void SharedNumbers::unlock(std::int64_t rank) const { pthread_mutex_unlock(&mutex_of(rank)); }

}  // namespace sluice::distributed::cuda
