#include "distributed/threads/thread_ranks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "distributed/reduce.h"
#include "distributed/threads/meeting.h"
#include "distributed/threads/thread_window.h"

namespace sluice::distributed::threads {
namespace {

using base::DType;

/// State shared by all ranks. Work on devices meets apart from the hosts, because it runs later.
struct Group {
  explicit Group(std::int64_t ranks)
      : size(ranks), device(ranks), host(ranks), locks(std::make_shared<Locks>(ranks)) {}

  std::int64_t size;
  Meeting<void*> device;
  Meeting<std::string> host;
  std::shared_ptr<Locks> locks;
  std::shared_ptr<Shared> shared;  ///< of a window that is being opened
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

  std::unique_ptr<Window> open_window(const Context& context, std::size_t bytes,
                                      std::size_t numbers) override {
    check_host(context);
    if (rank_ == 0) group_->shared = std::make_shared<Shared>(size(), bytes, numbers);
    exchange("");
    std::shared_ptr<Shared> shared = group_->shared;
    exchange("");
    if (rank_ == 0) group_->shared.reset();
    return make_window(group_->locks, std::move(shared));
  }

  std::vector<std::string> exchange(std::string_view own) override {
    return group_->host.meet(rank_, std::string(own));
  }

  void abort(const Error& error) noexcept override {
    try {
      group_->device.abort(error);
      group_->host.abort(error);
      group_->locks->abort(error);
    } catch (...) {
      std::terminate();  // others would wait forever
    }
  }

 private:
  static void check_host(const Context& context) {
    SLUICE_CHECK(context.device().runs_host_kernels(),
                 "ranks that are threads run on cpu or test, not on {}", context.device().name());
  }

  /// Queues `work` on the memory of all ranks. While it runs, the devices of all of them are in it.
  template <typename Work>
  void launch(const Context& context, const Tensor& values, Work work) {
    check_host(context);
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
