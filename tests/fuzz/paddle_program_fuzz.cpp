#include <cstdint>
#include <string_view>

#include "io/formats/paddle/paddle_program.h"
#include "sluice/error.h"
#include "touch.h"

namespace sluice::io::formats {
namespace {

void touch_arguments(const PaddleArguments& arguments) {
  for (const auto& [parameter, names] : arguments) {
    touch(parameter);
    for (const std::string& name : names) touch(name);
  }
}

void touch_block(const PaddleBlock& block) {
  for (const PaddleVariable& variable : block.variables) touch(variable.name);
  for (const PaddleOp& op : block.ops) {
    touch(op.type);
    touch_arguments(op.inputs);
    touch_arguments(op.outputs);
    for (const auto& [name, value] : op.attributes) {
      touch(name);
      if (const auto* text = std::get_if<std::string>(&value)) touch(*text);
    }
  }
}

}  // namespace
}  // namespace sluice::io::formats

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::io;
  using namespace sluice::io::formats;
  try {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    for (const PaddleBlock& block : read_paddle_program(ByteSource(input, "fuzz")).blocks) {
      touch_block(block);
    }
  } catch (const sluice::Error&) {
  }
  return 0;
}
