#include <cstdint>
#include <cstdlib>
#include <string>

#include "io/formats/tensorflow/sorted_table.h"
#include "sluice/error.h"
#include "table_checksums.h"
#include "touch.h"

namespace sluice::io::formats {
namespace {

void read_table(const std::string& bytes) {
  try {
    const SortedTable table = SortedTable::open(ByteSource(bytes, "fuzz"));
    table.visit([&](std::string_view key, std::string_view value) {
      touch(key);
      touch(value);
      if (table.find(key) != value) std::abort();
      return true;
    });
    table.find("no such key");
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace sluice::io::formats

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  sluice::io::formats::read_table(bytes);
  sluice::io::formats::TableChecksums::repair(bytes);
  sluice::io::formats::read_table(bytes);
  return 0;
}
