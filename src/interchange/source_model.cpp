#include "interchange/source_model.h"

#include "base/check.h"
#include "base/dtype.h"

namespace sluice::interchange {

std::string_view name_of(Convention convention) {
  switch (convention) {
    case Convention::kTorch:
      return "PyTorch";
    case Convention::kKeras:
      return "Keras";
    case Convention::kKerasCudnn:
      return "Keras with cuDNN";
    case Convention::kTensorflow:
      return "TensorFlow 1";
    case Convention::kTensorflowCudnnGru:
      return "TensorFlow 1 with cuDNN";
    case Convention::kOnnx:
      return "ONNX";
    case Convention::kPaddle:
      return "Paddle";
    case Convention::kArrays:
      break;
  }
  return "plain arrays";
}

std::string_view name_of(CellKind kind) {
  if (kind == CellKind::kLstm) return "LSTM";
  return kind == CellKind::kGru ? "GRU" : "RNN";
}

const io::HostTensor* SourceCell::find(std::string_view tensor) const {
  const auto found = tensors.find(tensor);
  return found == tensors.end() ? nullptr : &found->second;
}

const io::HostTensor& SourceCell::get(std::string_view tensor) const {
  const io::HostTensor* found = find(tensor);
  if (found == nullptr) {
    base::fail(ErrorCode::kFormat, "a layer of {} lacks the tensor '{}'", name_of(convention),
               tensor);
  }
  return *found;
}

void refuse_crf(const CrfLayer& layer, std::string_view program) {
  base::fail(ErrorCode::kUnsupported, "layer '{}' is a CRF, which {} lacks", layer.name, program);
}

std::string_view name_of(const SourceLayer& layer) {
  return std::visit([](const auto& one) -> std::string_view { return one.name; }, layer);
}

}  // namespace sluice::interchange
