#pragma once

#include <vector>

#include "distributed/communicator.h"
#include "kernels/optimizer/marked_chunks.h"
#include "layers/parameters.h"

namespace sluice::training {

/// How ranks add up their gradients.
struct ExchangeOptions {
  /// Whether gradients are rounded to bfloat16 to travel: half as many bytes, sums of 8 bits.
  bool bfloat16 = false;
  /// Whether each rank steps its part of the parameters alone and gives it to the others.
  bool shard = false;
};

/// Adds up gradients and losses over all ranks, and hands out parameters where each rank steps its
/// own part of them. Of an embedding only rows that some rank has marked travel, if they are few.
/// All calls only queue.
class GradientExchange {
 public:
  /// `parameters` must be allocated with gradients; both must outlive this.
  GradientExchange(const runtime::Context& context, distributed::Communicator& ranks,
                   const layers::Parameters& parameters, const ExchangeOptions& options);

  /// Elements of the flat arenas that this rank steps: all of them, unless they are sharded.
  distributed::Share shard() const;

  /// Adds up the gradients of all ranks, and `sums`, the loss sums of each; afterwards this rank
  /// has the gradients of shard(). A gradient that one rank marked (kernels/gradient_marks.h) is
  /// marked on all. All ranks together marked at most `rows` rows of an embedding.
  void run(const runtime::Context& context, const runtime::Tensor& sums, std::int64_t rows);
  /// Makes a sum over shard() one over all elements.
  void all_reduce_norm(const runtime::Context& context, const runtime::Tensor& sum) const;
  /// Gives all ranks the parts of all, of a tensor of the arenas' size.
  void gather(const runtime::Context& context, const runtime::Tensor& arena) const;

 private:
  /// An embedding, of which steps mark few rows.
  struct Table {
    std::int64_t rows;
    std::int64_t chunks;           ///< of all rows
    std::int64_t chunks_of_a_row;  ///< at most
  };

  void divide();
  std::int64_t most_listed() const;
  void prepare_lists(const runtime::Context& context);
  std::int64_t most_chunks(std::int64_t rows) const;
  void all_reduce(const runtime::Context& context, const distributed::Share& range) const;
  void all_reduce_marked(const runtime::Context& context, std::int64_t chunks) const;
  void scatter(const runtime::Context& context) const;
  std::int64_t parts_end() const { return part_ * ranks_->size(); }

  distributed::Communicator* ranks_;
  const layers::Parameters* parameters_;
  bool shards_;
  std::int64_t part_;  ///< elements of a rank; the last one has what remains, too
  runtime::Buffer memory_;
  runtime::Tensor rounded_;  ///< bfloat16 [flat size]; absent in float32
  std::vector<Table> tables_;
  std::vector<distributed::Share> dense_;  ///< ranges of whole chunks that are always marked
  // For chunks of tables that travel, half of all at most. Absent until they are needed.
  runtime::Buffer list_memory_, packed_memory_;
  kernels::optimizer::MarkedChunks list_;
  void* list_workspace_ = nullptr;
  runtime::Tensor packed_;  ///< as gradients travel
};

}  // namespace sluice::training
