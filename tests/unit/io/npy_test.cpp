#include "io/npy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "unit/support/temporary_folder.h"

namespace sluice::io {
namespace {

/// A file as numpy writes it: magic, version, length of the header, header, numbers.
std::string npy(const std::string& header, const std::string& numbers, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += {version, '\0', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  if (version > 1) bytes += {'\0', '\0'};
  return bytes + header + numbers;
}

template <typename T>
std::string bytes_of(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string dictionary(const std::string& descr, const std::string& shape,
                       const std::string& order = "False") {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}   \n", descr, order,
                     shape);
}

class NpyTest : public ::testing::Test {
 protected:
  NpyArray read(const std::string& bytes) { return read_npy(folder_.write("a.npy", bytes)); }
  void refuse(const std::string& bytes, const std::string& said) {
    const Error error = testing::error_of([&] { read(bytes); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
    const std::string what = error.what();
    EXPECT_NE(what.find("a.npy'"), std::string::npos) << what;
    EXPECT_NE(what.find(said), std::string::npos) << what << "\nlacks " << said;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(NpyTest, ReadsEveryTypeOfNumber) {
  const NpyArray f4 = read(npy(dictionary("<f4", "(2, 3)"), bytes_of<float>({1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(f4.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_FALSE(f4.is_integer);
  EXPECT_EQ(f4.floats, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  const NpyArray f8 = read(npy(dictionary("<f8", "(2,)"), bytes_of<double>({0.1, 1e300}), 2));
  EXPECT_EQ(f8.floats, (std::vector<float>{0.1F, std::numeric_limits<float>::infinity()}));
  const NpyArray i4 = read(npy(dictionary("<i4", "(1, 2)"), bytes_of<std::int32_t>({-7, 1 << 30})));
  EXPECT_TRUE(i4.is_integer);
  const NpyArray b1 = read(npy(dictionary("|b1", "(3,)"), std::string("\1\0\1", 3)));
  EXPECT_TRUE(b1.is_integer);
  EXPECT_EQ(b1.integers, (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(i4.integers, (std::vector<std::int64_t>{-7, 1 << 30}));
  const NpyArray i8 = read(npy(dictionary("<i8", "()"), bytes_of<std::int64_t>({1LL << 60}), 3));
  EXPECT_EQ(i8.integers, (std::vector<std::int64_t>{1LL << 60}));
  EXPECT_TRUE(i8.shape.empty());
  EXPECT_EQ(read(npy(dictionary("<f4", "(0, 5)"), "")).element_count(), 0);
  // 1, -2, 65504, the least above 0, infinity
  const NpyArray f2 = read(
      npy(dictionary("<f2", "(5,)"), bytes_of<std::uint16_t>({0x3c00, 0xc000, 0x7bff, 1, 0x7c00})));
  EXPECT_EQ(f2.floats, (std::vector<float>{1, -2, 65504, std::ldexp(1.0F, -24),
                                           std::numeric_limits<float>::infinity()}));
  const auto integers = [&](const std::string& descr, const std::string& bytes) {
    const NpyArray array = read(npy(dictionary(descr, "(2,)"), bytes));
    EXPECT_TRUE(array.is_integer) << descr;
    return array.integers;
  };
  using Two = std::vector<std::int64_t>;
  EXPECT_EQ(integers("|i1", bytes_of<std::int8_t>({-128, 7})), (Two{-128, 7}));
  EXPECT_EQ(integers("|u1", bytes_of<std::uint8_t>({255, 7})), (Two{255, 7}));
  EXPECT_EQ(integers("<i2", bytes_of<std::int16_t>({-32768, 7})), (Two{-32768, 7}));
  EXPECT_EQ(integers("<u2", bytes_of<std::uint16_t>({65535, 7})), (Two{65535, 7}));
  EXPECT_EQ(integers("<u4", bytes_of<std::uint32_t>({4294967295U, 7})), (Two{4294967295, 7}));
}

TEST_F(NpyTest, ReadsWhatItWrites) {
  const std::vector<std::int64_t> shape{3, 700, 251};
  std::vector<float> numbers(3 * 700 * 251);  // of several pieces
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const std::string header = npy_header(shape);
  EXPECT_EQ(header.size() % 64, 0u);
  const NpyArray array = read(header + bytes_of(numbers));
  EXPECT_EQ(array.shape, shape);
  EXPECT_EQ(array.floats, numbers);
  EXPECT_EQ(read(npy_header(std::vector<std::int64_t>{2}) + bytes_of<float>({1, 2})).shape,
            (std::vector<std::int64_t>{2}));
}

TEST_F(NpyTest, ReadsPackedFiles) {
  const std::string path = (folder_ / "b.npy.gz").string();
  const std::string bytes = npy(dictionary("<f4", "(1,)"), bytes_of<float>({8}));
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  EXPECT_EQ(read_npy(path).floats, std::vector<float>{8});
}

TEST_F(NpyTest, RefusesWhatItCannotRead) {
  const std::string one = bytes_of<float>({1});
  refuse("", "not a .npy file");
  refuse("PK\3\4 something else entirely", "not a .npy file");
  refuse(npy(dictionary("<f4", "(1,)"), one, 9), "version 9");
  refuse(npy(dictionary(">f4", "(1,)"), one), "'>f4'");
  refuse(npy(dictionary("<c8", "(1,)"), one + one), "float32");
  refuse(npy(dictionary("|O", "(1,)"), one), "'|O'");
  refuse(npy(dictionary("<f4", "(1,)", "True"), one), "Fortran");
  refuse(npy("{'descr': '<f4', 'shape': (1,)}", one), "header");
  refuse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'descr': '<f8'}", one),
         "header");
  refuse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", one), "header");
  refuse(npy("{'descr': '<f4', 'fortran_order': maybe, 'shape': (1,)}", one), "header");
  refuse(npy("{'descr': '<f4", one), "header");
  refuse(npy(dictionary("<f4", "(1,)"), one).substr(0, 40), "not a .npy file");
}

// Memory is taken for what is there: a header that promises exabytes fails at once.
TEST_F(NpyTest, RefusesWhatIsNotThere) {
  const std::string one = bytes_of<float>({1});
  refuse(npy(dictionary("<f4", "(2,)"), one), "promises 2 numbers, but it holds 1");
  refuse(npy(dictionary("<f4", "(1,)"), one + "x"), "promises 1 number,");
  refuse(npy(dictionary("<f4", "(1,)"), one + one), "promises 1 number,");
  refuse(npy(dictionary("<f4", "(1000000000000000,)"), one), "promises 1000000000000000 numbers");
  refuse(npy(dictionary("<f4", "(4611686018427387904, 4611686018427387904)"), one),
         "no file holds");
  refuse(npy(dictionary("<f4", "(99999999999999999999,)"), one), "header");
}

}  // namespace
}  // namespace sluice::io
