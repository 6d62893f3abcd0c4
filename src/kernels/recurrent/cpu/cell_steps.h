#pragma once

#include "kernels/recurrent/cpu/leaf.h"
#include "kernels/recurrent/recurrent.h"

namespace sluice::kernels::recurrent::cpu {

/// The leaf's steps of a cell.
template <typename T>
const CellSteps<T>& steps_of(const Leaf<T>& leaf, CellType cell) {
  switch (cell) {
    case CellType::kLstm:
      return leaf.lstm;
    case CellType::kGru:
      return leaf.gru;
    case CellType::kGruResetBefore:
      return leaf.gru_reset_before;
    case CellType::kRnnTanh:
      return leaf.rnn_tanh;
    case CellType::kRnnRelu:
      break;
  }
  return leaf.rnn_relu;
}

}  // namespace sluice::kernels::recurrent::cpu
