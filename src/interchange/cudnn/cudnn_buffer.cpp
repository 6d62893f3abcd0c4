#include "interchange/cudnn/cudnn_buffer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace sluice::interchange {
namespace {

using kernels::recurrent::CellType;
using kernels::recurrent::CudnnPart;

CellKind kind_of(CellType type) {
  if (type == CellType::kLstm) return CellKind::kLstm;
  return type == CellType::kGru ? CellKind::kGru : CellKind::kRnn;
}

/// The tensor that a part belongs to, and the number in it that the part begins with. cuDNN's
/// orders of gates are PyTorch's.
struct Place {
  const char* tensor;
  std::int64_t first;
};

Place place_of(const CudnnPart& part, std::int64_t gates) {
  const std::int64_t first = part.linear % gates * part.size();
  if (part.linear == 2 * gates) return {"weight_hr", 0};
  const bool is_input = part.linear < gates;
  if (part.is_bias) return {is_input ? "bias_ih" : "bias_hh", first};
  return {is_input ? "weight_ih" : "weight_hh", first};
}

base::Shape shape_of(const CudnnPart& part, std::int64_t gates) {
  if (part.linear == 2 * gates) return {part.rows, part.columns};
  if (part.is_bias) return {gates * part.rows};
  return {gates * part.rows, part.columns};
}

const std::vector<float>& numbers_of(const CanonicalCell& cell, std::string_view tensor) {
  if (tensor == "weight_ih") return cell.weight_ih;
  if (tensor == "weight_hh") return cell.weight_hh;
  if (tensor == "weight_hr") return cell.weight_hr;
  return tensor == "bias_ih" ? cell.bias_ih : cell.bias_hh;
}

template <typename Numbers>
auto part_of(Numbers&& numbers, std::int64_t first, const CudnnPart& part) {
  return std::span(numbers).subspan(static_cast<std::size_t>(first),
                                    static_cast<std::size_t>(part.size()));
}

}  // namespace

CudnnLayout cudnn_layout_for(const CudnnStack& stack, runtime::Device* device) {
  return device == nullptr ? kernels::recurrent::cudnn_layout(stack)
                           : kernels::recurrent::cudnn_layout(stack, *device);
}

std::vector<SourceCell> cells_of_cudnn_buffer(const CudnnStack& stack, const StoredBuffer& stored,
                                              const ReadOptions& options, Account& account) {
  runtime::Device* device = options.device();
  const CudnnLayout layout = cudnn_layout_for(stack, device);
  const CellKind kind = kind_of(stack.cell);
  const std::string cell = fmt::format("{} {}", kind == CellKind::kGru ? "a" : "an", name_of(kind));
  SLUICE_CHECK(stored.sizes.size() == 1, "{} has {} axes; cuDNN's buffer has one", stored.name,
               stored.sizes.size());
  SLUICE_CHECK(stored.sizes[0] == layout.size,
               "{} has {} numbers, but {} with these sizes has {}{}; check {}", stored.name,
               stored.sizes[0], cell, layout.size,
               device == nullptr ? "" : " by cuDNN on " + device->name(), stored.questions);
  account.find(fmt::format("{}: {} of {} layer{} with {} numbers, as the sizes say", stored.name,
                           cell, stack.layers, stack.layers == 1 ? "" : "s", layout.size));
  if (device != nullptr) {
    account.find(fmt::format("{}: the layout that cuDNN has on {}", stored.name, device->name()));
  } else {
    account.assume(fmt::format(
        "{}: the buffer has the layout of cuDNN's standard algorithm (say --device cuda on a "
        "machine with a GPU to ask cuDNN)",
        stored.name));
  }
  const std::int64_t gates = kernels::recurrent::gates_of(stack.cell);
  std::vector<SourceCell> cells(static_cast<std::size_t>(stack.layers * stack.directions));
  for (std::size_t at = 0; at < cells.size(); ++at) {
    cells[at].kind = kind;
    cells[at].input = stack.input_of(static_cast<std::int64_t>(at) / stack.directions);
    cells[at].hidden = stack.hidden;
    cells[at].output = stack.output();
    if (stack.cell == CellType::kRnnRelu) cells[at].candidate = {"relu"};
  }
  const io::HostTensor buffer = stored.read();
  for (const CudnnPart& part : layout.parts) {
    const Place place = place_of(part, gates);
    auto& tensors = cells[static_cast<std::size_t>(part.cell)].tensors;
    auto found = tensors.find(place.tensor);
    if (found == tensors.end()) {
      io::HostTensor empty = io::HostTensor::make(base::DType::kFloat32, shape_of(part, gates));
      found = tensors.emplace(place.tensor, std::move(empty)).first;
    }
    std::ranges::copy(part_of(buffer.values<float>(), part.offset, part),
                      part_of(found->second.values<float>(), place.first, part).begin());
  }
  return cells;
}

io::HostTensor cudnn_buffer_of(const std::vector<const CanonicalCell*>& cells,
                               const CudnnStack& stack, const CudnnLayout& layout) {
  const std::int64_t gates = kernels::recurrent::gates_of(stack.cell);
  io::HostTensor buffer = io::HostTensor::make(base::DType::kFloat32, {layout.size});
  for (const CudnnPart& part : layout.parts) {
    const Place place = place_of(part, gates);
    const CanonicalCell& cell = *cells[static_cast<std::size_t>(part.cell)];
    std::ranges::copy(part_of(numbers_of(cell, place.tensor), place.first, part),
                      part_of(buffer.values<float>(), part.offset, part).begin());
  }
  return buffer;
}

}  // namespace sluice::interchange
