#include <cstdint>
#include <string_view>

#include "io/formats/tensorflow/object_graph.h"
#include "sluice/error.h"
#include "touch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::io::formats;
  try {
    const ObjectGraph graph =
        read_object_graph({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const auto& [key, name] : graph.full_names()) touch(key + name);
    // A model that was read once can be written and read again: an error here is a bug.
    const std::string bytes = write_object_graph(graph);
    if (write_object_graph(read_object_graph(bytes, "again")) != bytes) __builtin_trap();
  } catch (const sluice::Error& error) {
    if (std::string_view(error.what()).find("'again'") != std::string_view::npos) __builtin_trap();
  }
  return 0;
}
