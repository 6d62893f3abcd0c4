#include "kernels/recurrent/cpu/sequence_layout.h"

#include <algorithm>

#include "base/shape.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

/// Hands out consecutive pieces, each aligned to a cache line.
class Booking {
 public:
  template <typename U>
  std::size_t take(std::initializer_list<std::int64_t> sizes) {
    std::size_t bytes = sizeof(U);
    for (const std::int64_t size : sizes) {
      bytes = base::checked_mul(bytes, static_cast<std::size_t>(size));
    }
    return take_bytes(bytes);
  }

  std::size_t take_bytes(std::size_t bytes) {
    const std::size_t offset = total_;
    total_ = base::checked_add(total_, base::align_up(bytes, 64));
    return offset;
  }

  std::size_t total() const { return total_; }

 private:
  std::size_t total_ = 0;
};

/// The most rows times steps that one chunk of any run can hold.
std::int64_t chunk_capacity(const Descriptor& descriptor, std::int64_t good_rows) {
  // A chunk of many rows is one step of them. Of fewer rows the count falls and rises with their
  // number, so the largest is looked for.
  std::int64_t most = descriptor.rows;
  for (std::int64_t rows = 1; rows <= std::min(descriptor.rows, good_rows); ++rows) {
    most = std::max(most, rows * chunk_steps(good_rows, rows, descriptor.time));
  }
  return most;
}

template <typename T>
ForwardScratch book_forward(const Descriptor& descriptor, const Leaf<T>& leaf, Booking& booking) {
  const std::int64_t chunk = chunk_capacity(descriptor, leaf.good_rows);
  const Sizes sizes = widest_sizes(descriptor);
  const bool inference = !descriptor.training;
  const std::int64_t rows = descriptor.rows;
  ForwardScratch scratch;
  for (std::int64_t d = 0; d < descriptor.directions; ++d) {
    scratch.pre.push_back(booking.take<Sum<T>>({chunk, sizes.gate_width}));
    if (inference) {
      scratch.h.push_back(booking.take<T>({2, rows, sizes.output}));
      scratch.c.push_back(booking.take<Sum<T>>({sizes.lstm ? rows : 0, sizes.state_width}));
      scratch.h_full.push_back(booking.take<T>({sizes.projected ? rows : 0, sizes.hidden}));
    }
    scratch.out.push_back(booking.take<Sum<T>>({sizes.projected ? rows : 0, sizes.out_width}));
    scratch.recurrent.push_back(
        booking.take<Sum<T>>({sizes.multiplies_apart ? rows : 0, sizes.gate_width}));
    scratch.h_reset.push_back(
        booking.take<T>({inference && sizes.resets_before ? rows : 0, sizes.hidden}));
    scratch.multipliers.push_back(
        booking.take<Sum<T>>({descriptor.drops_recurrent() ? rows : 0, sizes.out_width}));
    scratch.c_fresh.push_back(
        booking.take<Sum<T>>({inference && sizes.fresh_cells ? rows : 0, sizes.state_width}));
    scratch.saved.push_back(
        booking.take<Sum<T>>({inference && sizes.norms ? rows : 0, sizes.saved_width}));
  }
  for (std::int64_t i = 0; inference && i < std::min<std::int64_t>(2, descriptor.layers - 1); ++i) {
    scratch.outputs.push_back(
        booking.take<T>({descriptor.time, rows, descriptor.directions * sizes.output}));
  }
  return scratch;
}

template <typename T>
BackwardScratch book_backward(const Descriptor& descriptor, const Leaf<T>& leaf, int threads,
                              Booking& booking) {
  const Sizes sizes = widest_sizes(descriptor);
  const std::int64_t time = descriptor.time, rows = descriptor.rows;
  const std::int64_t if_projected = sizes.projected ? 1 : 0;
  BackwardScratch scratch;
  for (std::int64_t d = 0; d < descriptor.directions; ++d) {
    scratch.d_gates.push_back(booking.take<T>({time, rows, sizes.gate_width}));
    scratch.d_gates_hidden.push_back(
        booking.take<T>({sizes.gates_apart ? time : 0, rows, sizes.gate_width}));
    scratch.dh.push_back(booking.take<Sum<T>>({2, rows, sizes.out_width}));
    scratch.dc.push_back(booking.take<Sum<T>>({sizes.lstm ? rows : 0, sizes.state_width}));
    scratch.dh_out.push_back(booking.take<T>({if_projected * time, rows, sizes.output}));
    scratch.dh_full.push_back(booking.take<Sum<T>>({if_projected * rows, sizes.state_width}));
    scratch.dh_through.push_back(
        booking.take<Sum<T>>({descriptor.zoneout_h > 0 ? 2 : 0, rows, sizes.out_width}));
    scratch.dc_around.push_back(
        booking.take<Sum<T>>({descriptor.zoneout_c > 0 ? rows : 0, sizes.state_width}));
    const bool product_apart = descriptor.drops_recurrent() || sizes.resets_before;
    scratch.product.push_back(booking.take<Sum<T>>({product_apart ? 2 : 0, rows, sizes.out_width}));
    const std::int64_t normed = sizes.norms ? time : 0;
    scratch.d_sums.push_back(booking.take<T>({normed, rows, sizes.gate_width}));
    scratch.d_norm_c.push_back(booking.take<Sum<T>>({normed, rows, sizes.state_width}));
    scratch.norm_row.push_back(
        booking.take<Sum<T>>({sizes.norms ? rows : 0, sizes.gate_width + 2 * sizes.state_width}));
  }
  scratch.dy = booking.take<T>(
      {descriptor.layers > 1 ? time : 0, rows, descriptor.directions * sizes.output});
  const std::int64_t widest =
      std::max({sizes.max_input, sizes.output, sizes.projected ? sizes.hidden : 0});
  const std::int64_t pieces = (time * rows + kWeightGradientDepth - 1) / kWeightGradientDepth;
  for (std::size_t& inputs : scratch.inputs) {
    inputs = booking.take<T>({pieces, leaf.packed_size(widest, kWeightGradientDepth, 1)});
  }
  for (int i = 0; i < threads; ++i) {
    ThreadScratch& own = scratch.threads.emplace_back();
    for (std::size_t& sums : own.sums) {
      sums = booking.take<Sum<T>>(
          {std::max(kInputGradientRows, kWeightGradientColumns), panels_of(widest) * kPanel});
    }
    own.columns = booking.take<T>({kWeightGradientColumns, kColumnStride});
  }
  return scratch;
}

}  // namespace

Sizes::Sizes(const Descriptor& descriptor, std::int64_t layer)
    : gates(descriptor.gates()),
      hidden(descriptor.hidden),
      output(descriptor.output_of(layer)),
      directions(descriptor.directions),
      panels(panels_of(hidden)),
      out_panels(panels_of(output)),
      state_width(panels * kPanel),
      out_width(out_panels * kPanel),
      gate_width(panels * gates * kPanel),
      saved_width(panels * saved_of(descriptor.cell) * kPanel),
      max_input(descriptor.layers > 1
                    ? std::max(descriptor.input, directions * descriptor.widest_output())
                    : descriptor.input),
      lstm(descriptor.cell == CellType::kLstm),
      projected(descriptor.projects()),
      resets_before(descriptor.cell == CellType::kGruResetBefore),
      hidden_bias(descriptor.cell == CellType::kGru),
      multiplies_apart(descriptor.peepholes || descriptor.layer_norm ||
                       descriptor.drops_recurrent() || resets_before || descriptor.int8),
      norms(descriptor.layer_norm),
      gates_apart(hidden_bias || resets_before || norms),
      fresh_cells(lstm && (descriptor.resets || descriptor.zoneout_c > 0)) {}

std::vector<Sizes> sizes_of_layers(const Descriptor& descriptor) {
  std::vector<Sizes> sizes;
  for (std::int64_t layer = 0; layer < descriptor.layers; ++layer) {
    sizes.emplace_back(descriptor, layer);
  }
  return sizes;
}

Sizes widest_sizes(const Descriptor& descriptor) {
  const std::vector<Sizes> sizes = sizes_of_layers(descriptor);
  return *std::max_element(sizes.begin(), sizes.end(),
                           [](const Sizes& a, const Sizes& b) { return a.output < b.output; });
}

template <typename T>
PackedLayout book_packed(const Descriptor& descriptor, const Leaf<T>& leaf) {
  const std::vector<Sizes> all = sizes_of_layers(descriptor);
  Booking booking;
  const auto matrix = [&](std::int64_t units, std::int64_t depth, std::int64_t blocks) {
    return booking.take<T>({leaf.packed_size(units, depth, blocks)});
  };
  PackedLayout layout;
  for (std::int64_t i = 0; i < descriptor.layers * descriptor.directions; ++i) {
    const std::int64_t index = i / descriptor.directions, input = descriptor.input_of(index);
    const Sizes& sizes = all[static_cast<std::size_t>(index)];
    PackedLayer layer;
    layer.weight_ih = matrix(sizes.hidden, input, sizes.gates);
    if (sizes.resets_before) {
      layer.gate_size = leaf.packed_size(sizes.hidden, sizes.output, 1);
      layer.gate_size_t = leaf.packed_size(sizes.output, sizes.state_width, 1);
      layer.weight_hh = booking.take<T>({sizes.gates, layer.gate_size});
    } else {
      layer.weight_hh = matrix(sizes.hidden, sizes.output, sizes.gates);
    }
    if (sizes.projected) layer.weight_hr = matrix(sizes.output, sizes.hidden, 1);
    layer.bias = booking.take<Sum<T>>({sizes.gate_width});
    if (sizes.hidden_bias) layer.bias_hn = booking.take<Sum<T>>({sizes.state_width});
    if (descriptor.peepholes) layer.peepholes = booking.take<Sum<T>>({3, sizes.state_width});
    if (sizes.norms) {
      layer.gain_ih = booking.take<Sum<T>>({sizes.gate_width});
      layer.gain_hh = booking.take<Sum<T>>({sizes.gate_width});
      layer.gain_c = booking.take<Sum<T>>({sizes.state_width});
      layer.shift_c = booking.take<Sum<T>>({sizes.state_width});
    }
    if (descriptor.training) {
      layer.weight_ih_t = matrix(input, sizes.gate_width, 1);
      layer.weight_hh_t = sizes.resets_before ? booking.take<T>({sizes.gates, layer.gate_size_t})
                                              : matrix(sizes.output, sizes.gate_width, 1);
      if (sizes.projected) layer.weight_hr_t = matrix(sizes.hidden, sizes.output, 1);
    }
    layout.layers.push_back(layer);
  }
  layout.bytes = booking.total();
  return layout;
}

template <typename T>
ReserveLayout book_reserve(const Descriptor& descriptor) {
  ReserveLayout layout;
  if (!descriptor.training) return layout;
  const std::vector<Sizes> all = sizes_of_layers(descriptor);
  const std::int64_t time = descriptor.time, rows = descriptor.rows;
  Booking booking;
  for (std::int64_t i = 0; i < descriptor.layers * descriptor.directions; ++i) {
    const Sizes& sizes = all[static_cast<std::size_t>(i / descriptor.directions)];
    ReserveLayer layer;
    layer.saved = booking.take<Sum<T>>({time, rows, sizes.saved_width});
    layer.h = booking.take<T>({time + 1, rows, sizes.output});
    layer.c = booking.take<Sum<T>>({sizes.lstm ? time + 1 : 0, rows, sizes.state_width});
    layer.h_full = booking.take<T>({sizes.projected ? time : 0, rows, sizes.hidden});
    layer.h_dropped =
        booking.take<T>({descriptor.drops_recurrent() ? time + 1 : 0, rows, sizes.output});
    layer.h_reset = booking.take<T>({sizes.resets_before ? time : 0, rows, sizes.hidden});
    layer.c_fresh = booking.take<Sum<T>>({sizes.fresh_cells ? time : 0, rows, sizes.state_width});
    const std::int64_t normed = sizes.norms ? time : 0;
    layer.norm_ih = booking.take<Sum<T>>({normed, rows, sizes.gate_width});
    layer.norm_hh = booking.take<Sum<T>>({normed, rows, sizes.gate_width});
    layer.norm_c = booking.take<Sum<T>>({normed, rows, sizes.state_width});
    layer.inverses = booking.take<Sum<T>>({normed, rows, 3});
    layout.layers.push_back(layer);
  }
  for (std::int64_t l = 0; l + 1 < descriptor.layers; ++l) {
    layout.outputs.push_back(booking.take<T>({time, rows, descriptor.input_of(l + 1)}));
  }
  layout.bytes = booking.total();
  return layout;
}

template <typename T>
WorkspaceLayout book_workspace(const Descriptor& descriptor, const Leaf<T>& leaf, int threads) {
  const Sizes sizes = widest_sizes(descriptor);
  WorkspaceLayout layout;
  Booking forward;
  layout.forward = book_forward(descriptor, leaf, forward);
  layout.bytes = forward.total();
  if (descriptor.training) {
    Booking backward, pack;
    layout.backward = book_backward(descriptor, leaf, threads, backward);
    for (int i = 0; i < threads; ++i) {
      layout.pack.threads.push_back(
          pack.take<Sum<T>>({sizes.gate_width, kTransposedPanels * kPanel}));
    }
    layout.bytes = std::max({layout.bytes, backward.total(), pack.total()});
  }
  return layout;
}

template PackedLayout book_packed(const Descriptor&, const Leaf<double>&);
template PackedLayout book_packed(const Descriptor&, const Leaf<float>&);
template PackedLayout book_packed(const Descriptor&, const Leaf<base::BFloat16>&);
template ReserveLayout book_reserve<double>(const Descriptor&);
template ReserveLayout book_reserve<float>(const Descriptor&);
template ReserveLayout book_reserve<base::BFloat16>(const Descriptor&);
template WorkspaceLayout book_workspace(const Descriptor&, const Leaf<double>&, int);
template WorkspaceLayout book_workspace(const Descriptor&, const Leaf<float>&, int);
template WorkspaceLayout book_workspace(const Descriptor&, const Leaf<base::BFloat16>&, int);

}  // namespace sluice::kernels::recurrent::cpu
