#pragma once

#include <cstdint>
#include <vector>

#include "kernels/recurrent/recurrent.h"
#include "models/part_plan.h"
#include "runtime/buffer.h"

namespace sluice::serving {

using runtime::Context;
using runtime::Tensor;

/// States for `rows` rows of a stack, in memory of their own.
class StateRows {
 public:
  StateRows(const Context& context, const kernels::recurrent::Descriptor& stack,
            runtime::DType storage, std::int64_t rows);
  /// The first `rows` of them.
  models::StackStates view(std::int64_t rows) const;

 private:
  kernels::recurrent::Descriptor stack_;
  runtime::DType storage_;
  std::size_t h_bytes_;
  runtime::Buffer memory_;
};

/// The states of many sequences of one recurrent stack, each in a slot of its own on the device.
class SlotPool {
 public:
  /// `stack` is the architecture, `storage` the type of its h.
  SlotPool(const Context& context, const kernels::recurrent::Descriptor& stack,
           runtime::DType storage, std::int64_t slots);

  std::int64_t slots() const { return slots_; }
  /// A slot beyond the others, whose states are zero: a sequence starts from it. Rows that no
  /// sequence has are stored there, with zeros.
  std::int32_t zero() const { return static_cast<std::int32_t>(slots_); }

  /// Row r of `to` = the states in slot which[r] (int32 [rows], on the device).
  void load(const Context& context, const Tensor& which, const models::StackStates& to) const;
  /// The states in slot which[r] = row r of `from`.
  void store(const Context& context, const models::StackStates& from, const Tensor& which) const;

 private:
  /// Tables [layers, rows, width] of states for so many rows: one, or where layers differ in
  /// width, one of each.
  std::vector<Tensor> tables(const Tensor& states, std::int64_t rows, bool is_h) const;

  std::int64_t slots_;
  StateRows rows_;
  kernels::recurrent::Descriptor stack_;
  models::StackStates states_;
};

}  // namespace sluice::serving
