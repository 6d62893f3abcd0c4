// Any bytes as a pickle: its values, arrays of NumPy, tensors of PyTorch.
#include <cstddef>
#include <cstdint>
#include <string>

#include "io/formats/pickle/numpy_pickle.h"
#include "io/formats/pickle/pickle.h"
#include "io/formats/torch/torch_tree.h"
#include "sluice/error.h"

namespace {

using sluice::Error;
using namespace sluice::io::formats;

/// Calls everything that a value's kind allows; the sum keeps the calls from being optimised away.
std::size_t touch(const PickleValue& value) {
  std::size_t sum = value.items().size() + (value.is_global("a.b") ? 1 : 0);
  switch (value.kind()) {
    case PickleKind::kBool:
      return sum + (value.truth() ? 1 : 0);
    case PickleKind::kInt:
      return sum + static_cast<std::size_t>(value.integer());
    case PickleKind::kFloat:
      return sum + (value.number() > 0 ? 1 : 0);
    case PickleKind::kBigInt:
    case PickleKind::kString:
    case PickleKind::kByteString:
    case PickleKind::kBytes:
      for (const char byte : value.text()) sum += static_cast<unsigned char>(byte);
      return sum;
    case PickleKind::kGlobal:
      return sum + value.global_name().size();
    case PickleKind::kDict:
      return sum + (value.find("a") != nullptr ? 1 : 0);
    case PickleKind::kObject:
      for (const PickleValue* part : {value.callable(), value.arguments(), value.state(),
                                      value.keywords(), value.entries(), value.elements()}) {
        if (part != nullptr) sum += part->items().size();
      }
      return sum;
    default:
      return sum;
  }
}

void touch_numpy(const PickleValue& value) {
  try {
    if (is_numpy_array(value) || is_numpy_scalar(value)) tensor_of_numpy(value, "fuzz");
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const Pickle pickle =
        Pickle::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    std::size_t sum = 0;
    for (const PickleValue& value : pickle.values()) {
      sum += touch(value);
      touch_numpy(value);
    }
    torch_tree(pickle.root(), pickle.size() + sum % 2, "fuzz");
  } catch (const Error&) {
  }
  return 0;
}
