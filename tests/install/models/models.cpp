// Every C++ header of the installed Sluice, which prefix_test.sh lists.
#include <iostream>

#include "all_headers.h"

// An error crosses from the library to its caller.
int main() {
  try {
    sluice::kind_of_model("no such folder");
  } catch (const sluice::Error& error) {
    std::cout << error.what() << '\n';
    return error.code() == sluice::ErrorCode::kNotFound ? 0 : 1;
  }
  return 1;
}
