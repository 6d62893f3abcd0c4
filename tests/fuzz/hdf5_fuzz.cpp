// Any bytes as an HDF5 file. Compile the library with FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION, so
// that checksums do not refuse what is damaged before it is parsed.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/formats/hdf5/hdf5.h"
#include "sluice/error.h"

namespace {

using sluice::Error;
using namespace sluice::io::formats;

/// Calls `body`, which may refuse.
template <typename Body>
void attempt(const Body& body) {
  try {
    body();
  } catch (const Error&) {
  }
}

void touch(Hdf5File& file, const std::string& path) {
  attempt([&] { file.kind(path); });
  attempt([&] {
    for (const std::string& name : file.attribute_names(path)) {
      attempt([&] { file.attribute(path, name); });
    }
  });
}

void visit(Hdf5File& file, const std::string& path, int level) {
  touch(file, path);
  if (level == 0) return;
  attempt([&] {
    for (const std::string& name : file.children(path)) {
      visit(file, path + "/" + name, level - 1);
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  attempt([&] {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    Hdf5File file = Hdf5File::open(sluice::io::ByteSource(bytes, "fuzz"));
    visit(file, "", 3);
    for (const std::string& path : file.dataset_paths()) {
      attempt([&] { file.describe(path); });
      attempt([&] { file.read(path); });
      touch(file, path);
    }
  });
  return 0;
}
