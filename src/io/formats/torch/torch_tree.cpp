#include "io/formats/torch/torch_tree.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "io/formats/pickle/numpy_pickle.h"
#include "io/formats/torch/torch_tensors.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

constexpr int kMostLevels = 100;
// Memory that a visit, a value and a tensor take, generously, without their names and texts.
constexpr std::size_t kVisitCost = 64, kValueCost = 128, kTensorCost = 512;
constexpr std::size_t kBudgetFactor = 128, kLeastBudget = 64 << 10;

class TreeBuilder {
 public:
  TreeBuilder(std::size_t pickle_bytes, std::string_view where)
      : budget_(kBudgetFactor * pickle_bytes + kLeastBudget), where_(where) {}

  TorchTree build(const PickleValue& root) {
    visit(root);
    require_unique();
    return std::move(tree_);
  }

 private:
  void charge(std::size_t cost);
  void visit(const PickleValue& value);
  void visit_child(std::string_view key, const PickleValue& value);
  void visit_elements(const PickleValue& list);
  void visit_dict(const PickleValue& dict);
  void visit_object(const PickleValue& object);
  void visit_attributes(const PickleValue& object);
  void visit_module(const PickleValue& state);
  bool visit_wrapped(const PickleValue& object);
  bool visit_ordered_dict(const PickleValue& object);
  void add_tensor(TorchTensor tensor);
  void add_array(const PickleValue& array);
  void add_number(const PickleValue& scalar);
  template <typename T>
  void add_value(T value, std::size_t cost = 0) {
    charge(kValueCost + name_.size() + cost);
    tree_.values.push_back({name_, std::move(value)});
  }
  void require_unique() const;
  std::string place() const { return std::string(where_) + " at " + quote_name(name_); }

  TorchTree tree_;
  std::string name_;
  int level_ = 0;
  std::size_t budget_;
  std::string_view where_;
};

void TreeBuilder::charge(std::size_t cost) {
  if (cost > budget_) {
    base::fail(ErrorCode::kFormat,
               "{}: its values refer to each other more often than a file of its size needs; save "
               "a state dict of the model alone",
               where_);
  }
  budget_ -= cost;
}

void TreeBuilder::visit(const PickleValue& value) {
  charge(kVisitCost);
  switch (value.kind()) {
    case PickleKind::kNone:
      return add_value(std::monostate());
    case PickleKind::kBool:
      return add_value(value.truth());
    case PickleKind::kInt:
      return add_value(value.integer());
    case PickleKind::kFloat:
      return add_value(value.number());
    case PickleKind::kString:
    case PickleKind::kByteString:
      return add_value(std::string(value.text()), value.text().size());
    case PickleKind::kGlobal:
      return add_value(value.global_name(),
                       value.items()[0]->text().size() + value.items()[1]->text().size());
    case PickleKind::kTuple:
    case PickleKind::kList:
    case PickleKind::kSet:
      return visit_elements(value);
    case PickleKind::kDict:
      return visit_dict(value);
    case PickleKind::kObject:
      return visit_object(value);
    case PickleKind::kBigInt:
    case PickleKind::kBytes:
    case PickleKind::kPersistentId:
      return;
  }
}

void TreeBuilder::visit_child(std::string_view key, const PickleValue& value) {
  if (++level_ > kMostLevels) {
    base::fail(ErrorCode::kFormat,
               "{}: values nest deeper than {} levels, or in a cycle; save a state dict of the "
               "model alone",
               where_, kMostLevels);
  }
  const std::size_t length = name_.size();
  charge(key.size() + 1);
  if (!name_.empty()) name_ += '.';
  name_ += key;
  visit(value);
  name_.resize(length);
  --level_;
}

void TreeBuilder::visit_elements(const PickleValue& list) {
  std::size_t index = 0;
  for (const PickleValue* element : list.items()) visit_child(std::to_string(index++), *element);
}

void TreeBuilder::visit_dict(const PickleValue& dict) {
  const auto items = dict.items();
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const PickleValue& key = *items[i];
    if (key.is_text() && key.text() == "_flat_weights") {
      continue;  // a scripted LSTM lists its weights once more
    }
    if (key.is_text()) {
      visit_child(key.text(), *items[i + 1]);
    } else if (key.is(PickleKind::kInt)) {
      visit_child(std::to_string(key.integer()), *items[i + 1]);
    } else if (key.is(PickleKind::kBool)) {
      visit_child(key.truth() ? "True" : "False", *items[i + 1]);
    } else {
      visit_child("#" + std::to_string(i / 2), *items[i + 1]);
    }
  }
}

/// Calls that give their first argument, or something that differs from it in type alone.
bool TreeBuilder::visit_wrapped(const PickleValue& object) {
  static constexpr std::string_view kWrappers[] = {"torch._utils._rebuild_parameter",
                                                   "torch._utils._rebuild_parameter_with_state",
                                                   "torch.Size",
                                                   "torch.jit._pickle.build_intlist",
                                                   "torch.jit._pickle.build_tensorlist",
                                                   "torch.jit._pickle.build_doublelist",
                                                   "torch.jit._pickle.build_boollist",
                                                   "torch.jit._pickle.restore_type_tag",
                                                   "torch.jit._pickle.build_tensor_from_id"};
  const bool is_wrapper = std::any_of(std::begin(kWrappers), std::end(kWrappers),
                                      [&](auto name) { return object.is_call_of(name); });
  const PickleValue* arguments = object.arguments();
  if (!is_wrapper || !arguments->is(PickleKind::kTuple) || arguments->items().empty()) return false;
  if (++level_ > kMostLevels) {
    base::fail(ErrorCode::kFormat, "{}: values nest deeper than {} levels, or in a cycle", where_,
               kMostLevels);
  }
  visit(*arguments->items()[0]);
  --level_;
  return true;
}

/// Python 2 gives the entries as a list of pairs: OrderedDict([[key, value], …]).
bool TreeBuilder::visit_ordered_dict(const PickleValue& object) {
  if (!object.is_call_of("collections.OrderedDict")) return false;
  if (object.entries() != nullptr) visit_dict(*object.entries());
  const PickleValue* arguments = object.arguments();
  if (!arguments->is(PickleKind::kTuple) || arguments->items().size() != 1) return true;
  const auto pairs = arguments->items()[0]->items();
  charge(pairs.size());
  for (const PickleValue* pair : pairs) {
    const bool is_pair =
        pair != nullptr && pair->is(PickleKind::kList) && pair->items().size() == 2;
    if (is_pair && pair->items()[0]->is_text()) {
      visit_child(pair->items()[0]->text(), *pair->items()[1]);
    }
  }
  return true;
}

void TreeBuilder::visit_object(const PickleValue& object) {
  if (is_torch_tensor(object)) return add_tensor(torch_tensor(object, place()));
  if (is_numpy_array(object)) return add_array(object);
  if (is_numpy_scalar(object)) return add_number(object);
  if (visit_wrapped(object) || visit_ordered_dict(object)) return;
  visit_attributes(object);
}

void TreeBuilder::visit_attributes(const PickleValue& object) {
  const PickleValue* state = object.state();
  const bool has_dict = state != nullptr && state->is(PickleKind::kDict);
  if (has_dict) charge(state->items().size());
  if (has_dict && state->find("_parameters") != nullptr && state->find("_modules") != nullptr) {
    return visit_module(*state);
  }
  if (has_dict) visit_dict(*state);
  if (object.entries() != nullptr) visit_dict(*object.entries());
  if (object.elements() != nullptr) visit_elements(*object.elements());
  const bool is_call = state == nullptr && object.entries() == nullptr;
  if (is_call && object.arguments()->is(PickleKind::kTuple)) visit_elements(*object.arguments());
}

/// Other tensors of a module, such as an LSTM's flat list, are the same ones once more.
void TreeBuilder::visit_module(const PickleValue& state) {
  const auto items = state.items();
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const PickleValue &key = *items[i], &value = *items[i + 1];
    if (!key.is_text()) continue;
    const std::string_view name = key.text();
    const bool is_members = name == "_parameters" || name == "_buffers" || name == "_modules";
    if (is_members && value.is(PickleKind::kDict)) {
      visit_dict(value);
    } else if (is_members && value.is(PickleKind::kObject)) {
      visit_ordered_dict(value);
    } else if (!name.starts_with('_') && value.kind() < PickleKind::kBytes) {
      visit_child(name, value);
    }
  }
}

void TreeBuilder::add_tensor(TorchTensor tensor) {
  charge(kTensorCost + 2 * name_.size() + tensor.storage.size() + tensor.refusal.size() +
         16 * tensor.view.sizes.size());
  tensor.name = name_;
  tree_.tensors.push_back(std::move(tensor));
}

void TreeBuilder::add_array(const PickleValue& array) {
  TorchTensor tensor;
  try {
    HostTensor content = tensor_of_numpy(array, place());
    tensor.dtype_name = base::name_of(content.dtype);
    tensor.view.sizes.assign(content.shape.begin(), content.shape.end());
    charge(content.data.size());
    tensor.content = std::move(content);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    tensor.refusal = "it is an array of NumPy of a kind that is not read";
  }
  add_tensor(std::move(tensor));
}

void TreeBuilder::add_number(const PickleValue& scalar) {
  HostTensor number;
  try {
    number = tensor_of_numpy(scalar, place());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return;
  }
  switch (number.dtype) {
    case DType::kFloat64:
      return add_value(number.values<double>()[0]);
    case DType::kFloat32:
      return add_value(static_cast<double>(number.values<float>()[0]));
    case DType::kInt64:
      return add_value(number.values<std::int64_t>()[0]);
    case DType::kInt32:
      return add_value(std::int64_t{number.values<std::int32_t>()[0]});
    case DType::kUInt8:
      return add_value(std::int64_t{number.values<std::uint8_t>()[0]});
    default:
      return;
  }
}

void TreeBuilder::require_unique() const {
  std::set<std::string_view> names;
  for (const TorchTensor& tensor : tree_.tensors) {
    if (names.insert(tensor.name).second) continue;
    base::fail(ErrorCode::kFormat,
               "{}: two tensors have the name {}; save a state dict of the "
               "model alone",
               where_, quote_name(tensor.name));
  }
}

}  // namespace

TorchTree torch_tree(const PickleValue& root, std::size_t pickle_bytes, std::string_view where) {
  return TreeBuilder(pickle_bytes, where).build(root);
}

}  // namespace sluice::io::formats
