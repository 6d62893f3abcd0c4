#include "io/formats/pickle/pickle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "fixture_files.h"
#include "io/formats/pickle/numpy_pickle.h"
#include "unit/io/allocation_watch.h"
#include "unit/io/temporary_folder.h"

namespace sluice::io::formats {
namespace {

using namespace std::string_literals;

Pickle of(int protocol) {
  return Pickle::parse(bytes_of_file(fixture_path(fmt::format("pickle/protocol{}.pkl", protocol))),
                       "'p'");
}

std::vector<std::int64_t> integers_of(const PickleValue& list) {
  std::vector<std::int64_t> values;
  for (const PickleValue* item : list.items()) values.push_back(item->integer());
  return values;
}

template <typename T>
std::vector<T> numbers_of(const HostTensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

class PickleProtocols : public ::testing::TestWithParam<int> {};

TEST_P(PickleProtocols, GivePlainData) {
  const Pickle pickle = of(GetParam());
  const PickleValue& root = pickle.root();
  ASSERT_TRUE(root.is(PickleKind::kDict));
  EXPECT_TRUE(root.find("none")->is(PickleKind::kNone));
  EXPECT_TRUE(root.find("bools")->items()[0]->truth());
  EXPECT_FALSE(root.find("bools")->items()[1]->truth());
  EXPECT_EQ(integers_of(*root.find("ints")),
            (std::vector<std::int64_t>{0, 255, 65535, -1, 2147483647, -2147483648LL, INT64_MAX,
                                       INT64_MIN}));
  EXPECT_EQ(root.find("floats")->items()[1]->number(), -1e300);
  EXPECT_EQ(root.find("floats")->items()[2]->number(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(root.find("text")->text(), "h\u00e9llo \u4e2d \U0001f600\n\\");
  EXPECT_EQ(root.find("empty")->items().size(), 4u);
  EXPECT_EQ(root.find("class")->global_name(), "collections.OrderedDict");
  EXPECT_EQ(root.find("missing"), nullptr);
}

TEST_P(PickleProtocols, KeepBytesAndLongInts) {
  const Pickle pickle = of(GetParam());
  const PickleValue& root = pickle.root();
  if (GetParam() >= 3) {
    EXPECT_EQ(root.find("bytes")->text(), "\xfa\xfb\xfc\xfd\xfe\xff\0a"s);
  } else {
    EXPECT_TRUE(root.find("bytes")->is_call_of("_codecs.encode"));
  }
  if (GetParam() >= 2) {
    EXPECT_TRUE(root.find("beyond")->is(PickleKind::kBigInt));
    EXPECT_EQ(root.find("beyond")->text(), "\1\0\0\0\0\0\0\0\1"s);
  }
  if (GetParam() == 5) {
    EXPECT_EQ(root.find("bytearray")->text(), "xyz");
  }
}

TEST_P(PickleProtocols, KeepSharingAndCycles) {
  const Pickle pickle = of(GetParam());
  const PickleValue& root = pickle.root();
  const auto shared = root.find("shared")->items();
  EXPECT_EQ(shared[0], shared[1]);
  EXPECT_EQ(root.find("cycle")->find("self"), root.find("cycle"));
}

TEST_P(PickleProtocols, RecordCallsWithoutMakingThem) {
  const Pickle pickle = of(GetParam());
  const PickleValue& ordered = *pickle.root().find("ordered");
  ASSERT_TRUE(ordered.is_call_of("collections.OrderedDict"));
  EXPECT_EQ(ordered.entries()->find("b")->integer(), 2);
  const PickleValue& object = *pickle.root().find("object");
  ASSERT_TRUE(object.is(PickleKind::kObject));
  EXPECT_EQ(object.state()->find("hidden")->integer(), 4);
}

TEST_P(PickleProtocols, HoldArraysOfNumpy) {
  const Pickle pickle = of(GetParam());
  const PickleValue& root = pickle.root();
  const HostTensor array = tensor_of_numpy(*root.find("array"), "'p'");
  EXPECT_EQ(array.shape, (Shape{2, 3}));
  EXPECT_EQ(numbers_of<float>(array), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const HostTensor fortran = tensor_of_numpy(*root.find("fortran"), "'p'");
  EXPECT_EQ(numbers_of<std::int32_t>(fortran), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
  const HostTensor flags = tensor_of_numpy(*root.find("flags"), "'p'");
  EXPECT_EQ(numbers_of<std::uint8_t>(flags), (std::vector<std::uint8_t>{1, 0}));
  ASSERT_TRUE(is_numpy_scalar(*root.find("number")));
  EXPECT_EQ(tensor_of_numpy(*root.find("number"), "'p'").values<double>()[0], 2.5);
  const Error error = error_of([&] { tensor_of_numpy(*root.find("objects"), "'p'"); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
}

TEST_P(PickleProtocols, AreRefusedWhenCutAnywhere) {
  const std::string bytes =
      bytes_of_file(fixture_path(fmt::format("pickle/protocol{}.pkl", GetParam())));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Error error = error_of([&] { Pickle::parse(bytes.substr(0, size), "'p'"); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, PickleProtocols, ::testing::Range(0, 6));

TEST(Pickle, DamageNamesTheByte) {
  struct Case {
    std::string bytes;
    const char* says;
  };
  const std::vector<Case> cases{
      {"\x80\x06N.", "protocol is 6"},
      {"a", "more values than there are"},
      {"e", "needs a mark"},
      {"(N0.", "more values than there are"},
      {"NNa.", "is no list"},
      {"NNNs.", "is no dict"},
      {"(Nd.", "a key without value"},
      {"h\1.", "memo's index 1"},
      {"Nr\xff\xff\xff\x7f.", "index 2147483647 is too large"},
      {"\xff.", "no opcode 0xff"},
      {"I1x\n.", "an int is malformed"},
      {"S'a\n.", "lacks its quotes"},
      {"S'\\q'\n.", "malformed escape"},
      {"NN\x93.", "name of a class"},
      {"Fx\n.", "a float is malformed"},
      {"X\xff\xff\xff\xff"
       "a",
       "cut off"},
  };
  for (const Case& one : cases) {
    const Error error = error_of([&] { Pickle::parse(one.bytes, "'p'"); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(error.what()).find(one.says), std::string::npos) << error.what();
  }
  for (const std::string bytes : {"\x82\1.", "\x97.", "]}b.", "L99999999999999999999L\n."}) {
    EXPECT_EQ(error_of([&] { Pickle::parse(bytes, "'p'"); }).code(), ErrorCode::kUnsupported);
  }
}

/// The densest pickles: a byte makes a value.
TEST(Pickle, CrowdedOnesStayWithinTheBound) {
  const std::size_t count = 100'000;
  for (const char opcode : {']', '}', '(', 'N', ')', '\x8f'}) {
    const std::string bytes = std::string(count, opcode) + "N.";
    const AllocationWatch watch;
    Pickle::parse(bytes, "'p'");
    EXPECT_LE(watch.peak(), 128 * bytes.size()) << opcode;
  }
}

/// Values nest deeper than any stack, and each refers to its neighbour.
TEST(Pickle, DeepOnesAreParsedAndFreed) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += "]";
  for (int i = 0; i < 99'999; ++i) bytes += "a";
  EXPECT_TRUE(Pickle::parse(bytes + ".", "'p'").root().is(PickleKind::kList));
}

TEST(Pickle, ArraysWhoseSizesLieAreRefused) {
  std::string bytes = bytes_of_file(fixture_path("pickle/protocol4.pkl"));
  const std::size_t at = bytes.find("K\2K\3\x86");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 3] = 4;
  const Pickle pickle = Pickle::parse(bytes, "'p'");
  const Error error = error_of([&] { tensor_of_numpy(*pickle.root().find("array"), "'p'"); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
}

}  // namespace
}  // namespace sluice::io::formats
