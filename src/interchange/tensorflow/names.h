#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Names of variables: "encoder/rnn/multi_rnn_cell/cell_0/lstm_cell/kernel".
namespace sluice::interchange::tensorflow {

std::vector<std::string> split(std::string_view text, char separator);
std::string joined(const std::vector<std::string>& parts, std::string_view separator);
std::string lower(std::string_view text);
/// "a/b" of "a/b/c"; empty if there is no scope.
std::string scope_of(std::string_view name);
/// "c" of "a/b/c".
std::string last_of(std::string_view name);
/// Whether `name` is `scope` or lies in it.
bool lies_in(std::string_view name, std::string_view scope);

/// A name with its number: "lstm_cell_12" and "Cell12" have 12, "lstm_cell" has none.
struct NumberedName {
  std::string stem;
  std::optional<int> number;
};
NumberedName numbered(std::string_view component);
/// The layer that MultiRNNCell or stack_bidirectional_rnn numbers: 3 of "cell_3".
std::optional<int> layer_number(std::string_view component);

/// Up to `most` names, for a message.
std::string listed(const std::vector<std::string>& names, std::size_t most = 12);

}  // namespace sluice::interchange::tensorflow
