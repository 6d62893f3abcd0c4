#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/model.h"
#include "unit/support/on_device.h"

namespace sluice::models {

/// Numbers of tests/peers/losses.py: what the data of a golden's batch is drawn from.
class Numbers {
 public:
  explicit Numbers(std::int64_t batch) : state_((1000003 * (batch + 1) + 17) % 2147483647) {}

  std::int64_t draw(std::int64_t below) {
    state_ = state_ * 48271 % 2147483647;
    return state_ % below;
  }
  /// A token that is none of the four special ones.
  std::int32_t token(std::int64_t vocabulary) {
    return static_cast<std::int32_t>(4 + draw(vocabulary - 4));
  }
  /// In [-1, 1].
  float number() { return static_cast<float>(static_cast<double>(draw(2001) - 1000) / 1000); }

 private:
  std::int64_t state_;
};

/// Models of one kind that learn for a hundred steps as the same models have learnt in torch, from
/// the same initial weights and data and without dropout: tests/peers/SCRIPT.py writes the cases
/// and their losses to goldens/SCRIPT.json. In float32 each loss is torch's. Of other precisions
/// goldens/rounded_losses.json has what plain code that rounds as they do errs by, epoch by epoch,
/// and losses may differ from torch's by twice that.
class FirstLosses : public sluice::testing::OnDevice {
 protected:
  using Json = nlohmann::json;

  FirstLosses() { set_threads(1); }  // there is too little work to share

  virtual std::string script() const = 0;
  /// Of a golden's configuration; without memory.
  virtual std::unique_ptr<Model> model_of(const Json& golden) const = 0;
  /// What is set beside the initial weights, in the context's precision.
  virtual void prepare(const Json& /*golden*/, Model& /*model*/) {}
  /// The batch as the script draws it.
  virtual Batch batch_of(const Json& golden, std::int64_t index) = 0;
  /// That holds every batch.
  virtual Extent capacity_of(const Json& golden) const = 0;

  /// Every case in a precision (Precision::parse); skips what this device doesn't compute.
  void compare(const std::string& precision);
  /// Trains in float32 with small mistakes, each of which must show in every precision.
  void compare_mistakes();

 private:
  struct Mistake {
    std::string name;
    Json golden;                         ///< with another configuration than the script's
    std::vector<double> gate_bias = {};  ///< added to initial weights (layers::Initialization)
  };

  /// Of the script, each with its "errors" by precision.
  std::vector<Json> read_cases() const;
  static std::vector<Mistake> mistakes_of(const Json& golden);
  /// The loss per target of each step, before its update.
  std::vector<double> train(const Json& golden, const std::vector<double>& gate_bias = {});
};

}  // namespace sluice::models
