#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/formats/number_type.h"
#include "io/formats/pickle/pickle.h"
#include "io/formats/strided_view.h"
#include "io/host_tensor.h"

namespace sluice::io::formats {

/// A tensor of a PyTorch file.
struct TorchTensor {
  std::string name;        ///< dotted, such as "encoder.weight_ih_l0"; empty for a lone tensor
  std::string dtype_name;  ///< the file's: "float16", "int16", "bool", …; empty if it is refused
  std::string refusal;     ///< the reason why it is not read; empty if it is
  NumberType type;
  StridedView view;                   ///< sizes, and where the elements stand in the storage
  std::string storage;                ///< the storage's key
  std::optional<HostTensor> content;  ///< of an array of NumPy, which has no storage
};

/// Anything else that a PyTorch file holds: a hyper-parameter, an epoch.
struct TorchValue {
  std::string name;  ///< dotted; elements of lists by their index
  std::variant<std::monostate, bool, std::int64_t, double, std::string> value;
};

struct TorchTree {
  std::vector<TorchTensor> tensors;  ///< in the order of the file
  std::vector<TorchValue> values;
};

/// The tensors and plain values of PyTorch's pickles by their dotted names. Dicts, lists and tuples
/// give their keys and indexes; modules (torch.nn or TorchScript, known by what they hold, not by
/// their class) give parameters, buffers and submodules; other objects give their attributes. A key
/// that is no text, int or bool is named by its position: "#3". Bytes, sets of Python objects and
/// bare storages are left out. Memory is at most 128 times `pickle_bytes`. Throws
/// ErrorCode::kFormat if values nest deeper than 100 levels, refer to each other in a cycle or
/// without end, if a tensor is malformed, or if two tensors have one name.
TorchTree torch_tree(const PickleValue& root, std::size_t pickle_bytes, std::string_view where);

/// The reference to a storage: ("storage", type, key, location, elements).
struct TorchStorageId {
  std::string_view key;
  std::string type_name;           ///< "FloatStorage"
  std::optional<NumberType> type;  ///< empty if Sluice does not read it
  std::size_t element_bytes = 0;   ///< 0 if the type is not known
};
/// Throws ErrorCode::kFormat for another persistent id, kUnsupported for a view of a storage, which
/// PyTorch before 0.4 wrote.
TorchStorageId torch_storage_id(const PickleValue& value, std::string_view where);

}  // namespace sluice::io::formats
