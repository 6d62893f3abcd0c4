#include "interchange/paddle/paddle_op.h"

#include <fmt/format.h>

namespace sluice::interchange::paddle {

using io::formats::PaddleArguments;
using io::formats::PaddleAttribute;
using io::formats::PaddleOp;

namespace {

const std::string& only(const PaddleOp& op, const PaddleArguments& arguments,
                        std::string_view parameter) {
  const auto found = arguments.find(parameter);
  if (found == arguments.end() || found->second.size() != 1) {
    base::fail(ErrorCode::kFormat, "{} has not one variable as '{}'", describe(op), parameter);
  }
  return found->second[0];
}

template <typename T>
T attribute(const PaddleOp& op, std::string_view name, T otherwise) {
  const PaddleAttribute* value = op.find(name);
  if (value == nullptr || std::holds_alternative<std::monostate>(*value)) return otherwise;
  const T* found = std::get_if<T>(value);
  if (found == nullptr) {
    base::fail(ErrorCode::kFormat, "{}: the attribute '{}' is of another kind", describe(op), name);
  }
  return *found;
}

}  // namespace

std::string describe(const PaddleOp& op) {
  for (const std::string_view first : {"Out", "Hidden"}) {
    const auto found = op.outputs.find(first);
    if (found != op.outputs.end() && !found->second.empty()) {
      return fmt::format("operation {} ('{}')", op.type, found->second[0]);
    }
  }
  for (const auto& [parameter, names] : op.outputs) {
    if (!names.empty()) return fmt::format("operation {} ('{}')", op.type, names[0]);
  }
  return "operation " + op.type;
}

void refuse(const PaddleOp& op, std::string_view why) {
  base::fail(ErrorCode::kUnsupported, "{} {}", describe(op), why);
}

const std::string& only_input(const PaddleOp& op, std::string_view parameter) {
  return only(op, op.inputs, parameter);
}
const std::string& only_output(const PaddleOp& op, std::string_view parameter) {
  return only(op, op.outputs, parameter);
}

bool has_input(const PaddleOp& op, std::string_view parameter) {
  const auto found = op.inputs.find(parameter);
  return found != op.inputs.end() && !found->second.empty();
}
void refuse_input(const PaddleOp& op, std::string_view parameter) {
  if (has_input(op, parameter)) {
    refuse(op, fmt::format("has the input '{}', which Sluice does not read", parameter));
  }
}

std::int64_t int_of(const PaddleOp& op, std::string_view name, std::int64_t otherwise) {
  return attribute(op, name, otherwise);
}
bool bool_of(const PaddleOp& op, std::string_view name, bool otherwise) {
  return attribute(op, name, otherwise);
}
float float_of(const PaddleOp& op, std::string_view name, float otherwise) {
  return attribute(op, name, otherwise);
}
std::string text_of(const PaddleOp& op, std::string_view name, std::string_view otherwise) {
  return attribute(op, name, std::string(otherwise));
}

}  // namespace sluice::interchange::paddle
