#pragma once

#include <map>
#include <string>
#include <string_view>

/// The names that Keras 3 gives to objects in model.weights.h5.
namespace sluice::interchange::keras {

/// "lstm_cell" for "LSTMCell": the group of the objects of a class.
std::string snake_case(std::string_view name);

/// Numbers the objects of a list: "lstm", "lstm_1", "lstm_2".
class Counter {
 public:
  std::string unique(const std::string& name);

 private:
  std::map<std::string, int> counts_;
};

}  // namespace sluice::interchange::keras
