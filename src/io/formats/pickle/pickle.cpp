#include "io/formats/pickle/pickle.h"

#include "io/formats/pickle/pickle_parser.h"

namespace sluice::io::formats {

bool PickleValue::is_global(std::string_view name) const {
  if (!is(PickleKind::kGlobal)) return false;
  const std::string_view module = items_[0]->text(), member = items_[1]->text();
  return name.size() == module.size() + 1 + member.size() && name.starts_with(module) &&
         name[module.size()] == '.' && name.ends_with(member);
}

bool PickleValue::is_call_of(std::string_view name) const {
  return is(PickleKind::kObject) && callable()->is_global(name);
}

const PickleValue* PickleValue::find(std::string_view key) const {
  const PickleValue* found = nullptr;
  for (std::size_t i = 0; i + 1 < items_.size(); i += 2) {
    if (items_[i]->is_text() && items_[i]->text() == key) found = items_[i + 1];
  }
  return found;
}

std::string PickleValue::global_name() const {
  return std::string(items_[0]->text()) + "." + std::string(items_[1]->text());
}

void PickleValue::set_part(Part part, const PickleValue* value) {
  if (items_.size() <= part) items_.resize(part + 1);
  items_[part] = value;
}

Pickle Pickle::parse(std::string bytes, std::string_view where) {
  const auto shared = std::make_shared<const std::string>(std::move(bytes));
  std::optional<Pickle> pickle = parse_prefix(shared, 0, where);
  if (!pickle) {
    base::fail(ErrorCode::kFormat,
               "{}: the pickle is cut off: its {} bytes end before its STOP; copy the file again",
               where, shared->size());
  }
  return std::move(*pickle);
}

std::optional<Pickle> Pickle::parse_prefix(std::shared_ptr<const std::string> bytes,
                                           std::size_t offset, std::string_view where) {
  return PickleParser(std::move(bytes), offset, where).parse();
}

}  // namespace sluice::io::formats
