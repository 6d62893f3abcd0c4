#include "kernels/recurrent/onednn/weights.h"

#include <algorithm>

namespace sluice::kernels::recurrent::onednn {
namespace {

using Member = Tensor LayerWeights::*;

/// Calls body(i, tensor) for each layer and direction i of the group whose tensor is there.
template <typename Body>
void each_layer(const Transfer& transfer, const std::vector<LayerWeights>& weights, Member member,
                const Body& body) {
  const std::int64_t directions = transfer.descriptor.directions;
  const LayerGroup& group = transfer.group;
  for (std::int64_t i = 0; i < group.count * directions; ++i) {
    const auto index = static_cast<std::size_t>(group.first * directions + i);
    if (const Tensor& tensor = weights[index].*member) body(i, tensor);
  }
}

/// One array in oneDNN's order of gates.
void gather(const Transfer& transfer, const std::vector<LayerWeights>& weights, Member member,
            std::int64_t width) {
  const Descriptor& d = transfer.descriptor;
  const std::int64_t block = d.hidden * width;
  each_layer(transfer, weights, member, [&](std::int64_t i, const Tensor& tensor) {
    const auto* from = tensor.data_as<const float>();
    for (std::int64_t gate = 0; gate < d.gates(); ++gate) {
      std::copy_n(from + gate * block, block,
                  transfer.staged + (i * d.gates() + position_of(d.cell, gate)) * block);
    }
  });
}

void add(float* to, const float* from, std::int64_t count) {
#pragma omp parallel for schedule(static) if (count > 65536)
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void store_or_add(float* to, const float* from, std::int64_t count, bool accumulate) {
  if (accumulate) return add(to, from, count);
  std::copy_n(from, count, to);
}

void scatter(const Transfer& transfer, const BackwardArgs& args, Member member,
             std::int64_t width) {
  const Descriptor& d = transfer.descriptor;
  const std::int64_t block = d.hidden * width;
  each_layer(transfer, args.gradients, member, [&](std::int64_t i, const Tensor& tensor) {
    auto* to = tensor.data_as<float>();
    for (std::int64_t gate = 0; gate < d.gates(); ++gate) {
      const std::int64_t from = i * d.gates() + position_of(d.cell, gate);
      store_or_add(to + gate * block, transfer.staged + from * block, block, args.accumulate);
    }
  });
}

/// Where oneDNN keeps a gate's bias. On the recurrent side the GRU's candidate has one of its own,
/// the last; all others are sums of both sides.
std::int64_t bias_of(CellType cell, std::int64_t gate, bool recurrent) {
  return cell == CellType::kGru && gate == 2 && recurrent ? 3 : position_of(cell, gate);
}

void add_biases(const Transfer& transfer, const std::vector<LayerWeights>& weights, bool recurrent,
                float* sums) {
  const Descriptor& d = transfer.descriptor;
  const Member member = recurrent ? &LayerWeights::bias_hh : &LayerWeights::bias_ih;
  each_layer(transfer, weights, member, [&](std::int64_t i, const Tensor& tensor) {
    for (std::int64_t gate = 0; gate < d.gates(); ++gate) {
      const std::int64_t at = i * kBiases + bias_of(d.cell, gate, recurrent);
      add(sums + at * d.hidden, tensor.data_as<const float>() + gate * d.hidden, d.hidden);
    }
  });
}

void collect_biases(const Transfer& transfer, const BackwardArgs& args, bool recurrent,
                    const float* sums) {
  const Descriptor& d = transfer.descriptor;
  const Member member = recurrent ? &LayerWeights::bias_hh : &LayerWeights::bias_ih;
  each_layer(transfer, args.gradients, member, [&](std::int64_t i, const Tensor& tensor) {
    for (std::int64_t gate = 0; gate < d.gates(); ++gate) {
      const std::int64_t at = i * kBiases + bias_of(d.cell, gate, recurrent);
      store_or_add(tensor.data_as<float>() + gate * d.hidden, sums + at * d.hidden, d.hidden,
                   args.accumulate);
    }
  });
}

}  // namespace

void pack_group(const Transfer& transfer, const std::vector<LayerWeights>& weights, void* packed) {
  const LayerGroup& group = transfer.group;
  auto* base = static_cast<std::byte*>(packed);
  const auto pack_one = [&](const PackedMatrix& one, Member member) {
    gather(transfer, weights, member, one.width);
    dnnl::memory from(one.canonical, transfer.engine, transfer.staged);
    dnnl::memory to(one.forward, transfer.engine, base + one.forward_offset);
    one.to_forward.execute(transfer.stream, from, to);
    if (!transfer.descriptor.training) return;
    dnnl::memory back(one.backward, transfer.engine, base + one.backward_offset);
    one.to_backward.execute(transfer.stream, from, back);
  };
  pack_one(group.weight_ih, &LayerWeights::weight_ih);
  pack_one(group.weight_hh, &LayerWeights::weight_hh);
  const Descriptor& d = transfer.descriptor;
  auto* bias = reinterpret_cast<float*>(base + group.bias);
  std::fill_n(bias, group.count * d.directions * kBiases * d.hidden, 0.0f);
  add_biases(transfer, weights, false, bias);
  add_biases(transfer, weights, true, bias);
}

void store_gradients(const Transfer& transfer, dnnl::memory weight_ih, dnnl::memory weight_hh,
                     const float* bias, const BackwardArgs& args) {
  const auto collect = [&](const PackedMatrix& one, dnnl::memory& from, Member member) {
    dnnl::memory to(one.canonical, transfer.engine, transfer.staged);
    one.from_gradient.execute(transfer.stream, from, to);
    scatter(transfer, args, member, one.width);
  };
  collect(transfer.group.weight_ih, weight_ih, &LayerWeights::weight_ih);
  collect(transfer.group.weight_hh, weight_hh, &LayerWeights::weight_hh);
  collect_biases(transfer, args, false, bias);
  collect_biases(transfer, args, true, bias);
}

}  // namespace sluice::kernels::recurrent::onednn
