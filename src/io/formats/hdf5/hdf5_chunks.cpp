#include "io/formats/hdf5/hdf5_chunks.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "io/formats/hdf5/hdf5_filters.h"

namespace sluice::io::formats {
namespace {

constexpr std::uint8_t kMostLevels = 16;

struct Chunk {
  std::uint64_t address = kHdf5Nowhere;
  std::uint64_t stored_bytes = 0;
  std::uint32_t filter_mask = 0;
  std::vector<std::uint64_t> offset;  ///< of its first element
};

class ChunkReader {
 public:
  ChunkReader(Hdf5Input& input, const Hdf5Dataset& dataset, std::uint64_t limit,
              std::span<std::byte> elements, std::string_view where)
      : input_(input), dataset_(dataset), elements_(elements), where_(where) {
    for (const std::int64_t size : dataset.space.sizes) {
      sizes_.push_back(static_cast<std::uint64_t>(size));
    }
    if (dataset.layout.chunk.size() != sizes_.size()) {
      input.refuse(dataset.layout.address, "chunks have other axes than their dataset");
    }
    measure(limit);
  }

  void read() {
    const Hdf5Layout& layout = dataset_.layout;
    if (layout.address == kHdf5Nowhere || elements_.empty()) return;
    if (layout.kind == Hdf5LayoutKind::kSingleChunk) {
      const std::uint64_t bytes = dataset_.filters.empty() ? chunk_bytes_ : layout.bytes;
      read_chunk({layout.address, bytes, layout.filter_mask,
                  std::vector<std::uint64_t>(sizes_.size(), 0)});
    } else {
      read_node(layout.address, kMostLevels);
    }
  }

 private:
  /// Compares the bytes of all chunks with the limit.
  void measure(std::uint64_t limit) {
    std::uint64_t all = dataset_.type.bytes;
    chunk_bytes_ = dataset_.type.bytes;
    const auto grow = [&](std::uint64_t& bytes, std::uint64_t factor) {
      if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > limit) {
        base::fail(ErrorCode::kFormat,
                   "{}: its chunks have more than {} bytes, far more than the file holds", where_,
                   limit);
      }
    };
    for (std::size_t axis = 0; axis < sizes_.size(); ++axis) {
      const std::uint64_t chunk = dataset_.layout.chunk[axis];
      grow(chunk_bytes_, chunk);
      grow(all, chunk);
      grow(all, std::max<std::uint64_t>((sizes_[axis] + chunk - 1) / chunk, 1));
    }
  }

  /// `above` is the level of the parent.
  void read_node(std::uint64_t address, std::uint8_t above) {
    constexpr std::size_t kHeader = 24;
    const std::string header = input_.take_signed(address, kHeader, "TREE");
    Hdf5Cursor start(input_, header, address);
    start.skip(4);
    const std::uint8_t type = start.u8(), level = start.u8();
    const std::uint16_t count = start.u16();
    if (type != 1 || level >= above) input_.refuse(address, "the B-tree of chunks is malformed");
    const std::size_t entry = 8 + 8 * (sizes_.size() + 1) + 8;
    const std::string entries = input_.take(address + kHeader, entry * count);
    Hdf5Cursor cursor(input_, entries, address + kHeader);
    for (std::uint16_t i = 0; i < count; ++i) {
      Chunk chunk;
      chunk.stored_bytes = cursor.u32();
      chunk.filter_mask = cursor.u32();
      for (std::size_t axis = 0; axis < sizes_.size(); ++axis) chunk.offset.push_back(cursor.u64());
      cursor.skip(8);
      chunk.address = cursor.u64();
      level == 0 ? read_chunk(chunk) : read_node(chunk.address, level);
    }
  }

  void read_chunk(const Chunk& chunk) {
    for (std::size_t axis = 0; axis < sizes_.size(); ++axis) {
      if (chunk.offset[axis] % dataset_.layout.chunk[axis] != 0) {
        input_.refuse(chunk.address, "a chunk begins between the places of chunks");
      }
      // Chunks of a dataset that was made smaller stay in the file.
      if (chunk.offset[axis] >= sizes_[axis]) return;
    }
    // So that the limit bounds the work as well.
    if (!seen_.insert(chunk.offset).second) {
      input_.refuse(chunk.address, "two chunks have one place");
    }
    if (chunk.stored_bytes > input_.size() ||
        (dataset_.filters.empty() && chunk.stored_bytes != chunk_bytes_)) {
      input_.refuse(chunk.address, "a chunk has {} bytes instead of {}", chunk.stored_bytes,
                    chunk_bytes_);
    }
    stored_ += chunk.stored_bytes;
    if (stored_ > input_.size()) input_.refuse(chunk.address, "chunks overlap");
    std::vector<std::byte> stored(static_cast<std::size_t>(chunk.stored_bytes));
    input_.read(chunk.address, stored);
    place(chunk,
          undo_hdf5_filters(std::move(stored), dataset_.filters, chunk.filter_mask,
                            static_cast<std::size_t>(chunk_bytes_), dataset_.type.bytes, where_));
  }

  /// Copies the runs along the innermost axis, those of the chunk that the dataset has.
  void place(const Chunk& chunk, std::span<const std::byte> bytes) {
    const std::size_t axes = sizes_.size(), element = dataset_.type.bytes;
    const std::vector<std::uint64_t>& extent = dataset_.layout.chunk;
    std::vector<std::uint64_t> index(axes, 0);
    const auto visible = [&](std::size_t axis) {
      return std::min(extent[axis], sizes_[axis] - chunk.offset[axis]);
    };
    const std::size_t last = axes - 1;
    const auto run = static_cast<std::size_t>(visible(last)) * element;
    while (true) {
      std::uint64_t from = 0, to = 0;
      for (std::size_t axis = 0; axis < axes; ++axis) {
        from = from * extent[axis] + index[axis];
        to = to * sizes_[axis] + chunk.offset[axis] + index[axis];
      }
      std::memcpy(elements_.data() + to * element, bytes.data() + from * element, run);
      std::size_t axis = last;
      while (axis > 0 && ++index[axis - 1] == visible(axis - 1)) index[--axis] = 0;
      if (axis == 0) return;
    }
  }

  Hdf5Input& input_;
  const Hdf5Dataset& dataset_;
  std::vector<std::uint64_t> sizes_;
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t stored_ = 0;
  std::span<std::byte> elements_;
  std::string_view where_;
  std::set<std::vector<std::uint64_t>> seen_;
};

}  // namespace

void read_hdf5_chunks(Hdf5Input& input, const Hdf5Dataset& dataset, std::uint64_t limit,
                      std::span<std::byte> elements, std::string_view where) {
  ChunkReader(input, dataset, limit, elements, where).read();
}

}  // namespace sluice::io::formats
