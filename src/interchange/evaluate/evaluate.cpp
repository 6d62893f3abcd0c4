#include "interchange/evaluate/evaluate.h"

#include <algorithm>
#include <random>

#include "base/check.h"
#include "interchange/evaluate/cell_equations.h"

namespace sluice::interchange {
namespace {

double number(const io::HostTensor& tensor, std::int64_t index) { return at(&tensor, index); }

/// Draws the errors of a Noise.
class Disturbance {
 public:
  explicit Disturbance(const Noise& noise) : draw_(-noise.size, noise.size), engine_(noise.seed) {
    is_on_ = noise.size > 0;
  }
  void disturb(std::vector<double>& numbers) {
    if (!is_on_) return;
    for (double& number : numbers) number *= 1 + draw_(engine_);
  }

 private:
  std::uniform_real_distribution<double> draw_;
  std::mt19937_64 engine_;
  bool is_on_;
};

/// Writes the direction's output beside what stands in `output` from `first_column` on. The state
/// moves from the first to the last.
void run_direction(const SourceCell& cell, const Sequence& input, bool is_backward,
                   std::int64_t first_column, Disturbance& disturbance, CellState& state,
                   Sequence& output) {
  const std::unique_ptr<CellEquations> equations = equations_of(cell);
  for (std::int64_t done = 0; done < input.steps; ++done) {
    const std::int64_t step = is_backward ? input.steps - 1 - done : done;
    std::vector<double> x(input.row(step), input.row(step) + input.width);
    for (std::vector<double>* numbers : {&x, &state.h, &state.c}) disturbance.disturb(*numbers);
    equations->step(x, state);
    std::ranges::copy(state.h, output.row(step) + first_column);
  }
}

CellState zero_state(const SourceCell& cell) {
  return {std::vector<double>(static_cast<std::size_t>(cell.output)),
          std::vector<double>(static_cast<std::size_t>(cell.hidden))};
}

/// The states of two directions next to each other.
CellState joined(CellState first, const CellState& second) {
  first.h.insert(first.h.end(), second.h.begin(), second.h.end());
  first.c.insert(first.c.end(), second.c.begin(), second.c.end());
  return first;
}

/// Runs the layers of a chain one after the other.
class Run {
 public:
  Run(const std::vector<std::int64_t>* ids, const Noise& noise) : ids_(ids), disturbance_(noise) {}

  /// Recurrent layers start from `states`, or from zero where there are no more of them.
  std::vector<LayerOutput> run(const std::vector<SourceLayer>& layers, Sequence input,
                               std::vector<CellState> states = {}) {
    x_ = std::move(input);
    starts_ = std::move(states);
    for (const SourceLayer& layer : layers) {
      x_ = std::visit([this](const auto& one) { return compute(one); }, layer);
      outputs_.push_back({std::string(name_of(layer)), x_});
    }
    return std::move(outputs_);
  }

  /// The last states of the recurrent layers, the directions of each next to each other.
  const std::vector<CellState>& last_states() const { return ends_; }

 private:
  void require_width(std::string_view name, std::int64_t width) const {
    SLUICE_CHECK(x_.width == width, "layer {} reads {} numbers a step, but is given {}", name,
                 width, x_.width);
  }

  Sequence compute(const EmbeddingLayer& layer) const {
    SLUICE_CHECK(ids_ != nullptr, "layer {} reads ids, not numbers", layer.name);
    Sequence result = make_sequence(static_cast<std::int64_t>(ids_->size()), layer.table.shape[1]);
    for (std::int64_t step = 0; step < result.steps; ++step) {
      const std::int64_t id = (*ids_)[static_cast<std::size_t>(step)];
      SLUICE_CHECK(id >= 0 && id < layer.table.shape[0], "layer {} has no id {}", layer.name, id);
      for (std::int64_t i = 0; i < result.width; ++i) result.row(step)[i] = at(layer.table, id, i);
    }
    return result;
  }

  Sequence compute(const RecurrentLayer& layer) {
    require_width(layer.name, layer.input());
    forward_ = layer.forward ? layer.forward->output : 0;
    Sequence result = make_sequence(x_.steps, layer.output());
    CellState end;
    if (layer.forward) {
      end = start_of(layer);
      run_direction(*layer.forward, x_, false, 0, disturbance_, end, result);
    }
    if (layer.backward) {
      CellState state = zero_state(*layer.backward);
      run_direction(*layer.backward, x_, true, forward_, disturbance_, state, result);
      end = joined(std::move(end), state);
    }
    ends_.push_back(std::move(end));
    return result;
  }

  CellState start_of(const RecurrentLayer& layer) const {
    CellState zero = zero_state(*layer.forward);
    if (ends_.size() >= starts_.size()) return zero;
    const CellState& start = starts_[ends_.size()];
    SLUICE_CHECK(!layer.backward && start.h.size() == zero.h.size() &&
                     (layer.forward->kind != CellKind::kLstm || start.c.size() == zero.c.size()),
                 "layer {} can't start from {} numbers, the last states of the encoder's layer",
                 layer.name, start.h.size());
    return start;
  }

  Sequence compute(const LinearLayer& layer) const {
    require_width(layer.name, layer.weight.shape[1]);
    Sequence result = make_sequence(x_.steps, layer.weight.shape[0]);
    const io::HostTensor* bias = layer.bias ? &*layer.bias : nullptr;
    const bool is_softmax = layer.activation.is("softmax") || layer.activation.is("log_softmax");
    for (std::int64_t step = 0; step < x_.steps; ++step) {
      for (std::int64_t out = 0; out < result.width; ++out) {
        double sum = at(bias, out);
        for (std::int64_t i = 0; i < x_.width; ++i)
          sum += at(layer.weight, out, i) * x_.row(step)[i];
        result.row(step)[out] = is_softmax ? sum : activate(layer.activation, sum);
      }
    }
    return result;
  }

  Sequence compute(const AffineLayer& layer) const {
    require_width(layer.name, layer.scale.shape[0]);
    Sequence result = x_;
    for (std::int64_t step = 0; step < x_.steps; ++step) {
      for (std::int64_t i = 0; i < x_.width; ++i) {
        result.row(step)[i] = x_.row(step)[i] * number(layer.scale, i) + number(layer.shift, i);
      }
    }
    return result;
  }

  Sequence compute(const PoolingLayer& layer) const {
    SLUICE_CHECK(x_.steps > 0, "layer {} has no step to read", layer.name);
    if (layer.kind == "attention") return attend(layer);
    Sequence result = make_sequence(1, x_.width);
    for (std::int64_t i = 0; i < x_.width; ++i)
      result.values[static_cast<std::size_t>(i)] = pool(layer, i);
    return result;
  }
  double pool(const PoolingLayer& layer, std::int64_t i) const {
    if (layer.kind == "last") return x_.row(i < forward_ ? x_.steps - 1 : 0)[i];
    double sum = 0, most = x_.row(0)[i];
    for (std::int64_t step = 0; step < x_.steps; ++step) {
      sum += x_.row(step)[i];
      most = std::max(most, x_.row(step)[i]);
    }
    SLUICE_CHECK(layer.kind == "mean" || layer.kind == "max", "the pooling '{}' is not computed",
                 layer.kind);
    return layer.kind == "mean" ? sum / static_cast<double>(x_.steps) : most;
  }
  Sequence compute(const CrfLayer&) const { return x_; }

  Sequence attend(const PoolingLayer& layer) const {
    std::vector<double> weights(static_cast<std::size_t>(x_.steps));
    double most = 0, total = 0;
    for (std::int64_t step = 0; step < x_.steps; ++step) {
      double score = 0;
      for (std::int64_t i = 0; i < x_.width; ++i)
        score += number(*layer.query, i) * x_.row(step)[i];
      weights[static_cast<std::size_t>(step)] = score;
      most = step == 0 ? score : std::max(most, score);
    }
    for (double& weight : weights) total += weight = std::exp(weight - most);
    Sequence result = make_sequence(1, x_.width);
    for (std::int64_t step = 0; step < x_.steps; ++step) {
      for (std::int64_t i = 0; i < x_.width; ++i) {
        result.row(0)[i] += weights[static_cast<std::size_t>(step)] / total * x_.row(step)[i];
      }
    }
    return result;
  }

  const std::vector<std::int64_t>* ids_;
  Disturbance disturbance_;
  std::vector<CellState> starts_, ends_;  ///< of recurrent layers
  Sequence x_;
  std::int64_t forward_ = 0;  ///< columns of the forward direction of the last recurrent layer
  std::vector<LayerOutput> outputs_;
};

}  // namespace

Sequence make_sequence(std::int64_t steps, std::int64_t width) {
  return {steps, width, std::vector<double>(static_cast<std::size_t>(steps * width))};
}

std::vector<LayerOutput> evaluate(const SourceModel& model, const std::vector<std::int64_t>& ids,
                                  const Noise& noise) {
  return Run(&ids, noise).run(model.layers, {});
}

std::vector<LayerOutput> evaluate(const SourceModel& model, const Sequence& frames,
                                  const Noise& noise) {
  return Run(nullptr, noise).run(model.layers, frames);
}

std::vector<LayerOutput> evaluate(const SourceModel& model, const std::vector<std::int64_t>& ids,
                                  const std::vector<std::int64_t>& fed, const Noise& noise) {
  Run encoder(&ids, noise);
  std::vector<LayerOutput> outputs = encoder.run(model.layers, {});
  std::vector<LayerOutput> decoded =
      Run(&fed, {noise.size, noise.seed + 1}).run(model.decoder, {}, encoder.last_states());
  std::ranges::move(decoded, std::back_inserter(outputs));
  return outputs;
}

}  // namespace sluice::interchange
