#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "io/host_tensor.h"
#include "models/part_plan.h"
#include "models/step_model.h"
#include "serving/slot_pool.h"

namespace sluice::serving {

/// The next steps of a sequence.
struct Piece {
  std::int32_t slot = 0;  ///< of the pool, where the sequence's states are
  bool first = false;     ///< the sequence begins here
  std::int64_t steps = 0;
  std::span<const float> frames = {};         ///< [steps, features]; of a model on features
  std::span<const std::int32_t> tokens = {};  ///< [steps]; of a model on tokens
};

/// What a model says of a piece.
struct PieceAnswer {
  std::vector<float> values;         ///< [steps, width]; of a model that gives numbers
  std::vector<std::int32_t> labels;  ///< [steps]; of a model that gives labels
};

/// Runs pieces of many sequences at once through a model that reads forward only, answers each
/// step, and has PartPlans: a stack on features or a tagger. The states stay on the device, in a
/// SlotPool. Rows of a batch are 1, 2, 4, 8 and so on, with a plan for each; they share the packed
/// weights. Not thread-safe. The parameters must not change while it lives.
class PieceRunner {
 public:
  struct Capacity {
    std::int64_t slots = 0;  ///< sequences whose states are kept
    std::int64_t rows = 0;   ///< pieces that run at once
    std::int64_t time = 0;   ///< steps of a piece
  };

  /// `stack` is the architecture of the model's; frames have `features` numbers, tokens 0.
  PieceRunner(const Context& context, const models::Model& model,
              const kernels::recurrent::Descriptor& stack, std::int64_t features,
              const Capacity& capacity);
  ~PieceRunner();

  const Capacity& capacity() const { return capacity_; }

  /// Frames have so many numbers; 0: the model reads tokens.
  std::int64_t features() const { return features_; }

  /// The answers in the order of the pieces, of which no two may have the same slot.
  std::vector<PieceAnswer> run(const Context& context, std::span<const Piece> pieces);

  /// The states in a slot, on the host, and states put back into any slot: bit for bit.
  io::TensorTable state(const Context& context, std::int32_t slot);
  void set_state(const Context& context, std::int32_t slot, const io::TensorTable& state);

 private:
  /// A plan for batches of so many rows, with the tensors that a batch is copied to.
  struct Bucket;

  /// The first row of from_, by name.
  std::vector<models::StateTensor> first_row() const;
  /// `slot` on the device.
  Tensor index_of(const Context& context, std::int32_t slot);
  Bucket& bucket_of(const Context& context, std::int64_t pieces);
  void upload(const Context& context, const Bucket& bucket, std::span<const Piece> pieces,
              std::int64_t time) const;
  std::vector<PieceAnswer> download(const Context& context, const Tensor& answers,
                                    std::span<const Piece> pieces) const;

  const models::Model& model_;
  const kernels::recurrent::Descriptor& stack_;
  std::int64_t features_;
  Capacity capacity_;
  runtime::PackedWeights weights_;
  SlotPool pool_;
  StateRows from_, to_;
  std::map<std::int64_t, std::unique_ptr<Bucket>> buckets_;  ///< by their rows
};

}  // namespace sluice::serving
