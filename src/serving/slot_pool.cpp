#include "serving/slot_pool.h"

#include "kernels/embedding/embedding.h"

namespace sluice::serving {
namespace recurrent = kernels::recurrent;
using models::StackStates;
using runtime::DType;

SlotPool::SlotPool(const Context& context, const recurrent::Descriptor& stack, DType storage,
                   std::int64_t slots)
    : slots_(slots), rows_(context, stack, storage, slots + 1), stack_(stack) {
  states_ = rows_.view(slots + 1);
  context.zero(states_.h);
  if (states_.c) context.zero(states_.c);
}

std::vector<Tensor> SlotPool::tables(const Tensor& states, std::int64_t rows, bool is_h) const {
  if (states.rank() == 3) return {states};
  std::vector<Tensor> parts;
  for (std::int64_t part = 0; part < stack_.layers * stack_.directions; ++part) {
    const std::int64_t layer = part / stack_.directions;
    const std::int64_t width = is_h ? stack_.output_of(layer) : stack_.hidden_of(layer);
    const std::int64_t first = is_h ? stack_.h_offset(part, rows) : stack_.c_offset(part, rows);
    parts.push_back(states.slice(0, first, first + rows * width).reshape({1, rows, width}));
  }
  return parts;
}

void SlotPool::load(const Context& context, const Tensor& which, const StackStates& to) const {
  const std::int64_t rows = which.size(0);
  std::vector<kernels::embedding::Picked> picked;
  const auto add = [&](const Tensor& pool, const Tensor& picks, bool is_h) {
    if (!pool) return;
    const std::vector<Tensor> from = tables(pool, slots_ + 1, is_h);
    const std::vector<Tensor> into = tables(picks, rows, is_h);
    for (std::size_t i = 0; i < from.size(); ++i) picked.push_back({from[i], which, into[i]});
  };
  add(states_.h, to.h, true);
  add(states_.c, to.c, false);
  kernels::embedding::gather_each(context, picked);
}

void SlotPool::store(const Context& context, const StackStates& from, const Tensor& which) const {
  const std::int64_t rows = which.size(0);
  std::vector<kernels::embedding::Placed> placed;
  const auto add = [&](const Tensor& pool, const Tensor& given, bool is_h) {
    if (!pool) return;
    const std::vector<Tensor> into = tables(pool, slots_ + 1, is_h);
    const std::vector<Tensor> out = tables(given, rows, is_h);
    for (std::size_t i = 0; i < into.size(); ++i) placed.push_back({out[i], which, into[i]});
  };
  add(states_.h, from.h, true);
  add(states_.c, from.c, false);
  kernels::embedding::scatter_each(context, placed);
}

}  // namespace sluice::serving
