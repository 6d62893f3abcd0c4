// Any bytes as the source of a conversion: recognised, read and made a model of, in memory.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "interchange/assemble.h"
#include "interchange/read_source.h"
#include "interchange/source_format.h"
#include "sluice/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int descriptor = memfd_create("fuzz", 0);
  static const std::filesystem::path path = "/proc/self/fd/" + std::to_string(descriptor);
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) {
    std::abort();
  }
  using namespace sluice::interchange;
  try {
    const SourceFormat format = recognize(path);
    if (format == SourceFormat::kSluice) return 0;
    ReadOptions options;
    for (const char* answer : {"forget_bias=1", "activation=tanh", "nonlinearity=tanh",
                               "recurrent_activation=sigmoid"}) {
      options.answer(answer);
    }
    SourceModel model = read_by_format(path, format, options);
    assemble(model, {});
  } catch (const sluice::Error&) {
  }
  return 0;
}
