#include "kernels/recurrent/cudnn_layout.h"

#include "base/check.h"
#include "kernels/device_kernels.h"

namespace sluice::kernels::recurrent {
namespace {

// Larger ones are a mistake. No product of them overflows.
constexpr std::int64_t kMostLayers = 256, kMostWidth = 1 << 20;

void validate(const CudnnStack& stack) {
  const auto check = [](std::string_view what, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
    SLUICE_CHECK(value >= least && value <= most,
                 "a stack of cuDNN's has {} {}; it must be from {} to {}", what, value, least,
                 most);
  };
  check("layers =", stack.layers, 1, kMostLayers);
  check("directions =", stack.directions, 1, 2);
  check("input =", stack.input, 1, kMostWidth);
  check("hidden =", stack.hidden, 1, kMostWidth);
  check("projection =", stack.projection, 0, kMostWidth);
  if (stack.cell == CellType::kGruResetBefore) {
    base::fail(ErrorCode::kUnsupported, "cuDNN's GRU resets after the product, not before");
  }
  if (stack.projection == 0) return;
  if (stack.cell != CellType::kLstm) {
    base::fail(ErrorCode::kUnsupported, "cuDNN projects the h of an LSTM only");
  }
  if (stack.projection >= stack.hidden) {
    base::fail(ErrorCode::kUnsupported, "cuDNN projects to fewer units only, not from {} to {}",
               stack.hidden, stack.projection);
  }
}

}  // namespace

CudnnLayout cudnn_layout(const CudnnStack& stack) {
  validate(stack);
  const std::int64_t gates = gates_of(stack.cell);
  CudnnLayout layout;
  CudnnPart part;
  const auto add = [&](std::int64_t linear, std::int64_t rows, std::int64_t columns) {
    part.linear = linear;
    part.rows = rows;
    part.columns = columns;
    part.offset = layout.size;
    layout.size += part.size();
    layout.parts.push_back(part);
  };
  const auto each_cell = [&](const auto& add_parts) {
    for (part.cell = 0; part.cell < stack.layers * stack.directions; ++part.cell) add_parts();
  };
  each_cell([&] {
    const std::int64_t input = stack.input_of(part.cell / stack.directions);
    for (std::int64_t g = 0; g < gates; ++g) add(g, stack.hidden, input);
    for (std::int64_t g = gates; g < 2 * gates; ++g) add(g, stack.hidden, stack.output());
    if (stack.projection > 0) add(2 * gates, stack.projection, stack.hidden);
  });
  part.is_bias = true;
  const bool has_input = stack.biases == CudnnBiases::kInput || stack.biases == CudnnBiases::kBoth;
  const bool has_recurrent =
      stack.biases == CudnnBiases::kRecurrent || stack.biases == CudnnBiases::kBoth;
  each_cell([&] {
    for (std::int64_t g = 0; has_input && g < gates; ++g) add(g, stack.hidden, 1);
    for (std::int64_t g = gates; has_recurrent && g < 2 * gates; ++g) add(g, stack.hidden, 1);
  });
  return layout;
}

CudnnLayout cudnn_layout(const CudnnStack& stack, runtime::Device& device) {
  CudnnLayout layout = cudnn_layout(stack);
  const DeviceKernels* kernels = device.kernels();
  if (kernels == nullptr || kernels->cudnn_places == nullptr) {
    base::fail(ErrorCode::kUnsupported, "device {} has no cuDNN to ask; name a GPU", device.name());
  }
  kernels->cudnn_places->place(stack, device, layout);
  return layout;
}

}  // namespace sluice::kernels::recurrent
