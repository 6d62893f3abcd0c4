#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "interchange/source_model.h"
#include "io/formats/paddle/paddle_program.h"

namespace sluice::interchange::paddle {

/// The output of a node, or one vector of it for a sequence.
struct Part {
  std::size_t node = 0;      ///< an index of Nodes
  std::string pooling = {};  ///< "", "first", "last", "mean" or "max"

  auto operator<=>(const Part&) const = default;
};

/// Outputs of nodes, next to each other.
using Features = std::vector<Part>;

/// The sum of features times matrices, and a bias: a fully connected layer.
struct Linear {
  struct Term {
    Features input;
    std::string weight;  ///< a parameter [in, out]
  };
  std::string name;
  std::vector<Term> terms;
  std::string bias = {};  ///< a parameter, or empty
  Activation activation{"linear"};
};

/// A feed of ids.
struct Ids {
  std::string name;
};

/// Labels that are answered, which Sluice finds itself.
struct Answers {
  Features scores;
  std::string transitions = {};  ///< a parameter of a CRF, or empty
};

/// The meaning of a variable.
using Value = std::variant<Ids, Features, Linear, Answers>;

/// A step of the model that puts out numbers.
struct Node {
  struct Feed {};
  struct Unknown {};  ///< before a recurrent layer that is taken alone
  struct Embedding {
    std::string table;
    std::int64_t padding = -1;  ///< the id whose output is zero; -1: none
  };
  struct Scaling {
    Features input;
    float scale = 1, shift = 0;
  };
  struct Recurrence {
    const io::formats::PaddleOp* op = nullptr;
    Linear input;
    bool is_reverse = false;
  };

  std::string name;        ///< the variable
  std::int64_t width = 0;  ///< 0: not known
  std::variant<Feed, Unknown, Embedding, Linear, Scaling, Recurrence> what = {};
};
using Nodes = std::vector<Node>;

/// The features that all terms read.
Features input_of(const Linear& linear);
/// Whether two directions of one layer stand there, and which is first.
enum class Pair { kNone, kForwardFirst, kBackwardFirst };
Pair pair_of(const Nodes& nodes, const Features& features);
/// "gru_0" of the parameter "gru_0.w_0".
std::string layer_name(const std::string& parameter);
/// "'a', 'b'": at most 8 names.
std::string quoted(const std::vector<std::string>& names);

}  // namespace sluice::interchange::paddle
