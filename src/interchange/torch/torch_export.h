#pragma once

#include <filesystem>

#include "io/checkpoint.h"

namespace sluice::interchange {

/// The tensors that write_torch() writes, in float32.
io::TensorTable torch_tensors(const io::Container& model);

/// Writes all tensors of a model, under their canonical names and in float32, as a state dict that
/// torch.load reads, or as safetensors if the path ends in .safetensors. Those of a recurrent stack
/// have the names of nn.LSTM, nn.GRU or nn.RNN behind a prefix, "recurrent." or "stack.". Throws
/// ErrorCode::kUnsupported for cells that no module of PyTorch computes.
void write_torch(const io::Container& model, const std::filesystem::path& path);

}  // namespace sluice::interchange
