#pragma once

#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "models/part_plan.h"
#include "models/state_rows.h"
#include "serving/piece_runs.h"
#include "serving/slot_pool.h"

namespace sluice::serving {

/// Runs pieces through a model that reads forward only, answers each step, and has PartPlans: a
/// stack on features or a tagger. The states stay on the device, in a SlotPool. Batches have 1, 2,
/// 4, 8, ... rows, with a plan for each size; the plans share the packed weights. The parameters
/// must not change while it lives.
class PieceRunner final : public PieceRuns {
 public:
  /// `stack` is the architecture of the model's stack. `refusal` is refuse_parts() of the model's
  /// configuration. Throws ErrorCode::kUnsupported if it is not empty, or if the model has no
  /// PartPlans.
  PieceRunner(const Context& context, const models::Model& model,
              const kernels::recurrent::Descriptor& stack, std::int64_t features,
              const Capacity& capacity, std::string_view refusal);
  ~PieceRunner() override;

  const Capacity& capacity() const override { return capacity_; }
  std::int64_t features() const override { return features_; }
  std::vector<PieceAnswer> run(const Context& context, std::span<const Piece> pieces) override;
  io::TensorTable state(const Context& context, std::int32_t slot) override;
  void set_state(const Context& context, std::int32_t slot, const io::TensorTable& state) override;

 private:
  /// A plan for batches of so many rows, with the tensors that a batch is copied to.
  struct Bucket;

  /// Uploads the number of a slot.
  Tensor index_of(const Context& context, std::int32_t slot);
  Bucket& bucket_of(const Context& context, std::int64_t pieces);
  void upload(const Context& context, const Bucket& bucket, std::span<const Piece> pieces,
              std::int64_t time) const;
  std::vector<PieceAnswer> download(const Context& context, const Tensor& answers,
                                    std::span<const Piece> pieces) const;

  const models::Model& model_;
  std::int64_t features_;
  Capacity capacity_;
  runtime::PackedWeights weights_;
  SlotPool pool_;
  models::StateRows from_, to_;
  std::map<std::int64_t, std::unique_ptr<Bucket>> buckets_;  ///< by rows
};

}  // namespace sluice::serving
