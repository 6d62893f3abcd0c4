#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "distributed/window.h"
#include "runtime/context.h"
#include "sluice/error.h"

/// Communication between the ranks of a run: copies of one program, each with a device of its own,
/// that work on one task.
namespace sluice::distributed {

using runtime::Context;
using runtime::Tensor;

enum class Reduction {
  kSum,  ///< of float32, float64 or bfloat16, whose partial sums are bfloat16 as well
  kMax   ///< of uint8
};

/// One rank's access to all ranks. Every rank must call the same functions in the same order.
///
/// Collectives take a Context and queue their work on its stream, as operations do. Their tensors
/// are contiguous, with one dtype and one size on all ranks. Where a rank has failed, the others
/// throw its error: from exchange() at once, from queued work when the stream is synchronised.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::int64_t rank() const = 0;  ///< in [0, size())
  virtual std::int64_t size() const = 0;

  /// Reduces the values of all ranks, in place. All ranks get the same bits, whichever rank comes
  /// first: on hosts sums go in the order of ranks, on GPUs in an order of NCCL's.
  virtual void all_reduce(const Context& context, const Tensor& values, Reduction reduction) = 0;
  /// The halves of a sum by all_reduce, in place. `values` are size() equal parts. After
  /// reduce_scatter rank r has the sums of part r, and in the other parts nothing that is defined.
  virtual void reduce_scatter(const Context& context, const Tensor& values) = 0;
  /// Gives all ranks part r of rank r.
  virtual void all_gather(const Context& context, const Tensor& values) = 0;
  /// Gives all ranks the values of rank `root`.
  virtual void broadcast(const Context& context, const Tensor& values, std::int64_t root) = 0;

  /// Opens a window with `bytes` of each rank, on the context's device, and so many numbers.
  /// All ranks must call it with the same sizes. Throws ErrorCode::kUnsupported where ranks have no
  /// way into each other's memory.
  virtual std::unique_ptr<Window> open_window(const Context&, std::size_t /*bytes*/,
                                              std::size_t /*numbers*/) {
    base::fail(
        ErrorCode::kUnsupported,
        "these ranks can't reach each other's memory, as distributed.mode = async needs: use "
        "GPUs of one machine, --devices cpu,cpu, or mpirun without MASTER_ADDR");
  }

  /// Returns the text of each rank, by rank. Waits for all of them.
  virtual std::vector<std::string> exchange(std::string_view own) = 0;

  /// Ends the work of all ranks: whoever waits for this one, now or later, throws this error. Of
  /// several the first counts. Ranks that are processes print it and end.
  virtual void abort(const Error& error) noexcept = 0;
};

/// Returns the text of rank 0.
std::string from_first(Communicator& ranks, std::string_view own);

/// Whether it is true on some rank.
bool any(Communicator& ranks, bool own);

/// Throws ErrorCode::kInvalidArgument on all ranks, naming `what` and the first rank that differs,
/// unless all ranks say the same.
void agree(Communicator& ranks, std::string_view what, std::string_view own);

/// An exception as other ranks hear of it.
Error error_of(const std::exception_ptr& thrown);

/// Returns the result of `work`, which is a rank's. If it throws, the other ranks end, too. `rank`
/// is null where there is no other.
template <typename Work>
auto as_rank(Communicator* rank, const Work& work) {
  if (rank == nullptr) return work();
  try {
    return work();
  } catch (...) {
    rank->abort(error_of(std::current_exception()));
    throw;
  }
}

/// The share of `count` elements that rank `rank` works on: [begin, end), in order, without gaps.
struct Share {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
inline Share share_of(std::int64_t count, std::int64_t rank, std::int64_t ranks) {
  return {count * rank / ranks, count * (rank + 1) / ranks};
}

/// Refuses a tensor that all_reduce does not take.
inline void check_reduction(const Tensor& values, Reduction reduction) {
  const runtime::DType dtype = values.dtype();
  SLUICE_CHECK(values.is_contiguous(), "ranks reduce contiguous tensors");
  SLUICE_CHECK(reduction == Reduction::kSum
                   ? dtype == runtime::DType::kFloat32 || dtype == runtime::DType::kFloat64 ||
                         dtype == runtime::DType::kBFloat16
                   : dtype == runtime::DType::kUInt8,
               "ranks don't reduce {} this way", base::name_of(dtype));
}

/// Refuses a tensor that can't be cut into so many equal parts.
inline void check_parts(const Tensor& values, std::int64_t ranks) {
  SLUICE_CHECK(values.is_contiguous() && values.element_count() % ranks == 0,
               "{} elements do not divide into {} equal parts", values.element_count(), ranks);
}

}  // namespace sluice::distributed
