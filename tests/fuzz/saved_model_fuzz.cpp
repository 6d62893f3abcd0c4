#include <cstdint>
#include <string_view>

#include "io/formats/tensorflow/saved_model.h"
#include "sluice/error.h"
#include "touch_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::io;
  using namespace sluice::io::formats;
  try {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const SavedModel model = read_saved_model(ByteSource(input, "fuzz"));
    for (const MetaGraph& graph : model.graphs) {
      touch(graph.graph);
      for (const auto& [name, signature] : graph.signatures) {
        touch(name + signature.method);
        for (const auto& [key, tensor] : signature.inputs) touch(key + tensor.name);
        for (const auto& [key, tensor] : signature.outputs) touch(key + tensor.name);
      }
    }
    // A model that was read once can be written and read again: an error here is a bug.
    const std::string bytes = write_saved_model(model);
    if (write_saved_model(read_saved_model(ByteSource(bytes, "again"))) != bytes) __builtin_trap();
  } catch (const sluice::Error& error) {
    if (std::string_view(error.what()).find("'again'") != std::string_view::npos) __builtin_trap();
  }
  return 0;
}
