#pragma once

#include <cstdint>
#include <vector>

#include "kernels/recurrent/recurrent.h"
#include "models/state_rows.h"

namespace sluice::serving {

using runtime::Context;
using runtime::Tensor;

/// The states of many sequences of one recurrent stack, each in its own slot on the device.
class SlotPool {
 public:
  /// `stack` is the architecture, `storage` the type of its h.
  SlotPool(const Context& context, const kernels::recurrent::Descriptor& stack,
           runtime::DType storage, std::int64_t slots);

  std::int64_t slots() const { return slots_; }
  /// An extra slot that always holds zeros. New sequences load it. Rows of a batch without a
  /// sequence load it and store zeros back, so several rows of one store() may name it.
  std::int32_t zero() const { return static_cast<std::int32_t>(slots_); }

  /// Row r of `to` = the states in slot which[r] (int32 [rows], on the device).
  void load(const Context& context, const Tensor& which, const models::StackStates& to) const;
  /// The states in slot which[r] = row r of `from`. Rows that name the same slot must be equal.
  void store(const Context& context, const models::StackStates& from, const Tensor& which) const;

 private:
  /// Tables [layers, rows, width] of states for so many rows: one, or where layers differ in
  /// width, one of each.
  std::vector<Tensor> tables(const Tensor& states, std::int64_t rows, bool is_h) const;

  std::int64_t slots_;
  models::StateRows rows_;
  kernels::recurrent::Descriptor stack_;
  models::StackStates states_;
};

}  // namespace sluice::serving
