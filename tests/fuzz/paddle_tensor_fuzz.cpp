#include <cstdint>
#include <string_view>

#include "io/formats/paddle/paddle_tensor.h"
#include "sluice/error.h"
#include "touch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::io;
  using namespace sluice::io::formats;
  try {
    const ByteSource source(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    for (std::uint64_t offset = 0; offset < size;) {
      const PaddleTensor tensor = find_paddle_tensor(source, offset);
      touch(read_paddle_tensor(source, tensor).data);
      offset = tensor.end;
    }
  } catch (const sluice::Error&) {
  }
  return 0;
}
