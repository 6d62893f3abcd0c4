#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "interchange/canonical_cell.h"
#include "interchange/read_options.h"
#include "interchange/source_model.h"
#include "kernels/recurrent/cudnn_layout.h"

/// A stack's weights in one buffer of cuDNN.
namespace sluice::interchange {

using kernels::recurrent::CudnnLayout;
using kernels::recurrent::CudnnStack;

/// The layout that a GPU's own cuDNN has, or the documented one if `device` is null. Throws as
/// kernels::recurrent::cudnn_layout().
CudnnLayout cudnn_layout_for(const CudnnStack& stack, runtime::Device* device);

/// A buffer of a source, which is read once its size is known to fit.
struct StoredBuffer {
  std::string name;                 ///< for messages: "'weights'"
  std::vector<std::int64_t> sizes;  ///< axes, outermost first
  std::function<io::HostTensor()> read;
  std::string questions;  ///< names the answers that the stack is made of, for messages
};

/// Takes a buffer apart: a cell for each layer and direction, forward first, in PyTorch's
/// convention. Adds to `account`. Throws ErrorCode::kInvalidArgument for a buffer of another size.
std::vector<SourceCell> cells_of_cudnn_buffer(const CudnnStack& stack, const StoredBuffer& stored,
                                              const ReadOptions& options, Account& account);

/// The inverse: canonical cells, in the same order, in one buffer with both biases.
io::HostTensor cudnn_buffer_of(const std::vector<const CanonicalCell*>& cells,
                               const CudnnStack& stack, const CudnnLayout& layout);

}  // namespace sluice::interchange
