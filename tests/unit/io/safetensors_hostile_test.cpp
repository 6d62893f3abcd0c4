#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <random>

#include "allocation_watch.h"
#include "io/safetensors.h"
#include "temporary_folder.h"

namespace sluice::io {
namespace {

using namespace std::string_literals;

/// The 8 bytes before the header.
std::string prefix(std::uint64_t length) {
  return {reinterpret_cast<const char*>(&length), sizeof(length)};
}

/// A file of this header and so many bytes of data.
std::string file_of(const std::string& json, std::size_t buffer_size) {
  std::string bytes = prefix(json.size()) + json;
  bytes.resize(bytes.size() + buffer_size, 'd');
  return bytes;
}

/// A file with one tensor 'a' of this description.
std::string tensor_file(const std::string& dtype, const std::string& shape,
                        const std::string& offsets, std::size_t buffer_size) {
  return file_of(
      R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
      buffer_size);
}

std::string entry(const std::string& name, int begin, int end) {
  return fmt::format(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name,
                     end - begin, begin, end);
}

void write_plainly(const std::filesystem::path& path, const std::string& bytes) {
  // Emptying a file that has content makes some file systems flush it at close.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

/// Opens the file and reads every tensor; throws only Error. Checks that what loads is what the
/// file holds, and that memory stays within a small multiple of the file: the header's text, its
/// parsed form (a number of one digit becomes 8 bytes) and the data.
void load(const std::filesystem::path& path, std::size_t file_size) {
  const AllocationWatch watch;
  try {
    const SafetensorsFile file = SafetensorsFile::open(path);
    std::uint64_t sum = 0;
    for (const SafetensorsEntry& tensor : file.tensors()) {
      sum += tensor.byte_size();
      if (!tensor.dtype || tensor.sizes.size() > Shape::kMaxRank) {
        EXPECT_EQ(error_of([&] { file.read(tensor.name); }).code(), ErrorCode::kUnsupported);
        continue;
      }
      const HostTensor loaded = file.read(tensor.name);
      EXPECT_EQ(loaded.data.size(), tensor.byte_size());
      EXPECT_EQ(loaded.data.size(), static_cast<std::size_t>(loaded.shape.element_count()) *
                                        base::size_of(loaded.dtype));
    }
    EXPECT_LE(sum, file_size);
  } catch (...) {
    EXPECT_LE(watch.peak(), 16 * file_size + 16'384);
    throw;
  }
  EXPECT_LE(watch.peak(), 16 * file_size + 16'384);
}

struct BadFile {
  const char* name;
  std::string bytes;
  const char* says;  ///< a part of the message
};

std::vector<BadFile> truncated_and_oversized() {
  const std::string good = file_of("{" + entry("a", 0, 4) + "}", 4);
  const std::string json = "{" + entry("a", 0, 4) + "}";
  return {
      {"nothing", "", "0 bytes are too short"},
      {"part of the length", good.substr(0, 7), "7 bytes are too short"},
      {"length only", good.substr(0, 8), "but only 0 follow"},
      {"half the header", good.substr(0, 30), "but only 22 follow"},
      {"header without its end", good.substr(0, good.size() - 5), "follow"},
      {"no data", good.substr(0, good.size() - 4), "of which there are 0: the file is cut off"},
      {"data cut", good.substr(0, good.size() - 1), "of which there are 3: the file is cut off"},
      {"data too long", good + "x", "cover 4 bytes of a buffer of 5"},
      {"data far too long", good + std::string(5000, 'x'), "cover 4 bytes of a buffer of 5004"},
      {"length one too long", prefix(json.size() + 5) + json + "dddd", "header states a length"},
      {"length at the limit", prefix(100'000'000) + json + "dddd", "a length of 100000000 bytes"},
      {"length above the limit", prefix(100'000'001) + json, "at most 100000000"},
      {"length of 2^63", prefix(1ULL << 63) + json, "at most 100000000"},
      {"length of 2^64 - 1", prefix(UINT64_MAX) + json, "18446744073709551615"},
      {"length of 2^64 - 8", prefix(UINT64_MAX - 7) + json, "18446744073709551608"},
      {"length of zero", prefix(0) + json, "does not begin with '{'"},
      {"length into the header", prefix(10) + json + "dddd", "not valid JSON"},
      {"length into the data", prefix(json.size() + 1) + json + "dddd", "not valid JSON"},
      {"a text file", "This is no tensor file at all, but text.", "is this a safetensors file?"},
      {"zeros", std::string(4096, '\0'), "does not begin with '{'"},
      {"ones", std::string(4096, '\xff'), "18446744073709551615"},
  };
}

std::vector<BadFile> malformed_json() {
  const std::string a = entry("a", 0, 4);
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  std::string deep_objects = "{\"a\":";
  for (int i = 0; i < 100'000; ++i) deep_objects += "{\"a\":";
  return {
      {"an array", file_of("[]", 0), "does not begin with '{'"},
      {"a space before", file_of(" {}", 0), "does not begin with '{'"},
      {"a byte order mark", file_of("\xef\xbb\xbf{}", 0), "does not begin with '{'"},
      {"not closed", file_of("{" + a, 4), "not valid JSON"},
      {"closed twice", file_of("{" + a + "}}", 4), "not valid JSON"},
      {"two documents", file_of("{" + a + "}{}", 4), "not valid JSON"},
      {"comma at the end", file_of("{" + a + ",}", 4), "not valid JSON"},
      {"a comment", file_of("{/* */" + a + "}", 4), "not valid JSON"},
      {"single quotes", file_of("{'a':1}", 0), "not valid JSON"},
      {"padded with zeros", file_of("{" + a + "}\0\0\0"s, 4), "zero byte"},
      {"hidden behind a zero", file_of("{" + a + "}\0garbage"s, 4), "zero byte"},
      {"padded with letters", file_of("{" + a + "}xx", 4), "not valid JSON"},
      {"bad UTF-8", file_of("{\"\xff\xfe\":1}", 0), "not valid JSON"},
      {"overlong UTF-8", file_of("{\"\xc0\xaf\":1}", 0), "not valid JSON"},
      {"lone surrogate", file_of(R"({"\ud800":1})", 0), "not valid JSON"},
      {"control character", file_of("{\"a\nb\":1}", 0), "not valid JSON"},
      {"nested arrays", file_of(deep, 0), "holds an array"},
      {"nested objects", file_of(deep_objects, 0), "unknown key 'a'"},
      {"tensor is a number", file_of(R"({"a":1})", 0), "the header holds a number"},
      {"tensor is a string", file_of(R"({"a":"b"})", 0), "the header holds a string"},
      {"tensor is null", file_of(R"({"a":null})", 0), "the header holds null"},
      {"tensor is true", file_of(R"({"a":true})", 0), "the header holds a boolean"},
      {"tensor is an array", file_of(R"({"a":[]})", 0), "the header holds an array"},
      {"tensor twice", file_of("{" + a + "," + a + "}", 4), "the key 'a' twice"},
      {"tensor twice, escaped", file_of("{" + a + "," + entry("\\u0061", 4, 8) + "}", 8), "twice"},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "twice"},
      {"metadata key twice", file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "'k' twice"},
      {"metadata with a number", file_of(R"({"__metadata__":{"k":1}})", 0), "__metadata__ holds"},
      {"metadata nested", file_of(R"({"__metadata__":{"k":{}}})", 0), "__metadata__ holds"},
      {"metadata a string", file_of(R"({"__metadata__":"k"})", 0), "holds a string"},
      {"metadata null", file_of(R"({"__metadata__":null})", 0), "holds null"},
  };
}

std::vector<BadFile> lying_tensors() {
  const std::string f32 = R"("F32")";
  std::string many_axes = "[1";
  for (int i = 0; i < 32; ++i) many_axes += ",1";
  return {
      {"unknown dtype", tensor_file(R"("F31")", "[1]", "[0,4]", 4), "unknown dtype 'F31'"},
      {"dtype in lower case", tensor_file(R"("f32")", "[1]", "[0,4]", 4), "unknown dtype 'f32'"},
      {"dtype empty", tensor_file(R"("")", "[1]", "[0,4]", 4), "unknown dtype ''"},
      {"dtype a number", tensor_file("32", "[1]", "[0,4]", 4), "'a' holds a number"},
      {"dtype an array", tensor_file("[]", "[1]", "[0,4]", 4), "'a' holds an array"},
      {"dtype null", tensor_file("null", "[1]", "[0,4]", 4), "'a' holds null"},
      {"shape a number", tensor_file(f32, "1", "[0,4]", 4), "'a' holds a number"},
      {"shape a string", tensor_file(f32, R"("[1]")", "[0,4]", 4), "'a' holds a string"},
      {"shape null", tensor_file(f32, "null", "[0,4]", 4), "'a' holds null"},
      {"shape nested", tensor_file(f32, "[[1]]", "[0,4]", 4), "the shape of tensor 'a' holds"},
      {"shape with a string", tensor_file(f32, R"(["1"])", "[0,4]", 4), "holds a string"},
      {"shape negative", tensor_file(f32, "[-1]", "[0,4]", 4), "negative number -1"},
      {"shape twice negative", tensor_file(f32, "[-1,-1]", "[0,4]", 4), "negative number -1"},
      {"shape minus zero", tensor_file(f32, "[-0]", "[0,0]", 0), "negative number 0"},
      {"shape a fraction", tensor_file(f32, "[1.5]", "[0,4]", 4), "'1.5', which is no 64-bit"},
      {"shape 1.0", tensor_file(f32, "[1.0]", "[0,4]", 4), "'1.0', which is no 64-bit"},
      {"shape 1e0", tensor_file(f32, "[1e0]", "[0,4]", 4), "'1e0', which is no 64-bit"},
      {"shape 2^63", tensor_file(f32, "[9223372036854775808]", "[0,4]", 4), "which is too large"},
      {"shape 2^64", tensor_file(f32, "[18446744073709551616]", "[0,4]", 4), "no 64-bit integer"},
      {"shape 1e999", tensor_file(f32, "[1e999]", "[0,4]", 4), "not valid JSON"},
      {"size overflows to 0", tensor_file(f32, "[4611686018427387904]", "[0,0]", 0), "overflows"},
      {"product overflows to 0", tensor_file(f32, "[4294967296,4294967296]", "[0,0]", 0),
       "the shape of tensor 'a' is too large"},
      {"product overflows to 4", tensor_file(f32, "[6148914691236517206,6]", "[0,4]", 4),
       "overflows"},
      {"33 axes", tensor_file(f32, many_axes + "]", "[0,4]", 4), "more than 32 axes"},
      {"too little data", tensor_file(f32, "[2]", "[0,4]", 4),
       "4 bytes of data, but its dtype and "
       "shape ask for 8"},
      {"too much data", tensor_file(f32, "[1]", "[0,8]", 8), "8 bytes of data"},
      {"data for no elements", tensor_file(f32, "[0]", "[0,4]", 4), "ask for 0"},
      {"scalar without data", tensor_file(f32, "[]", "[0,0]", 0), "ask for 4"},
      {"offsets reversed", tensor_file(f32, "[1]", "[4,0]", 4), "[4, 0] of tensor 'a' do not lie"},
      {"offsets behind the end", tensor_file(f32, "[1]", "[4,8]", 4), "ends at byte 8 of the data"},
      {"end of 2^64 - 1", tensor_file(f32, "[1]", "[0,18446744073709551615]", 4),
       "18446744073709551615"},
      {"difference wraps", tensor_file(f32, "[1]", "[18446744073709551612,0]", 4), "do not lie"},
      {"offsets negative", tensor_file(f32, "[1]", "[-4,0]", 4), "negative number -4"},
      {"offsets fractional", tensor_file(f32, "[1]", "[0,4.0]", 4), "'4.0', which is no 64-bit"},
      {"no offset", tensor_file(f32, "[1]", "[]", 4), "0 numbers instead of 2"},
      {"one offset", tensor_file(f32, "[1]", "[0]", 4), "1 numbers instead of 2"},
      {"three offsets", tensor_file(f32, "[1]", "[0,4,4]", 4), "more than 2 numbers"},
      {"offsets a number", tensor_file(f32, "[1]", "4", 4), "'a' holds a number"},
      {"offsets nested", tensor_file(f32, "[1]", "[[0,4]]", 4), "data_offsets of tensor 'a' holds"},
      {"no dtype", file_of(R"({"a":{"shape":[0],"data_offsets":[0,0]}})", 0), "lacks one of"},
      {"no shape", file_of(R"({"a":{"dtype":"F32","data_offsets":[0,0]}})", 0), "lacks one of"},
      {"no offsets", file_of(R"({"a":{"dtype":"F32","shape":[0]}})", 0), "lacks one of"},
      {"empty tensor", file_of(R"({"a":{}})", 0), "lacks one of"},
      {"key twice", file_of(R"({"a":{"dtype":"F32","dtype":"F32"}})", 0), "'dtype' twice"},
      {"shape twice", file_of(R"({"a":{"shape":[0],"shape":[0]}})", 0), "'shape' twice"},
      {"unknown key", file_of(R"({"a":{"strides":[1]}})", 0), "unknown key 'strides'"},
  };
}

std::vector<BadFile> bad_covers() {
  const std::string a = entry("a", 0, 4);
  return {
      {"hole before", file_of("{" + entry("a", 4, 8) + "}", 8), "begins at byte 4, but a hole"},
      {"hole between", file_of("{" + a + "," + entry("b", 5, 8) + "}", 8), "tensor 'b' begins"},
      {"hole behind", file_of("{" + a + "," + entry("b", 4, 8) + "}", 9), "cover 8 bytes of a "},
      {"no tensor for the data", file_of("{}", 5), "cover 0 bytes of a buffer of 5"},
      {"metadata for the data", file_of(R"({"__metadata__":{}})", 5), "cover 0 bytes"},
      {"overlap by one", file_of("{" + a + "," + entry("b", 3, 8) + "}", 8), "begins at byte 3"},
      {"the same data twice", file_of("{" + a + "," + entry("b", 0, 4) + "}", 4), "'b' begins"},
      {"one inside another", file_of("{" + entry("a", 0, 8) + "," + entry("b", 2, 4) + "}", 8),
       "the tensor before it ends at byte 8"},
      {"an empty one inside", file_of("{" + entry("a", 0, 8) + "," + entry("b", 2, 2) + "}", 8),
       "tensor 'b' begins at byte 2"},
      {"overlap with a hole", file_of("{" + entry("a", 0, 6) + "," + entry("b", 4, 8) + "}", 10),
       "begins at byte 4"},
  };
}

void expect_refused(const std::vector<BadFile>& files) {
  const TemporaryFolder folder;
  for (const BadFile& file : files) {
    SCOPED_TRACE(file.name);
    write_plainly(folder / "bad.safetensors", file.bytes);
    const Error error = error_of([&] { load(folder / "bad.safetensors", file.bytes.size()); });
    const std::string message = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << message;
    EXPECT_NE(message.find("bad.safetensors'"), std::string::npos) << message;
    EXPECT_NE(message.find(file.says), std::string::npos) << message;
    EXPECT_LT(message.size(), 500u);
  }
}

/// Else the bounds below would hold whatever the engine took.
TEST(HostileSafetensors, MemoryTakenByTheEngineIsSeen) {
  const AllocationWatch watch;
  HostTensor::make(DType::kUInt8, {1'000'000});
  EXPECT_GE(watch.peak(), 1'000'000u);
}

TEST(HostileSafetensors, TruncatedAndOversizedAreRefused) {
  expect_refused(truncated_and_oversized());
}
TEST(HostileSafetensors, MalformedJsonIsRefused) { expect_refused(malformed_json()); }
TEST(HostileSafetensors, LyingTensorsAreRefused) { expect_refused(lying_tensors()); }
TEST(HostileSafetensors, HolesAndOverlapsAreRefused) { expect_refused(bad_covers()); }

TEST(HostileSafetensors, UnusualButValidFilesLoad) {
  const TemporaryFolder folder;
  const std::vector<BadFile> files{
      {"nothing in it", file_of("{}", 0), ""},
      {"data out of order", file_of("{" + entry("b", 4, 8) + "," + entry("a", 0, 4) + "}", 8), ""},
      {"empty tensors anywhere",
       file_of("{" + entry("e", 4, 4) + "," + entry("b", 4, 8) + "," + entry("f", 8, 8) + "," +
                   entry("a", 0, 4) + "," + entry("g", 0, 0) + "}",
               8),
       ""},
      {"spaces behind", file_of("{" + entry("a", 0, 4) + "}      ", 4), ""},
      {"keys in another order",
       file_of(R"({"a":{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}})", 4), ""},
      {"32 axes, a dtype not ours",
       tensor_file(R"("F8_E4M3")",
                   "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]", 1),
       ""},
      {"a name that is empty, one that is odd",
       file_of("{" + entry("", 0, 4) + "," + entry("\\u0000\\n中", 4, 8) + "}", 8), ""},
      {"a zero axis hides a large one",
       tensor_file(R"("F32")", "[0,9223372036854775807]", "[0,0]", 0), ""},
  };
  for (const BadFile& file : files) {
    SCOPED_TRACE(file.name);
    write_plainly(folder / "f", file.bytes);
    EXPECT_NO_THROW(load(folder / "f", file.bytes.size()));
  }
}

/// The densest headers: what is parsed takes more memory than its text, but not much more.
TEST(HostileSafetensors, CrowdedHeadersStayWithinTheBound) {
  const TemporaryFolder folder;
  std::string many = "{";
  for (int i = 0; i < 20'000; ++i) many += entry(std::to_string(i), 0, 0) + ",";
  many.back() = '}';
  std::string metadata = R"({"__metadata__":{)";
  for (int i = 0; i < 20'000; ++i) metadata += fmt::format(R"("{}":"",)", i);
  metadata.back() = '}';
  metadata += "}";
  for (const std::string& json : {many, metadata}) {
    const std::string bytes = file_of(json, 0);
    write_plainly(folder / "f", bytes);
    EXPECT_NO_THROW(load(folder / "f", bytes.size()));
  }
}

TEST(HostileSafetensors, NamesInMessagesAreShortAndPrintable) {
  const std::string name = "\\u001b[31m" + std::string(100'000, 'n');
  const Error error = error_of(
      [&] { parse_safetensors_header("f", "{\"" + name + "\":1,\"" + name + "\":1}", 0); });
  EXPECT_LT(std::string(error.what()).size(), 500u);
  const Error dtype = error_of(
      [&] { parse_safetensors_header("f", "{\"" + name + "\":{\"dtype\":\"" + name + "\"}}", 0); });
  EXPECT_LT(std::string(dtype.what()).size(), 500u);
  EXPECT_EQ(std::string(dtype.what()).find('\x1b'), std::string::npos);
}

TEST(HostileSafetensors, WhatIsNoRegularFileIsRefusedAtOnce) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder / "none"); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder.path()); }).code(), ErrorCode::kIo);
  EXPECT_EQ(error_of([&] { SafetensorsFile::open("/dev/zero"); }).code(), ErrorCode::kIo);
  // Opening a pipe for reading would wait for a writer for ever.
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder / "pipe"); }).code(), ErrorCode::kIo);
}

TEST(HostileSafetensors, AFileThatShrinksWhileOpenIsAnError) {
  const TemporaryFolder folder;
  write_plainly(folder / "f", file_of("{" + entry("a", 0, 100) + "}", 100));
  const SafetensorsFile file = SafetensorsFile::open(folder / "f");
  std::filesystem::resize_file(folder / "f", std::filesystem::file_size(folder / "f") - 30);
  const Error error = error_of([&] { file.read("a"); });
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_NE(std::string(error.what()).find("30 bytes early"), std::string::npos) << error.what();
}

/// Damages a valid file in one to three places, now bluntly, now with what a liar would write.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string mutate(std::string bytes) {
    for (std::size_t i = 0, count = 1 + below(3); i < count && !bytes.empty(); ++i) step(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void step(std::string& bytes) {
    const std::size_t at = below(bytes.size());
    const std::size_t length = std::min(1 + below(16), bytes.size() - at);
    switch (below(8)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(below(bytes.size()), bytes.substr(at, length));
        break;
      case 5:
        bytes.replace(0, std::min<std::size_t>(8, bytes.size()), prefix(random_() >> below(64)));
        break;
      default:
        replace_number(bytes, at);
    }
  }

  /// Puts a number of consequence where the next number behind `at` stands.
  void replace_number(std::string& bytes, std::size_t at) {
    const std::size_t begin = bytes.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(bytes.find_first_not_of("0123456789", begin), bytes.size());
    const std::vector<std::string> numbers{"0",
                                           "1",
                                           "4",
                                           "8",
                                           "-1",
                                           "1e3",
                                           "2147483648",
                                           "4294967296",
                                           "9223372036854775807",
                                           "18446744073709551615",
                                           "99999999999999999999",
                                           std::to_string(below(64))};
    bytes.replace(begin, end - begin, numbers[below(numbers.size())]);
  }

  std::mt19937_64 random_;
};

/// A real file: several dtypes, metadata, an empty tensor.
std::string valid_file(const TemporaryFolder& folder) {
  const std::vector<std::byte> data(64);
  const std::span<const std::byte> bytes(data);
  SafetensorsWriter writer;
  writer.add("encoder.weight_ih", DType::kFloat32, {2, 3}, bytes.first(24));
  writer.add("encoder.bias_ih", DType::kFloat64, {3}, bytes.first(24));
  writer.add("empty", DType::kInt32, {0, 4}, bytes.first(0));
  writer.add("tokenizer", DType::kUInt8, {5}, bytes.first(5));
  writer.set_metadata("config", "{\"hidden\": 3}");
  writer.write(folder / "valid");
  return read_file(folder / "valid", 10'000);
}

TEST(HostileSafetensors, MutatedFilesLoadOrAreRefused) {
  const TemporaryFolder folder;
  const std::string valid = valid_file(folder);
  Mutator mutator(20'260'101);
  int loaded = 0;
  int refused = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string bytes = mutator.mutate(valid);
    write_plainly(folder / "mutant", bytes);
    try {
      load(folder / "mutant", bytes.size());
      ++loaded;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
      ++refused;
    }
  }
  // Both happen often enough to mean something: flipped data bytes load, lies do not.
  EXPECT_GT(loaded, 200);
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace sluice::io
