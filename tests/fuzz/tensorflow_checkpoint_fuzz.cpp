#include <cstdint>
#include <cstring>
#include <string>

#include "io/formats/tensorflow/object_graph.h"
#include "io/formats/tensorflow/sorted_table.h"
#include "io/formats/tensorflow/tensorflow_checkpoint.h"
#include "sluice/error.h"
#include "table_checksums.h"
#include "touch.h"

namespace sluice::io::formats {
namespace {

template <typename Call>
void allow_refusal(Call&& call) {
  try {
    call();
  } catch (const Error&) {
  }
}

void read_checkpoint(const std::string& table, const std::string& shard) {
  const auto open_shard = [&](std::uint32_t, std::uint32_t) { return ByteSource(shard, "shard"); };
  const TensorflowCheckpoint checkpoint =
      TensorflowCheckpoint::open(ByteSource(table, "fuzz"), open_shard);
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    touch(tensor.name);
    touch(std::as_bytes(std::span(tensor.sizes)));
    allow_refusal([&] { touch(checkpoint.read(tensor.name).data); });
    allow_refusal([&] {
      for (const std::string& text : checkpoint.read_strings(tensor.name)) {
        touch(text);
        for (const auto& [key, name] : read_object_graph(text, "fuzz").full_names()) touch(name);
      }
    });
  }
}

}  // namespace
}  // namespace sluice::io::formats

/// The input is a V1 file, or an index, its data file and, in 4 bytes, the index's size.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::io;
  using namespace sluice::io::formats;
  std::string table(reinterpret_cast<const char*>(data), size), shard;
  std::uint32_t bytes = 0;
  if (size >= sizeof(bytes) && !SortedTable::recognise(ByteSource(table, "fuzz"))) {
    std::memcpy(&bytes, data + size - sizeof(bytes), sizeof(bytes));
    table.resize(size - sizeof(bytes));
    if (bytes < table.size()) {
      shard = table.substr(bytes);
      table.resize(bytes);
    }
  }
  allow_refusal([&] { read_checkpoint(table, shard); });
  TableChecksums::repair(table);
  allow_refusal([&] { read_checkpoint(table, shard); });
  return 0;
}
