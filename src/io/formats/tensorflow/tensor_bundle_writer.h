#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/host_tensor.h"

namespace sluice::io::formats {

/// Collects variables and writes them as a tensor bundle of TensorFlow (V2 checkpoint) with one
/// data file, which tf.train.load_checkpoint, tf.compat.v1.train.Saver and, with an object graph
/// (io/formats/object_graph.h), tf.train.Checkpoint read.
class TensorBundleWriter {
 public:
  /// Borrows `data`, which must live and stay unchanged until write(). Refuses an empty name, a
  /// second variable of the same name, and data of another size than dtype and shape say.
  void add(std::string name, DType dtype, const Shape& shape, std::span<const std::byte> data);
  /// A scalar that holds a string, such as the object graph under kObjectGraphKey.
  void add_string(std::string name, std::string_view value);

  /// Writes `<prefix>.data-00000-of-00001` and then `<prefix>.index`, each aside and renamed
  /// (OutputFile).
  void write(const std::filesystem::path& prefix) const;

 private:
  struct Item {
    std::int32_t type = 0;
    Shape shape;
    std::span<const std::byte> data;
    std::string string;  ///< of a string: the bytes of the data file, which `data` then is not
    std::uint32_t checksum = 0;

    std::span<const std::byte> bytes() const {
      return string.empty() ? data : std::as_bytes(std::span(string));
    }
  };

  void add_item(std::string name, Item item);
  std::string index() const;

  std::map<std::string, Item, std::less<>> items_;  ///< in the order of keys
};

}  // namespace sluice::io::formats
