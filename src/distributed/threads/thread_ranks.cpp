#include "distributed/threads/thread_ranks.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "distributed/reduce.h"

namespace sluice::distributed::threads {
namespace {

using base::DType;

/// Where all ranks wait for each other, each with something to show.
template <typename Shown>
class Meeting {
 public:
  explicit Meeting(std::int64_t ranks) {
    for (std::vector<Shown>& all : shown_) all.resize(static_cast<std::size_t>(ranks));
  }

  /// Waits until every rank has come, and returns what each showed.
  std::vector<Shown> meet(std::int64_t rank, Shown shown) {
    std::unique_lock lock(mutex_);
    if (error_) throw Error(*error_);
    const std::int64_t round = round_;
    // A rank that is slow to leave reads one of the two while the next round fills the other.
    std::vector<Shown>& all = shown_[round % 2];
    all[static_cast<std::size_t>(rank)] = std::move(shown);
    if (++present_ == std::ssize(all)) {
      present_ = 0;
      ++round_;
      changed_.notify_all();
      return all;
    }
    changed_.wait(lock, [&] { return round_ != round || error_; });
    if (round_ == round) throw Error(*error_);
    return all;
  }

  void abort(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::vector<Shown>, 2> shown_;
  std::int64_t present_ = 0;
  std::int64_t round_ = 0;
  std::optional<Error> error_;
};

/// State shared by all ranks. Work on devices meets apart from the hosts, because it runs later.
struct Group {
  explicit Group(std::int64_t ranks) : size(ranks), device(ranks), host(ranks) {}

  std::int64_t size;
  Meeting<void*> device;
  Meeting<std::string> host;
};

/// Reduces a share of the elements of all ranks, in the memory of all of them.
void reduce(const std::vector<void*>& ranks, DType dtype, Share share) {
  const std::size_t size = base::size_of(dtype);
  const auto place = [&](void* rank) {
    return static_cast<std::byte*>(rank) + static_cast<std::size_t>(share.begin) * size;
  };
  const std::int64_t count = share.end - share.begin;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    reduce_into(place(ranks[0]), place(ranks[rank]), dtype, count);
  }
  for (std::size_t rank = 1; rank < ranks.size() && count > 0; ++rank) {
    std::memcpy(place(ranks[rank]), place(ranks[0]), static_cast<std::size_t>(count) * size);
  }
}

class ThreadRank final : public Communicator {
 public:
  ThreadRank(std::shared_ptr<Group> group, std::int64_t rank)
      : group_(std::move(group)), rank_(rank) {}

  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return group_->size; }

  void all_reduce(const Context& context, const Tensor& values, Reduction reduction) override {
    check_reduction(values, reduction);
    const Share share = share_of(values.element_count(), rank_, group_->size);
    launch(context, values, [dtype = values.dtype(), share](const std::vector<void*>& ranks) {
      reduce(ranks, dtype, share);
    });
  }

  void reduce_scatter(const Context& context, const Tensor& values) override {
    check_reduction(values, Reduction::kSum);
    check_parts(values, size());
    const Share share = share_of(values.element_count(), rank_, size());
    launch(context, values, [dtype = values.dtype(), share](const std::vector<void*>& ranks) {
      reduce(ranks, dtype, share);
    });
  }

  void all_gather(const Context& context, const Tensor& values) override {
    check_parts(values, size());
    launch(context, values,
           [rank = rank_, bytes = values.byte_size()](const std::vector<void*>& ranks) {
             const std::size_t part = bytes / ranks.size();
             for (std::size_t other = 0; other < ranks.size(); ++other) {
               if (other == static_cast<std::size_t>(rank) || part == 0) continue;
               const auto place = [&](void* memory) {
                 return static_cast<std::byte*>(memory) + other * part;
               };
               std::memcpy(place(ranks[static_cast<std::size_t>(rank)]), place(ranks[other]), part);
             }
           });
  }

  void broadcast(const Context& context, const Tensor& values, std::int64_t root) override {
    SLUICE_CHECK(values.is_contiguous() && root >= 0 && root < group_->size,
                 "a broadcast is of a contiguous tensor, from a rank");
    launch(context, values,
           [rank = rank_, root, bytes = values.byte_size()](const std::vector<void*>& ranks) {
             void* own = ranks[static_cast<std::size_t>(rank)];
             if (rank != root && bytes > 0) {
               std::memcpy(own, ranks[static_cast<std::size_t>(root)], bytes);
             }
           });
  }

  std::vector<std::string> exchange(std::string_view own) override {
    return group_->host.meet(rank_, std::string(own));
  }

  void abort(const Error& error) noexcept override {
    try {
      group_->device.abort(error);
      group_->host.abort(error);
    } catch (...) {
      std::terminate();  // others would wait forever
    }
  }

 private:
  /// Queues `work` on the memory of all ranks. While it runs, the devices of all of them are in it.
  template <typename Work>
  void launch(const Context& context, const Tensor& values, Work work) {
    SLUICE_CHECK(context.device().runs_host_kernels(),
                 "ranks that are threads run on cpu or test, not on {}", context.device().name());
    context.stream().launch(
        [group = group_, rank = rank_, own = values.data(), work = std::move(work)] {
          work(group->device.meet(rank, own));
          group->device.meet(rank, nullptr);  // before anybody's memory changes
        });
  }

  std::shared_ptr<Group> group_;
  std::int64_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_ranks(std::int64_t count) {
  SLUICE_CHECK(count >= 1, "a run can't have {} ranks", count);
  const auto group = std::make_shared<Group>(count);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (std::int64_t rank = 0; rank < count; ++rank) {
    ranks.push_back(std::make_unique<ThreadRank>(group, rank));
  }
  return ranks;
}

}  // namespace sluice::distributed::threads
