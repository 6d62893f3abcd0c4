#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/account.h"
#include "interchange/paddle/paddle_parameters.h"
#include "interchange/paddle/paddle_values.h"
#include "io/formats/paddle/paddle_program.h"

namespace sluice::interchange::paddle {

/// Finds the meaning of each variable of a program's main block, an operation after the other.
/// Reads no numbers. Errors name the operation.
class Walk {
 public:
  /// Borrows all.
  Walk(const io::formats::PaddleBlock& block, const Parameters& parameters, Account& account);

  static bool knows(const io::formats::PaddleOp& op);
  void visit(const io::formats::PaddleOp& op);
  /// Says of the outputs no more than that they are features.
  void pass(const io::formats::PaddleOp& op);

  /// Null if nothing is known of it.
  const Value* find(std::string_view variable) const;
  const Nodes& nodes() const { return nodes_; }
  /// All features that were put next to each other.
  const std::vector<Features>& joined() const { return joined_; }
  /// The features of a variable; a linear layer's output becomes a node.
  Features features_of(const io::formats::PaddleOp& op, const std::string& variable);

 private:
  using Op = io::formats::PaddleOp;
  struct Rule;
  static const Rule* rule_of(const Op& op);

  void feed(const Op& op);
  void fetch(const Op&) {}
  void lookup_table(const Op& op);
  void mul(const Op& op);
  void fc(const Op& op);
  void elementwise_add(const Op& op);
  void sum(const Op& op);
  void activation(const Op& op);
  void softmax(const Op& op);
  void concat(const Op& op);
  void dropout(const Op& op);
  void scale(const Op& op);
  void assign(const Op& op);
  void sequence_pool(const Op& op);
  void recurrence(const Op& op);
  void crf_decoding(const Op& op);
  void arg_max(const Op& op);
  void lod_reset(const Op& op);

  const Value& value_of(const Op& op, const std::string& variable) const;
  const Linear& linear_of(const Op& op, const std::string& variable) const;
  void set(const Op& op, std::string_view output, Value value);
  Features add_node(std::string name, std::int64_t width, decltype(Node::what) what);
  Features join(const Op& op, std::vector<Features> list);
  std::int64_t width_of(const Features& features) const;
  void add_scaled(const Op& op, float scale, float shift);

  std::map<std::string_view, const io::formats::PaddleVariable*> variables_ = {};
  const Parameters& parameters_;
  Account& account_;
  std::map<std::string, Value, std::less<>> values_ = {};
  Nodes nodes_ = {};
  std::vector<Features> joined_ = {};
};

}  // namespace sluice::interchange::paddle
