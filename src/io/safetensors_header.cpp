#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/check.h"

namespace sluice::io {
namespace {

using base::DType;
using nlohmann::json;

struct FormatDType {
  std::string_view name;
  std::uint64_t size;
  std::optional<DType> dtype;
};

constexpr std::array kDTypes{
    FormatDType{"F64", 8, DType::kFloat64},
    FormatDType{"F32", 4, DType::kFloat32},
    FormatDType{"BF16", 2, DType::kBFloat16},
    FormatDType{"F16", 2, DType::kFloat16},
    FormatDType{"I64", 8, DType::kInt64},
    FormatDType{"I32", 4, DType::kInt32},
    FormatDType{"U8", 1, DType::kUInt8},
    FormatDType{"BOOL", 1, {}},
    FormatDType{"I8", 1, DType::kInt8},
    FormatDType{"I16", 2, {}},
    FormatDType{"U16", 2, {}},
    FormatDType{"U32", 4, {}},
    FormatDType{"U64", 8, {}},
    FormatDType{"C64", 8, {}},
    FormatDType{"F8_E4M3", 1, {}},
    FormatDType{"F8_E5M2", 1, {}},
    FormatDType{"F8_E8M0", 1, {}},
};

const FormatDType* find_dtype(std::string_view name) {
  const auto* found = std::find_if(kDTypes.begin(), kDTypes.end(),
                                   [&](const FormatDType& entry) { return entry.name == name; });
  return found == kDTypes.end() ? nullptr : found;
}

/// Builds the header from parse events. The state says what may come next; everything else is
/// refused at once, so nesting is never deeper than {tensor: {shape: [number]}}.
class HeaderBuilder final : public json::json_sax_t {
 public:
  explicit HeaderBuilder(std::string_view file) : file_(file) {}

  SafetensorsHeader take() { return std::move(header_); }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    base::fail(ErrorCode::kFormat, "'{}': {}", file_,
               fmt::format(format, std::forward<Args>(args)...));
  }

  bool null() override { misplaced("null"); }
  bool boolean(bool /*value*/) override { misplaced("a boolean"); }
  bool number_integer(number_integer_t value) override {
    refuse("{} holds the negative number {}", where(), value);
  }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    refuse("{} holds {}, which is no 64-bit integer", where(), quote_name(text));
  }
  bool binary(binary_t& /*value*/) override { misplaced("binary data"); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool start_object(std::size_t /*elements*/) override;
  bool key(string_t& value) override;
  bool end_object() override;
  bool start_array(std::size_t /*elements*/) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& /*reason*/) override {
    refuse("the header is not valid JSON at its byte {}", position);
  }

 private:
  enum class State { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };
  enum Field : unsigned { kNone = 0, kDType = 1, kSizes = 2, kRange = 4, kAll = 7 };

  [[noreturn]] void misplaced(std::string_view what) const {
    refuse("{} holds {} where the format allows none", where(), what);
  }
  std::string where() const;
  void start_field(const std::string& name);

  std::string_view file_;
  State state_ = State::kStart;
  std::set<std::string, std::less<>> names_;
  std::string key_;  ///< of kTop or kMetadata
  Field field_ = kNone;
  unsigned fields_seen_ = 0;
  SafetensorsEntry entry_;
  std::size_t offsets_seen_ = 0;
  SafetensorsHeader header_;
};

std::string HeaderBuilder::where() const {
  switch (state_) {
    case State::kTensor:
      return fmt::format("tensor {}", quote_name(entry_.name));
    case State::kShape:
      return fmt::format("the shape of tensor {}", quote_name(entry_.name));
    case State::kOffsets:
      return fmt::format("data_offsets of tensor {}", quote_name(entry_.name));
    case State::kMetadata:
      return "__metadata__";
    default:
      return "the header";
  }
}

bool HeaderBuilder::number_unsigned(number_unsigned_t value) {
  if (state_ == State::kShape) {
    if (value > INT64_MAX) refuse("{} holds {}, which is too large", where(), value);
    if (entry_.sizes.size() == kMostSafetensorsAxes) {
      refuse("tensor {} has more than {} axes", quote_name(entry_.name), kMostSafetensorsAxes);
    }
    entry_.sizes.push_back(static_cast<std::int64_t>(value));
  } else if (state_ == State::kOffsets) {
    if (offsets_seen_ == 2) refuse("{} holds more than 2 numbers", where());
    (offsets_seen_++ == 0 ? entry_.begin : entry_.end) = value;
  } else {
    misplaced("a number");
  }
  return true;
}

bool HeaderBuilder::string(string_t& value) {
  if (state_ == State::kMetadata) {
    header_.metadata[key_] = std::move(value);
  } else if (state_ == State::kTensor && field_ == kDType) {
    const FormatDType* found = find_dtype(value);
    if (found == nullptr) refuse("{} has the unknown dtype {}", where(), quote_name(value));
    entry_.dtype = found->dtype;
    entry_.dtype_name = std::move(value);
    field_ = kNone;
  } else {
    misplaced("a string");
  }
  return true;
}

bool HeaderBuilder::start_object(std::size_t /*elements*/) {
  if (state_ == State::kStart) {
    state_ = State::kTop;
  } else if (state_ == State::kTop && key_ == "__metadata__") {
    state_ = State::kMetadata;
  } else if (state_ == State::kTop) {
    state_ = State::kTensor;
    entry_ = {};
    entry_.name = key_;
    fields_seen_ = 0;
    field_ = kNone;
  } else {
    misplaced("an object");
  }
  return true;
}

void HeaderBuilder::start_field(const std::string& name) {
  field_ = name == "dtype"          ? kDType
           : name == "shape"        ? kSizes
           : name == "data_offsets" ? kRange
                                    : kNone;
  if (field_ == kNone) refuse("{} has the unknown key {}", where(), quote_name(name));
  if ((fields_seen_ & field_) != 0) refuse("{} has the key {} twice", where(), quote_name(name));
  fields_seen_ |= field_;
}

bool HeaderBuilder::key(string_t& value) {
  if (state_ == State::kTensor) {
    start_field(value);
    return true;
  }
  key_ = std::move(value);
  const bool is_new =
      state_ == State::kMetadata ? !header_.metadata.contains(key_) : names_.insert(key_).second;
  if (!is_new) refuse("{} has the key {} twice", where(), quote_name(key_));
  return true;
}

bool HeaderBuilder::end_object() {
  if (state_ == State::kTensor) {
    if (fields_seen_ != kAll) {
      refuse("{} lacks one of dtype, shape and data_offsets", where());
    }
    header_.tensors.push_back(std::move(entry_));
  }
  state_ = state_ == State::kTop ? State::kEnd : State::kTop;
  return true;
}

bool HeaderBuilder::start_array(std::size_t /*elements*/) {
  if (state_ != State::kTensor || (field_ != kSizes && field_ != kRange)) misplaced("an array");
  state_ = field_ == kSizes ? State::kShape : State::kOffsets;
  offsets_seen_ = 0;
  field_ = kNone;
  return true;
}

bool HeaderBuilder::end_array() {
  if (state_ == State::kOffsets && offsets_seen_ != 2) {
    refuse("{} holds {} numbers instead of 2", where(), offsets_seen_);
  }
  state_ = State::kTensor;
  return true;
}

/// Bytes that dtype and shape ask for.
std::uint64_t stated_size(const HeaderBuilder& builder, const SafetensorsEntry& entry) {
  std::uint64_t size = find_dtype(entry.dtype_name)->size;
  for (const std::int64_t axis : entry.sizes) {
    if (__builtin_mul_overflow(size, static_cast<std::uint64_t>(axis), &size)) {
      builder.refuse("the shape of tensor {} is too large: its size overflows 64 bits",
                     quote_name(entry.name));
    }
  }
  return size;
}

void check_entry(const HeaderBuilder& builder, const SafetensorsEntry& entry,
                 std::uint64_t buffer_size) {
  if (entry.begin <= entry.end && entry.end > buffer_size) {
    builder.refuse(
        "tensor {} ends at byte {} of the data, of which there are {}: the file is cut off, or its "
        "header is wrong",
        quote_name(entry.name), entry.end, buffer_size);
  }
  if (entry.begin > entry.end) {
    builder.refuse("data_offsets [{}, {}] of tensor {} do not lie in the buffer of {} bytes",
                   entry.begin, entry.end, quote_name(entry.name), buffer_size);
  }
  const std::uint64_t stated = stated_size(builder, entry);
  if (stated != entry.byte_size()) {
    builder.refuse("tensor {} has {} bytes of data, but its dtype and shape ask for {}",
                   quote_name(entry.name), entry.byte_size(), stated);
  }
}

/// The tensors, sorted by where their data begins, must follow each other without gap or overlap.
void check_cover(const HeaderBuilder& builder, const std::vector<SafetensorsEntry>& tensors,
                 std::uint64_t buffer_size) {
  std::uint64_t covered = 0;
  for (const SafetensorsEntry& entry : tensors) {
    if (entry.begin != covered) {
      builder.refuse("the data of tensor {} begins at byte {}, but {} at byte {}",
                     quote_name(entry.name), entry.begin,
                     entry.begin > covered ? "a hole begins" : "the tensor before it ends",
                     covered);
    }
    covered = entry.end;
  }
  if (covered != buffer_size) {
    builder.refuse("the tensors cover {} bytes of a buffer of {}", covered, buffer_size);
  }
}

/// A JSON string; invalid UTF-8 is refused.
std::string json_string(std::string_view text) {
  try {
    return json(text).dump();
  } catch (const json::type_error&) {
    base::fail(ErrorCode::kInvalidArgument,
               "a safetensors header takes UTF-8 only; {} bytes of text are not", text.size());
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view file, std::string_view text,
                                           std::uint64_t buffer_size) {
  HeaderBuilder builder(file);
  if (!text.starts_with('{')) builder.refuse("the header does not begin with '{{'");
  // The JSON parser takes a zero byte for the end of its input and would not look behind it.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) builder.refuse("the header has a zero byte at {}", zero);
  json::sax_parse(text, &builder);

  SafetensorsHeader header = builder.take();
  for (const SafetensorsEntry& entry : header.tensors) check_entry(builder, entry, buffer_size);
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_cover(builder, header.tensors, buffer_size);
  return header;
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  std::string text = "{";
  if (!header.metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : header.metadata) {
      text += json_string(key) + ":" + json_string(value) + ",";
    }
    text.back() = '}';
    text += ',';
  }
  for (const SafetensorsEntry& entry : header.tensors) {
    text += fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}},)",
                        json_string(entry.name), entry.dtype_name, json(entry.sizes).dump(),
                        entry.begin, entry.end);
  }
  if (text.size() == 1) text += ' ';
  text.back() = '}';
  text.resize(base::align_up(text.size(), 8), ' ');
  return text;
}

std::string_view safetensors_name(DType dtype) {
  const auto* found = std::find_if(kDTypes.begin(), kDTypes.end(),
                                   [&](const FormatDType& entry) { return entry.dtype == dtype; });
  SLUICE_ASSERT(found != kDTypes.end());
  return found->name;
}

std::string quote_name(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  std::size_t length = std::min(name.size(), kLongest);
  // Not in the middle of a UTF-8 sequence.
  while (length < name.size() && length > 0 && (name[length] & 0xc0) == 0x80) --length;
  std::string text = "'";
  text += name.substr(0, length);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text + (name.size() > kLongest ? "...'" : "'");
}

}  // namespace sluice::io
