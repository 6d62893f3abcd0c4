#pragma once

#include "kernels/recurrent/cpu/sequence_run.h"

/// The products over all time that follow the backward steps of one layer.
namespace sluice::kernels::recurrent::cpu {

template <typename T>
struct LayerGradients {
  const Sequence<T>& sequence;
  const BackwardArgs& args;
  const Memory& memory;
  std::int64_t layer;
  std::int64_t steps;
  const T* x;  ///< the layer's input in the forward run, after dropout

  /// dx [steps, rows, input_of(layer)] = gate gradients * input weights, both directions; of an
  /// inner layer also through the dropout mask. To be called by all threads of a parallel region.
  void input_gradient(T* dx) const;

  /// Stores the canonical gradients that are wanted, or adds them. To be called by all threads.
  void weight_gradients() const;

 private:
  /// Gradients of the gates before activation [steps, rows, gate_width], of either product.
  const T* of_input(std::int64_t direction) const;
  const T* of_hidden(std::int64_t direction) const;
  /// Of a run without a step.
  void write_zeros() const;
  /// Of layer norm, and the biases, which are added to what it makes.
  void store_norms(std::int64_t direction, const LayerWeights& target) const;
  void store_peepholes(std::int64_t direction, Sum<T>* target) const;
};

}  // namespace sluice::kernels::recurrent::cpu
