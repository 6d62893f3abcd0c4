#include <cstdint>
#include <string_view>

#include "io/formats/tensorflow/graph_def.h"
#include "sluice/error.h"
#include "touch_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::io;
  using namespace sluice::io::formats;
  try {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const GraphDef graph = read_graph_def(ByteSource(input, "fuzz"));
    touch(graph);
    // A model that was read once can be written and read again: an error here is a bug.
    const std::string bytes = write_graph_def(graph);
    if (write_graph_def(read_graph_def(ByteSource(bytes, "again"))) != bytes) __builtin_trap();
  } catch (const sluice::Error& error) {
    if (std::string_view(error.what()).find("'again'") != std::string_view::npos) __builtin_trap();
  }
  return 0;
}
