#include "io/formats/tensorflow/sorted_table.h"

#include <fmt/format.h>

#include <cstring>
#include <map>

#include "io/crc32c.h"
#include "model_fixtures.h"

namespace sluice::io::formats {
namespace {

using Entries = std::map<std::string, std::string>;

std::string table_of(const Entries& entries) {
  SortedTableWriter writer;
  for (const auto& [key, value] : entries) writer.add(key, value);
  return writer.finish();
}

Entries read(const std::string& bytes) {
  Entries entries;
  SortedTable::open(ByteSource(bytes, "t"))
      .visit([&](std::string_view key, std::string_view value) {
        entries.emplace(key, value);
        return true;
      });
  return entries;
}

std::string varint(std::size_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
  return bytes + static_cast<char>(value);
}

std::string u32(std::uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

/// An entry of a block.
std::string entry(std::size_t shared, const std::string& key, const std::string& value) {
  return varint(shared) + varint(key.size()) + varint(value.size()) + key + value;
}

/// A block with its trailer.
std::string sealed(const std::string& block, char type = 0) {
  const std::string bytes = block + type;
  return bytes + u32(masked_crc32c(bytes));
}

std::string block_of(const std::string& entries) { return entries + u32(0) + u32(1); }

/// A table of one data block and of an index that names it under `last_key`.
std::string table_of_block(const std::string& block, const std::string& last_key, char type = 0) {
  const std::string meta = sealed(block_of("")), data = sealed(block, type);
  const std::string index =
      sealed(block_of(entry(0, last_key, varint(meta.size()) + varint(block.size()))));
  std::string footer = varint(0) + varint(meta.size() - 5) + varint(meta.size() + data.size()) +
                       varint(index.size() - 5);
  footer.resize(40, '\0');
  const std::uint64_t magic = 0xdb4775248b80fb57;
  footer.append(reinterpret_cast<const char*>(&magic), sizeof(magic));
  return meta + data + index + footer;
}

TEST(SortedTable, ReadsBackWhatItWrites) {
  Entries entries{{"", "header"}};
  // Several blocks, shared prefixes, binary keys.
  for (int i = 0; i < 3000; ++i) {
    entries.emplace(fmt::format("layer/{:04}/kernel", i * 7), std::string(300, 'v'));
  }
  entries.emplace(std::string("\0\xff\1", 3), std::string());
  const std::string bytes = table_of(entries);
  EXPECT_EQ(read(bytes), entries);
  const SortedTable table = SortedTable::open(ByteSource(bytes, "t"));
  for (const auto& [key, value] : entries) EXPECT_EQ(table.find(key), value);
  for (const char* key : {"a", "layer/0000/kerne", "layer/0001/kernel", "zz"}) {
    EXPECT_EQ(table.find(key), std::nullopt) << key;
  }
}

TEST(SortedTable, AnEmptyOneHasNoEntries) {
  const std::string bytes = table_of({});
  EXPECT_TRUE(read(bytes).empty());
  EXPECT_EQ(SortedTable::open(ByteSource(bytes, "t")).find(""), std::nullopt);
}

TEST(SortedTable, TheWriterWantsAscendingKeys) {
  SortedTableWriter writer;
  writer.add("", "");
  writer.add("b", "");
  expect_refusal(ErrorCode::kInvalidArgument, "ascend", [&] { writer.add("b", ""); });
}

TEST(SortedTable, DamagedBytesAreRefused) {
  const std::string bytes = table_of({{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(read(bytes).size(), 2u);
  // Each byte but the footer's padding matters.
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    // Ten bytes of handles, or fewer, stand before the padding.
    if (i >= bytes.size() - 48 + 4 && i < bytes.size() - 8) continue;
    EXPECT_THROW(read(damaged), Error) << i;
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(error_of([&] { read(bytes.substr(0, size)); }).code(), ErrorCode::kFormat) << size;
  }
}

TEST(SortedTable, BlocksThatLieAreRefused) {
  const std::string a = entry(0, "a", "1");
  EXPECT_EQ(read(table_of_block(block_of(a), "a")), (Entries{{"a", "1"}}));
  const auto refused = [](const std::string& block, const char* says) {
    expect_refusal(ErrorCode::kFormat, says, [&] { read(table_of_block(block, "z")); });
  };
  refused(block_of(a + a), "do not ascend");
  refused(block_of(entry(0, "b", "") + a), "do not ascend");
  refused(block_of(entry(1, "a", "")), "shares more than there is");
  refused(block_of(a + entry(2, "b", "")), "shares more than there is");
  refused(block_of(varint(0) + varint(2) + varint(0) + "a"), "beyond its end");
  refused(block_of(varint(0) + varint(1) + varint(99) + "a"), "beyond its end");
  refused("", "restart points");
  refused(a + u32(0), "restart points");
  refused(a + u32(0) + u32(9), "restart points");
  refused(a + u32(0) + u32(0xffffffff), "restart points");
  refused(a + u32(1) + u32(1), "does not begin with a restart point");
  refused(a + u32(0) + u32(2) + u32(2), "where no entry begins");
  refused(a + entry(1, "b", "") + u32(0) + u32(5) + u32(2), "a shared key");
  expect_refusal(ErrorCode::kFormat, "outside its range",
                 [&] { read(table_of_block(block_of(entry(0, "b", "")), "a")); });
  expect_refusal(ErrorCode::kUnsupported, "compressed (snappy)",
                 [&] { read(table_of_block(block_of(a), "a", 1)); });
}

/// Keys that share a long prefix would come to a hundred times the file's size.
TEST(SortedTable, KeysFarLongerThanTheFileAreRefused) {
  std::string block = entry(0, std::string(8000, 'k'), "");
  for (int i = 1; i < 3000; ++i) {
    block +=
        varint(8000) + varint(2) + varint(0) + static_cast<char>(i >> 8) + static_cast<char>(i);
  }
  const std::string table = table_of_block(block_of(block), "z");
  const AllocationWatch watch;
  expect_refusal(ErrorCode::kFormat, "spells out keys", [&] { read(table); });
  EXPECT_LE(watch.peak(), 64 * table.size() + 65536);
}

}  // namespace
}  // namespace sluice::io::formats
