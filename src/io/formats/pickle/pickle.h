#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice::io::formats {

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  ///< an int beyond 64 bits; text() has its two's complement, little-endian
  kFloat,
  kString,      ///< UTF-8
  kByteString,  ///< a str of Python 2: bytes that may be text
  kBytes,       ///< bytes or bytearray
  kTuple,
  kList,
  kDict,
  kSet,           ///< set or frozenset
  kGlobal,        ///< the name of a class or function
  kObject,        ///< the result of a call that the pickle asks for
  kPersistentId,  ///< a reference to something outside of the pickle
};

/// One value of a pickle. Values refer to each other by pointers into the Pickle, which must
/// outlive them. References may be shared and may form cycles: code that follows them bounds its
/// depth and the number of its steps.
class PickleValue {
 public:
  using Items = std::vector<const PickleValue*>;

  PickleKind kind() const { return kind_; }
  bool is(PickleKind kind) const { return kind_ == kind; }
  bool is_text() const { return is(PickleKind::kString) || is(PickleKind::kByteString); }
  /// Whether it is the name of this class or function, such as "torch.FloatStorage".
  bool is_global(std::string_view name) const;
  /// Whether it is an object that a call of this class or function makes.
  bool is_call_of(std::string_view name) const;

  bool truth() const { return std::get<bool>(scalar_); }                    ///< of kBool
  std::int64_t integer() const { return std::get<std::int64_t>(scalar_); }  ///< of kInt
  double number() const { return std::get<double>(scalar_); }               ///< of kFloat
  /// The content of kString, kByteString, kBytes and kBigInt.
  std::string_view text() const { return std::get<std::string_view>(scalar_); }

  /// The elements of kTuple, kList and kSet; keys and values of kDict by turns; the id of
  /// kPersistentId.
  std::span<const PickleValue* const> items() const { return items_; }
  /// The value of a text key of kDict, or null; the last one of a key that stands there twice.
  const PickleValue* find(std::string_view key) const;

  /// "module.name" of kGlobal.
  std::string global_name() const;

  /// The parts of kObject. A part that the pickle does not give is null.
  const PickleValue* callable() const { return items_[kCallable]; }
  const PickleValue* arguments() const { return items_[kArguments]; }  ///< usually a tuple
  const PickleValue* state() const { return part(kState); }            ///< what BUILD sets
  const PickleValue* keywords() const { return part(kKeywords); }      ///< of NEWOBJ_EX
  const PickleValue* entries() const { return part(kEntries); }        ///< a dict: obj[key] = value
  const PickleValue* elements() const { return part(kElements); }  ///< a list: obj.append(value)

 private:
  friend class PickleParser;
  enum Part : std::size_t { kCallable, kArguments, kState, kKeywords, kEntries, kElements };

  const PickleValue* part(Part part) const { return part < items_.size() ? items_[part] : nullptr; }
  void set_part(Part part, const PickleValue* value);

  PickleKind kind_ = PickleKind::kNone;
  std::variant<std::monostate, bool, std::int64_t, double, std::string_view> scalar_;
  Items items_;
};

/// The content of a pickle of protocol 0 to 5 as plain data. Nothing is executed or imported: a
/// class or function is a name, a call is a record of its name and arguments. Parsing does not
/// recurse. Memory is at most 128 times the size of the pickle. Throws ErrorCode::kFormat for a
/// damaged pickle, kUnsupported for extension codes and out-of-band buffers.
class Pickle {
 public:
  /// `where` names the pickle in messages: "'model.pt' member 'archive/data.pkl'". Bytes behind
  /// the end of the pickle are ignored.
  static Pickle parse(std::string bytes, std::string_view where);
  /// A pickle that begins at byte `offset` of `bytes`; empty if the bytes end before it does.
  static std::optional<Pickle> parse_prefix(std::shared_ptr<const std::string> bytes,
                                            std::size_t offset, std::string_view where);

  const PickleValue& root() const { return *root_; }
  /// The number of bytes of the pickle.
  std::size_t size() const { return size_; }
  /// All values that the pickle makes, in the order of their making.
  const std::deque<PickleValue>& values() const { return *values_; }

 private:
  friend class PickleParser;
  Pickle() = default;

  std::shared_ptr<const std::string> bytes_;
  std::unique_ptr<std::deque<std::string>> decoded_;
  std::unique_ptr<std::deque<PickleValue>> values_;
  const PickleValue* root_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sluice::io::formats
