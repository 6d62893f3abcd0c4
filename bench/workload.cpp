#include "bench/workload.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "bench/host_numbers.h"

namespace sluice::bench {

namespace recurrent = kernels::recurrent;
using base::DType;
using base::Shape;
using runtime::Buffer;
using runtime::Context;
using runtime::Tensor;

HostData::HostData(const BenchShape& shape) {
  const recurrent::Descriptor d = shape.descriptor(true);
  const DType storage = shape.dtype;
  const DType wide = base::policy_of(storage).cell_state;
  const std::int64_t stack = shape.layers * shape.directions;
  Random random(shape.seed);
  x = draw(random, shape.time * shape.batch * shape.input, 1, storage);
  dy = draw(random, shape.time * shape.batch * d.y_width(), 1, storage);
  h0 = draw(random, d.h_shape(shape.batch).element_count(), 1, storage);
  dhn = draw(random, d.h_shape(shape.batch).element_count(), 1, storage);
  if (shape.cell == recurrent::CellType::kLstm) {
    c0 = draw(random, stack * shape.batch * shape.hidden, 1, wide);
    dcn = draw(random, stack * shape.batch * shape.hidden, 1, wide);
  }
  if (shape.uniform_lengths) {
    for (std::int64_t r = 0; r < shape.batch; ++r) {
      lengths.push_back(
          1 + static_cast<std::int32_t>(random.next() % static_cast<std::uint64_t>(shape.time)));
    }
  }
  const double range = 1 / std::sqrt(static_cast<double>(shape.hidden));
  const std::int64_t gates = d.gates() * shape.hidden;
  for (std::int64_t i = 0; i < stack; ++i) {
    LayerWeights layer;
    // Implementations round weights to the storage type; drawing them so makes that exact.
    layer.weight_ih = draw(random, gates * d.input_of(i / shape.directions), range, storage);
    const std::int64_t output = d.output_of(i / shape.directions);
    layer.weight_hh = draw(random, gates * output, range, storage);
    layer.bias_ih = draw(random, gates, range, wide);
    layer.bias_hh = draw(random, gates, range, wide);
    layer.weight_hr = draw(random, d.projects() ? output * shape.hidden : 0, range, storage);
    if (shape.peepholes) layer.weight_peephole = draw(random, 3 * shape.hidden, range, wide);
    if (shape.layer_norm) {
      layer.gain_ih = draw(random, gates, 1, wide);
      layer.gain_hh = draw(random, gates, 1, wide);
      layer.gain_c = draw(random, shape.hidden, 1, wide);
      layer.shift_c = draw(random, shape.hidden, 1, wide);
    }
    weights.push_back(std::move(layer));
  }
  for (std::int64_t i = 0; shape.reset > 0 && i < shape.time * shape.batch; ++i) {
    resets.push_back(std::abs(random.uniform(1)) < shape.reset ? 1 : 0);
  }
}

struct SharedTensors::Content {
  Content(const Context& context_in, const BenchShape& shape_in)
      : context(context_in), shape(shape_in) {}

  Tensor make(DType dtype, const Shape& sizes) {
    const std::size_t bytes =
        base::size_of(dtype) * static_cast<std::size_t>(sizes.element_count());
    total += bytes;
    if (only_counts) return Tensor(nullptr, dtype, sizes);
    return buffers.emplace_back(context.device(), bytes).tensor(dtype, sizes);
  }
  Tensor make(DType dtype, const Shape& sizes, const std::vector<double>& values) {
    const Tensor tensor = make(dtype, sizes);
    if (!only_counts) upload(context, tensor, values);
    return tensor;
  }
  Set make_set(const HostData& data, bool backward);
  std::vector<recurrent::LayerWeights> make_weights(const HostData* data);

  Context context;
  BenchShape shape;
  bool only_counts = false;  ///< takes no memory
  std::size_t total = 0;     ///< bytes
  std::deque<Buffer> buffers;
  std::vector<Set> sets;
  std::size_t current = 0;
  std::vector<recurrent::LayerWeights> weights, gradients;
};

SharedTensors::Set SharedTensors::Content::make_set(const HostData& data, bool backward) {
  const recurrent::Descriptor d = shape.descriptor(backward);
  const DType wide = base::policy_of(shape.dtype).cell_state;
  const Shape x_shape{shape.time, shape.batch, shape.input};
  const Shape y_shape{shape.time, shape.batch, d.y_width()};
  const Shape h_shape = d.h_shape(shape.batch);
  const Shape c_shape{shape.layers * shape.directions, shape.batch, shape.hidden};
  const bool has_cell = shape.cell == recurrent::CellType::kLstm;
  Set set;
  set.x = make(shape.dtype, x_shape, data.x);
  set.h0 = make(shape.dtype, h_shape, data.h0);
  if (has_cell) set.c0 = make(wide, c_shape, data.c0);
  if (!data.lengths.empty()) {
    set.lengths = make(DType::kInt32, {shape.batch});
    context.upload<std::int32_t>(set.lengths, data.lengths);
  }
  if (!data.resets.empty()) {
    set.resets = make(DType::kInt32, {shape.time, shape.batch});
    context.upload<std::int32_t>(set.resets, data.resets);
  }
  set.y = make(shape.dtype, y_shape);
  set.hn = make(shape.dtype, h_shape);
  if (has_cell) set.cn = make(wide, c_shape);
  if (backward) {
    set.dy = make(shape.dtype, y_shape, data.dy);
    set.dhn = make(shape.dtype, h_shape, data.dhn);
    set.dx = make(shape.dtype, x_shape);
    set.dh0 = make(shape.dtype, h_shape);
    if (has_cell) {
      set.dcn = make(wide, c_shape, data.dcn);
      set.dc0 = make(wide, c_shape);
    }
  }
  return set;
}

// The weights of `data`, or with null memory for their gradients.
std::vector<recurrent::LayerWeights> SharedTensors::Content::make_weights(const HostData* data) {
  const recurrent::Descriptor d = shape.descriptor(true);
  const DType master = base::policy_of(shape.dtype).master;
  const std::int64_t gates = d.gates() * shape.hidden;
  std::vector<recurrent::LayerWeights> made;
  for (std::int64_t i = 0; i < shape.layers * shape.directions; ++i) {
    const HostData::LayerWeights* from =
        data != nullptr ? &data->weights[static_cast<std::size_t>(i)] : nullptr;
    const auto tensor = [&](std::vector<double> HostData::LayerWeights::*member,
                            const Shape& sizes) {
      return from != nullptr ? make(master, sizes, from->*member) : make(master, sizes);
    };
    recurrent::LayerWeights layer;
    layer.weight_ih =
        tensor(&HostData::LayerWeights::weight_ih, {gates, d.input_of(i / shape.directions)});
    const std::int64_t output = d.output_of(i / shape.directions);
    layer.weight_hh = tensor(&HostData::LayerWeights::weight_hh, {gates, output});
    layer.bias_ih = tensor(&HostData::LayerWeights::bias_ih, {gates});
    layer.bias_hh = tensor(&HostData::LayerWeights::bias_hh, {gates});
    if (d.projects()) {
      layer.weight_hr = tensor(&HostData::LayerWeights::weight_hr, {output, shape.hidden});
    }
    if (shape.peepholes) {
      layer.weight_peephole = tensor(&HostData::LayerWeights::weight_peephole, {3, shape.hidden});
    }
    if (shape.layer_norm) {
      layer.gain_ih = tensor(&HostData::LayerWeights::gain_ih, {gates});
      layer.gain_hh = tensor(&HostData::LayerWeights::gain_hh, {gates});
      layer.gain_c = tensor(&HostData::LayerWeights::gain_c, {shape.hidden});
      layer.shift_c = tensor(&HostData::LayerWeights::shift_c, {shape.hidden});
    }
    made.push_back(layer);
  }
  return made;
}

SharedTensors::SharedTensors(const Context& context, const BenchShape& shape, const HostData& data,
                             Pass pass, std::size_t most_copies)
    : content_(std::make_unique<Content>(context, shape)) {
  Content& content = *content_;
  const bool backward = pass == Pass::kForwardBackward;
  content.weights = content.make_weights(&data);
  if (backward) content.gradients = content.make_weights(nullptr);
  content.sets.push_back(content.make_set(data, backward));
  std::size_t bytes = 0;
  const Set& first = content.sets.front();
  for (const Tensor& tensor : {first.x, first.y, first.dy, first.dx}) {
    if (tensor) bytes += tensor.byte_size();
  }
  const std::size_t most = std::max<std::size_t>(1, (std::size_t{1} << 30) / bytes);
  const std::size_t wanted = 1 + 2 * context.device().cache_bytes() / bytes;
  while (content.sets.size() < std::min({most, wanted, most_copies})) {
    content.sets.push_back(content.make_set(data, backward));
  }
}

SharedTensors::~SharedTensors() = default;

std::size_t SharedTensors::bytes(const Context& context, const BenchShape& shape, Pass pass) {
  const bool backward = pass == Pass::kForwardBackward;
  Content content(context, shape);
  content.only_counts = true;
  content.make_weights(nullptr);
  if (backward) content.make_weights(nullptr);
  content.make_set(HostData(), backward);
  return content.total;
}

const SharedTensors::Set& SharedTensors::next() {
  content_->current = (content_->current + 1) % content_->sets.size();
  return content_->sets[content_->current];
}

std::size_t SharedTensors::count() const { return content_->sets.size(); }

const std::vector<recurrent::LayerWeights>& SharedTensors::weights() const {
  return content_->weights;
}

const std::vector<recurrent::LayerWeights>& SharedTensors::gradients() const {
  return content_->gradients;
}

void SharedTensors::poison_gradients(const Context& context) const {
  for (const recurrent::LayerWeights& layer : content_->gradients) {
    for (Tensor recurrent::LayerWeights::*tensor : recurrent::kLayerTensors) {
      poison(context, layer.*tensor);
    }
  }
}

HostResults SharedTensors::download(const Context& context, const Set& set) const {
  const auto get = [&](const Tensor& tensor) { return bench::download(context, tensor); };
  HostResults results{get(set.y),   get(set.hn),  get(set.cn), get(set.dx),
                      get(set.dh0), get(set.dc0), {}};
  for (const recurrent::LayerWeights& layer : content_->gradients) {
    results.gradients.push_back({get(layer.weight_ih), get(layer.weight_hh), get(layer.bias_ih),
                                 get(layer.bias_hh), get(layer.weight_hr),
                                 get(layer.weight_peephole), get(layer.gain_ih), get(layer.gain_hh),
                                 get(layer.gain_c), get(layer.shift_c)});
  }
  return results;
}

}  // namespace sluice::bench
