// Any bytes as a PyTorch file, and as data.pkl of a well-formed one, whose checksum would keep most
// damage from being parsed.
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "io/formats/torch/torch_file.h"
#include "sluice/error.h"

namespace {

void append(std::string& bytes, std::uint64_t number, int size) {
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
}

/// The directory entry of a stored member; writes the member to `file`.
std::string add_member(std::string& file, std::string_view name, std::string_view content) {
  const std::size_t offset = file.size();
  std::string shared;
  append(shared, 20, 2);  // version; no flags, stored, no time
  append(shared, 0, 8);
  append(shared, crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()), 4);
  append(shared, content.size(), 4);
  append(shared, content.size(), 4);
  append(shared, name.size(), 2);
  append(shared, 0, 2);
  file.append("PK\x03\x04").append(shared).append(name).append(content);
  std::string entry = "PK\x01\x02";
  append(entry, 20, 2);
  entry += shared;
  entry.append(10, '\0');
  append(entry, offset, 4);
  return entry.append(name);
}

std::string zip_of(std::string_view pickle) {
  std::string file, directory = add_member(file, "a/data.pkl", pickle);
  int count = 1;
  for (const char* key : {"0", "1", "2"}) {
    directory += add_member(file, std::string("a/data/") + key, std::string(64, 'x'));
    ++count;
  }
  const std::size_t begin = file.size();
  file += directory + "PK\x05\x06";
  append(file, 0, 4);
  append(file, static_cast<std::uint64_t>(count), 2);
  append(file, static_cast<std::uint64_t>(count), 2);
  append(file, directory.size(), 4);
  append(file, begin, 4);
  append(file, 0, 2);
  return file;
}

/// Reads everything from a file in memory.
void read_all(std::string_view bytes) {
  static const int descriptor = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const auto size = static_cast<ssize_t>(bytes.size());
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, bytes.data(), bytes.size(), 0) != size) {
    std::abort();
  }
  try {
    auto file = sluice::io::formats::TorchFile::open(path);
    for (const auto& tensor : file.tensors()) {
      try {
        file.read(tensor);
      } catch (const sluice::Error&) {
      }
    }
  } catch (const sluice::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_all(bytes);
  if (!bytes.starts_with("PK")) read_all(zip_of(bytes));
  return 0;
}
