#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::io::formats {

/// The variable under which checkpoints of TensorFlow 2 store their object graph.
inline constexpr std::string_view kObjectGraphKey = "_CHECKPOINTABLE_OBJECT_GRAPH";
/// The end of the key of an object's value.
inline constexpr std::string_view kVariableValueSuffix = "/.ATTRIBUTES/VARIABLE_VALUE";

/// The objects whose variables a checkpoint of TensorFlow 2 holds (message TrackableObjectGraph).
/// Object 0 is the one that was saved. Objects may refer to each other in circles.
struct ObjectGraph {
  struct Child {
    std::string name;
    std::int32_t object = 0;  ///< always a valid index
  };
  struct Value {
    std::string name;       ///< "VARIABLE_VALUE"
    std::string full_name;  ///< of the variable, such as "lstm/kernel"; may be empty
    std::string key;        ///< the name in the checkpoint
  };
  /// A variable that an optimizer keeps for another one.
  struct Slot {
    std::string name;  ///< such as "m"
    std::int32_t original = 0;
    std::int32_t variable = 0;  ///< both are always valid indices
  };
  struct Object {
    std::vector<Child> children;
    std::vector<Value> values;
    std::vector<Slot> slots;
  };
  std::vector<Object> objects;

  /// The full name of each key that has one.
  std::map<std::string, std::string> full_names() const;
};

/// Decodes the string that a checkpoint has under kObjectGraphKey. Errors are ErrorCode::kFormat
/// and begin with `file`. Memory: at most 64 times the bytes.
ObjectGraph read_object_graph(std::string_view bytes, std::string_view file);

std::string write_object_graph(const ObjectGraph& graph);

/// The graph of variables that lie in nested objects: "encoder/kernel" is the child "kernel" of the
/// child "encoder" of object 0. Its key is the path followed by kVariableValueSuffix, its full name
/// the path.
ObjectGraph object_graph_of(const std::vector<std::string>& paths);

}  // namespace sluice::io::formats
