#include "io/formats/pickle/pickle_parser.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "io/little_endian.h"

namespace sluice::io::formats {
namespace {

constexpr std::uint64_t kNewestProtocol = 5;

}  // namespace

PickleParser::PickleParser(std::shared_ptr<const std::string> bytes, std::size_t offset,
                           std::string_view where)
    : bytes_(*bytes), where_(where), begin_(offset), at_(offset), opcode_at_(offset) {
  pickle_.bytes_ = std::move(bytes);
  pickle_.decoded_ = std::make_unique<std::deque<std::string>>();
  pickle_.values_ = std::make_unique<std::deque<PickleValue>>();
  none_ = &make(PickleKind::kNone);
  for (const bool value : {true, false}) {
    PickleValue& made = make(PickleKind::kBool);
    made.scalar_ = value;
    (value ? true_ : false_) = &made;
  }
  empty_tuple_ = &make(PickleKind::kTuple);
  stack_.clear();
}

std::optional<Pickle> PickleParser::parse() {
  try {
    while (!is_done_) {
      opcode_at_ = at_;
      const auto opcode = static_cast<std::uint8_t>(take_number(1));
      if (!run(opcode)) refuse("there is no opcode 0x{:02x}; is this a pickle?", opcode);
    }
  } catch (const CutOff&) {
    return std::nullopt;
  }
  pickle_.size_ = at_ - begin_;
  return std::move(pickle_);
}

void PickleParser::refuse_feature(std::string_view feature) const {
  base::fail(ErrorCode::kUnsupported, "{}: the pickle has {} at its byte {}, which is not read",
             where_, feature, opcode_at_ - begin_);
}

std::string_view PickleParser::take(std::uint64_t count) {
  if (count > bytes_.size() - at_) throw CutOff();
  const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(count));
  at_ += taken.size();
  return taken;
}

std::string_view PickleParser::take_line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) throw CutOff();
  const std::string_view line = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return line;
}

std::uint64_t PickleParser::take_number(std::size_t bytes) { return little_endian(take(bytes)); }

PickleValue& PickleParser::make(PickleKind kind) {
  PickleValue& value = pickle_.values_->emplace_back();
  value.kind_ = kind;
  push(&value);
  return value;
}

const PickleValue* PickleParser::top() const {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
    refuse("the opcode takes more values than there are");
  }
  return stack_.back();
}

const PickleValue* PickleParser::pop() {
  const PickleValue* value = top();
  stack_.pop_back();
  return value;
}

PickleValue::Items PickleParser::pop_to_mark() {
  if (marks_.empty()) refuse("the opcode needs a mark, and there is none");
  const auto mark = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  marks_.pop_back();
  PickleValue::Items items(mark, stack_.end());
  stack_.erase(mark, stack_.end());
  return items;
}

PickleValue& PickleParser::mutable_top() { return const_cast<PickleValue&>(*top()); }

bool PickleParser::run(std::uint8_t opcode) {
  return run_binary_text(opcode) || run_memo(opcode) || run_scalar(opcode) ||
         run_container(opcode) || run_change(opcode) || run_object(opcode) || run_stack(opcode) ||
         run_lines(opcode);
}

bool PickleParser::run_scalar(std::uint8_t opcode) {
  switch (opcode) {
    case 'N':
      push(none_);
      return true;
    case 0x88:
    case 0x89:
      push_bool(opcode == 0x88);
      return true;
    case 'J':
      push_integer(static_cast<std::int32_t>(take_number(4)));
      return true;
    case 'K':
    case 'M':
      push_integer(static_cast<std::int64_t>(take_number(opcode == 'K' ? 1 : 2)));
      return true;
    case 0x8a:
    case 0x8b:
      push_long(take(take_number(opcode == 0x8a ? 1 : 4)));
      return true;
    case 'G':  // big-endian
      make(PickleKind::kFloat).scalar_ =
          std::bit_cast<double>(__builtin_bswap64(take_number(sizeof(double))));
      return true;
    default:
      return false;
  }
}

/// Two's complement, little-endian, of any length; a longer one that fits 64 bits is kInt as well.
void PickleParser::push_long(std::string_view bytes) {
  const char sign = !bytes.empty() && (bytes.back() & 0x80) != 0 ? '\xff' : '\0';
  std::string_view needed = bytes;
  while (needed.size() > sizeof(std::int64_t) && needed.back() == sign &&
         ((needed[needed.size() - 2] ^ sign) & 0x80) == 0) {
    needed.remove_suffix(1);
  }
  if (needed.size() > sizeof(std::int64_t)) return push_text(PickleKind::kBigInt, bytes);
  std::uint64_t value = sign == 0 ? 0 : ~std::uint64_t{0};
  for (std::size_t i = 0; i < needed.size(); ++i) {
    value &= ~(std::uint64_t{0xff} << (8 * i));
    value |= std::uint64_t{static_cast<unsigned char>(needed[i])} << (8 * i);
  }
  push_integer(static_cast<std::int64_t>(value));
}

bool PickleParser::run_binary_text(std::uint8_t opcode) {
  struct Form {
    std::uint8_t opcode;
    PickleKind kind;
    std::size_t length_bytes;
  };
  static constexpr Form kForms[] = {
      {'X', PickleKind::kString, 4},     {0x8c, PickleKind::kString, 1},
      {0x8d, PickleKind::kString, 8},    {'B', PickleKind::kBytes, 4},
      {'C', PickleKind::kBytes, 1},      {0x8e, PickleKind::kBytes, 8},
      {0x96, PickleKind::kBytes, 8},     {'U', PickleKind::kByteString, 1},
      {'T', PickleKind::kByteString, 4},
  };
  for (const Form& form : kForms) {
    if (form.opcode != opcode) continue;
    push_text(form.kind, take(take_number(form.length_bytes)));
    return true;
  }
  return false;
}

void PickleParser::push_items(PickleKind kind, PickleValue::Items items) {
  if (kind == PickleKind::kTuple && items.empty()) return push(empty_tuple_);
  if (kind == PickleKind::kDict && items.size() % 2 != 0) refuse("a dict has a key without value");
  make(kind).items_ = std::move(items);
}

void PickleParser::push_last(std::size_t count) {
  PickleValue::Items items(count);
  while (count > 0) items[--count] = pop();
  push_items(PickleKind::kTuple, std::move(items));
}

bool PickleParser::run_container(std::uint8_t opcode) {
  switch (opcode) {
    case ')':
      push(empty_tuple_);
      return true;
    case 0x85:
    case 0x86:
    case 0x87:
      push_last(opcode - 0x84U);
      return true;
    case 't':
      push_items(PickleKind::kTuple, pop_to_mark());
      return true;
    case 'l':
    case ']':
      push_items(PickleKind::kList, opcode == 'l' ? pop_to_mark() : PickleValue::Items());
      return true;
    case 'd':
    case '}':
      push_items(PickleKind::kDict, opcode == 'd' ? pop_to_mark() : PickleValue::Items());
      return true;
    case 0x8f:
    case 0x91:
      push_items(PickleKind::kSet, opcode == 0x91 ? pop_to_mark() : PickleValue::Items());
      return true;
    default:
      return false;
  }
}

void PickleParser::append(PickleValue::Items items) {
  PickleValue* list = &mutable_top();
  if (list->is(PickleKind::kObject)) {
    if (list->elements() == nullptr) {
      PickleValue& made = make(PickleKind::kList);
      pop();
      list->set_part(PickleValue::kElements, &made);
    }
    list = const_cast<PickleValue*>(list->elements());
  } else if (!list->is(PickleKind::kList)) {
    refuse("an element is appended to something that is no list");
  }
  list->items_.insert(list->items_.end(), items.begin(), items.end());
}

void PickleParser::set_items(const PickleValue::Items& items) {
  if (items.size() % 2 != 0) refuse("a dict has a key without value");
  PickleValue* dict = &mutable_top();
  if (dict->is(PickleKind::kObject)) {
    if (dict->entries() == nullptr) {
      PickleValue& made = make(PickleKind::kDict);
      pop();
      dict->set_part(PickleValue::kEntries, &made);
    }
    dict = const_cast<PickleValue*>(dict->entries());
  } else if (!dict->is(PickleKind::kDict)) {
    refuse("a key is set in something that is no dict");
  }
  dict->items_.insert(dict->items_.end(), items.begin(), items.end());
}

bool PickleParser::run_change(std::uint8_t opcode) {
  switch (opcode) {
    case 'a':
      append({pop()});
      return true;
    case 'e':
      append(pop_to_mark());
      return true;
    case 's': {
      const PickleValue* value = pop();
      const PickleValue* key = pop();
      set_items({key, value});
      return true;
    }
    case 'u':
      set_items(pop_to_mark());
      return true;
    case 0x90: {
      const PickleValue::Items items = pop_to_mark();
      PickleValue& set = mutable_top();
      if (!set.is(PickleKind::kSet)) refuse("an element is added to something that is no set");
      set.items_.insert(set.items_.end(), items.begin(), items.end());
      return true;
    }
    case 'b':
      build();
      return true;
    default:
      return false;
  }
}

void PickleParser::build() {
  const PickleValue* state = pop();
  PickleValue& object = mutable_top();
  if (!object.is(PickleKind::kObject)) {
    refuse_feature("a state for something that no call has made");
  }
  if (object.state() != nullptr) refuse_feature("a second state for one object");
  object.set_part(PickleValue::kState, state);
}

void PickleParser::push_global(std::string_view module, std::string_view name) {
  push_text(PickleKind::kString, module);
  push_text(PickleKind::kString, name);
  const PickleValue* second = pop();
  const PickleValue* first = pop();
  make(PickleKind::kGlobal).items_ = {first, second};
}

void PickleParser::push_object(const PickleValue* callable, const PickleValue* arguments) {
  make(PickleKind::kObject).items_ = {callable, arguments};
}

void PickleParser::push_persistent_id(const PickleValue* id) {
  make(PickleKind::kPersistentId).items_ = {id};
}

bool PickleParser::run_object(std::uint8_t opcode) {
  switch (opcode) {
    case 0x93: {
      const PickleValue* name = pop();
      const PickleValue* module = pop();
      if (!name->is_text() || !module->is_text()) refuse("the name of a class is no text");
      make(PickleKind::kGlobal).items_ = {module, name};
      return true;
    }
    case 'R':
    case 0x81: {
      const PickleValue* arguments = pop();
      push_object(pop(), arguments);
      return true;
    }
    case 0x92: {
      const PickleValue* keywords = pop();
      const PickleValue* arguments = pop();
      push_object(pop(), arguments);
      mutable_top().set_part(PickleValue::kKeywords, keywords);
      return true;
    }
    case 'o': {
      PickleValue::Items items = pop_to_mark();
      if (items.empty()) refuse("an object has no class");
      const PickleValue* callable = items.front();
      items.erase(items.begin());
      push_items(PickleKind::kTuple, std::move(items));
      push_object(callable, pop());
      return true;
    }
    case 'Q':
      push_persistent_id(pop());
      return true;
    default:
      return false;
  }
}

void PickleParser::remember(std::uint64_t index) {
  // Picklers count from 0 or 1, so a larger one would only ask for memory.
  if (index > bytes_.size() - begin_) refuse("the memo's index {} is too large", index);
  const auto place = static_cast<std::size_t>(index);
  if (memo_.size() <= place) memo_.resize(place + 1);
  if (memo_[place] == nullptr) ++remembered_;
  memo_[place] = top();
}

void PickleParser::recall(std::uint64_t index) {
  if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)] == nullptr) {
    refuse("nothing has the memo's index {}", index);
  }
  push(memo_[static_cast<std::size_t>(index)]);
}

bool PickleParser::run_memo(std::uint8_t opcode) {
  switch (opcode) {
    case 'q':
    case 'r':
      remember(take_number(opcode == 'q' ? 1 : 4));
      return true;
    case 0x94:
      remember(remembered_);
      return true;
    case 'h':
    case 'j':
      recall(take_number(opcode == 'h' ? 1 : 4));
      return true;
    default:
      return false;
  }
}

bool PickleParser::run_stack(std::uint8_t opcode) {
  switch (opcode) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case '.':
      pickle_.root_ = pop();
      is_done_ = true;
      return true;
    case '0':  // CPython's takes a mark as well
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
      } else {
        pop();
      }
      return true;
    case '1':
      pop_to_mark();
      return true;
    case '2':
      push(top());
      return true;
    case 0x80:
      if (const std::uint64_t protocol = take_number(1); protocol > kNewestProtocol) {
        refuse("its protocol is {}; known are 0 to {}", protocol, kNewestProtocol);
      }
      return true;
    case 0x95:
      if (const std::uint64_t bytes = take_number(8); bytes > bytes_.size() - at_) throw CutOff();
      return true;
    case 0x82:
    case 0x83:
    case 0x84:
      refuse_feature("an extension code");
    case 0x97:
    case 0x98:
      refuse_feature("an out-of-band buffer");
    default:
      return false;
  }
}

}  // namespace sluice::io::formats
