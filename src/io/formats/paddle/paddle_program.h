#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/byte_source.h"

namespace sluice::io::formats {

/// An attribute's value (message OpDesc.Attr). std::monostate: the file says no value, as of an
/// empty list. An integer may be the number of a block.
using PaddleAttribute =
    std::variant<std::monostate, std::int64_t, float, bool, std::string, std::vector<std::int64_t>,
                 std::vector<float>, std::vector<bool>, std::vector<std::string>>;

/// The variables that an operation reads or writes, by the name of its parameter: {"X", {"a"}}.
using PaddleArguments = std::map<std::string, std::vector<std::string>, std::less<>>;

/// An operation of a block (message OpDesc).
struct PaddleOp {
  std::string type;  ///< "mul"
  PaddleArguments inputs, outputs;
  std::map<std::string, PaddleAttribute, std::less<>> attributes;

  /// Null if there is none of that name.
  const PaddleAttribute* find(std::string_view attribute) const;
};

/// A variable of a block (message VarDesc).
struct PaddleVariable {
  static constexpr std::int32_t kLodTensor = 7;

  std::string name;
  std::int32_t type = 0;                 ///< kLodTensor, or Paddle's number of another kind
  std::int32_t data_type = 0;            ///< of a kLodTensor, as in paddle_tensor.h
  std::vector<std::int64_t> sizes = {};  ///< of a kLodTensor; -1: not known
  bool is_persistable = false;           ///< a parameter, of which the folder has the numbers
};

/// A block of a program (message BlockDesc). Block 0 is the main one.
struct PaddleBlock {
  std::vector<PaddleVariable> variables;
  std::vector<PaddleOp> ops;  ///< in the order in which they run
};

/// A program of Paddle (message ProgramDesc).
struct PaddleProgram {
  std::vector<PaddleBlock> blocks;
  std::int64_t version = 0;  ///< 1008005 is Paddle 1.8.5; 0: not said
};

/// Reads a program, such as the file "__model__". Operations and variables have names. Memory: at
/// most 64 times the file's size. Errors are ErrorCode::kFormat and name the file and the byte.
PaddleProgram read_paddle_program(const std::filesystem::path& path);
PaddleProgram read_paddle_program(const ByteSource& source);

}  // namespace sluice::io::formats
