#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "io/formats/pickle/pickle.h"

namespace sluice::io::formats {

/// The stack machine of pickles; Pickle's functions are its only callers.
class PickleParser {
 public:
  PickleParser(std::shared_ptr<const std::string> bytes, std::size_t offset,
               std::string_view where);

  /// Empty if the bytes end before the pickle does.
  std::optional<Pickle> parse();

 private:
  /// Thrown where the bytes end.
  struct CutOff {};

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    base::fail(ErrorCode::kFormat, "{}: the pickle is damaged at its byte {}: {}", where_,
               opcode_at_ - begin_, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse_feature(std::string_view feature) const;

  // Bytes and numbers; they throw CutOff.
  std::string_view take(std::uint64_t count);
  std::string_view take_line();
  std::uint64_t take_number(std::size_t bytes);

  // The stack.
  void push(const PickleValue* value) { stack_.push_back(value); }
  PickleValue& make(PickleKind kind);
  void push_text(PickleKind kind, std::string_view text) { make(kind).scalar_ = text; }
  void push_integer(std::int64_t value) { make(PickleKind::kInt).scalar_ = value; }
  void push_bool(bool value) { push(value ? true_ : false_); }
  const PickleValue* pop();
  const PickleValue* top() const;
  /// The values above the last mark, which is removed.
  PickleValue::Items pop_to_mark();
  /// The value on top, which is to be changed. Only values made by this parser are there.
  PickleValue& mutable_top();

  // Groups of opcodes; each returns false for an opcode that is not its own.
  bool run(std::uint8_t opcode);
  bool run_scalar(std::uint8_t opcode);
  bool run_binary_text(std::uint8_t opcode);
  bool run_lines(std::uint8_t opcode);
  bool run_container(std::uint8_t opcode);
  bool run_change(std::uint8_t opcode);
  bool run_object(std::uint8_t opcode);
  bool run_memo(std::uint8_t opcode);
  bool run_stack(std::uint8_t opcode);

  void push_long(std::string_view bytes);
  void push_decimal(std::string_view line);
  void push_float_line(std::string_view line);
  void push_quoted(std::string_view line);
  void push_escaped(std::string_view line);
  void push_global(std::string_view module, std::string_view name);
  void push_object(const PickleValue* callable, const PickleValue* arguments);
  void push_persistent_id(const PickleValue* id);
  void push_items(PickleKind kind, PickleValue::Items items);
  void push_last(std::size_t count);
  void append(PickleValue::Items items);
  void set_items(const PickleValue::Items& items);
  void build();
  void remember(std::uint64_t index);
  void recall(std::uint64_t index);
  std::uint64_t index_line();

  Pickle pickle_;
  std::string_view bytes_;
  std::string_view where_;
  std::size_t begin_;
  std::size_t at_;
  std::size_t opcode_at_;
  std::vector<const PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::vector<const PickleValue*> memo_;
  std::size_t remembered_ = 0;
  bool is_done_ = false;
  // Shared, since a byte of a pickle makes one.
  const PickleValue *none_, *true_, *false_, *empty_tuple_;
};

}  // namespace sluice::io::formats
