#include "loaded.h"

namespace sluice::python {
namespace {

nb::dict to_dict(const std::vector<std::pair<std::string, std::string>>& pairs) {
  nb::dict dict;
  for (const auto& [name, value] : pairs) dict[to_text(name)] = to_text(value);
  return dict;
}

}  // namespace

nb::str to_text(const std::string& text) {
  PyObject* made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (made == nullptr) nb::raise_python_error();
  return nb::steal<nb::str>(made);
}

nb::object to_python(const ModelInfo& info) {
  nb::dict dict;
  dict["path"] = to_text(info.path);
  dict["kind"] = to_text(info.kind);
  dict["configuration"] = to_text(info.configuration);
  dict["parameters"] = info.parameters;
  dict["stored"] = to_text(info.stored);
  dict["vocabularies"] = to_dict(info.vocabularies);
  dict["tensors"] = to_dict(info.tensors);
  dict["explanation"] = to_text(info.explanation);
  return dict;
}

nb::object to_python(const PlanCacheUse& use) {
  nb::dict dict;
  dict["plans"] = use.plans;
  dict["bytes"] = use.bytes;
  dict["plans_made"] = use.plans_made;
  dict["weights_packed"] = use.weights_packed;
  return dict;
}

}  // namespace sluice::python
