#include "io/formats/paddle/paddle_program.h"
#include "io/formats/paddle/paddle_tensor.h"
#include "model_fixtures.h"

namespace sluice::io::formats {
namespace {

using Strings = std::vector<std::string>;

PaddleProgram parse(const std::string& bytes) {
  return read_paddle_program(ByteSource(bytes, "__model__"));
}
HostTensor read(const std::string& bytes) { return read_paddle_tensor(ByteSource(bytes, "w")); }

template <typename T>
T attribute(const PaddleOp& op, const char* name) {
  const PaddleAttribute* found = op.find(name);
  if (found == nullptr) base::fail(ErrorCode::kNotFound, "no attribute {}", name);
  return std::get<T>(*found);
}

TEST(PaddleProgram, ReadsBlocks) {
  const PaddleProgram program = read_paddle_program(fixture_path("paddle/program"));
  EXPECT_EQ(program.version, 1008005);
  ASSERT_EQ(program.blocks.size(), 2u);
  EXPECT_EQ(program.blocks[1].ops.at(0).type, "relu");
  ASSERT_EQ(program.blocks[0].variables.size(), 2u);
  const PaddleVariable& matrix = program.blocks[0].variables[0];
  EXPECT_EQ(matrix.name, "matrix");
  EXPECT_EQ(matrix.type, PaddleVariable::kLodTensor);
  EXPECT_EQ(matrix.data_type, 5);
  EXPECT_EQ(matrix.sizes, (std::vector<std::int64_t>{-1, 3}));
  EXPECT_TRUE(matrix.is_persistable);
  EXPECT_NE(program.blocks[0].variables[1].type, PaddleVariable::kLodTensor);
}

TEST(PaddleProgram, ReadsEveryKindOfAttribute) {
  const PaddleProgram program = read_paddle_program(fixture_path("paddle/program"));
  const PaddleOp& op = program.blocks[0].ops.at(0);
  EXPECT_EQ(op.type, "mul");
  EXPECT_EQ(op.inputs.at("X"), (Strings{"a", "b"}));
  EXPECT_TRUE(op.inputs.at("H0").empty());
  EXPECT_EQ(op.outputs.at("Out"), Strings{"c"});
  EXPECT_EQ(attribute<std::int64_t>(op, "int"), -3);
  EXPECT_EQ(attribute<float>(op, "float"), 0.5F);
  EXPECT_EQ(attribute<std::string>(op, "string"), "text");
  EXPECT_EQ(attribute<std::vector<std::int64_t>>(op, "ints"), (std::vector<std::int64_t>{-1, 1}));
  EXPECT_EQ(attribute<std::vector<float>>(op, "floats"), (std::vector<float>{1, 2}));
  EXPECT_EQ(attribute<Strings>(op, "strings"), (Strings{"", "a"}));
  EXPECT_TRUE(attribute<bool>(op, "boolean"));
  EXPECT_EQ(attribute<std::vector<bool>>(op, "booleans"), (std::vector<bool>{true, false}));
  EXPECT_EQ(attribute<std::int64_t>(op, "block"), 1);
  EXPECT_EQ(attribute<std::int64_t>(op, "long"), -(std::int64_t{1} << 40));
  EXPECT_EQ(attribute<std::vector<std::int64_t>>(op, "longs"),
            std::vector<std::int64_t>{std::int64_t{1} << 40});
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*op.find("empty")));
  EXPECT_EQ(op.find("other"), nullptr);
}

/// A program of one block with one operation, whose type is "O".
std::string with_operation(const std::string& fields) {
  return field(1, field(4, field(3, std::string("O")) + fields));
}

TEST(PaddleProgram, DamagedOnesAreRefused) {
  const auto refused = [](const std::string& bytes, const char* says) {
    expect_refusal(ErrorCode::kFormat, says, [&] { parse(bytes); });
  };
  const std::string good = bytes_of_file(fixture_path("paddle/program"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    try {
      parse(good.substr(0, size));  // the end of a block is a shorter program
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
    }
  }
  const std::string name = field(1, std::string("n"));
  refused("", "no blocks");
  refused(field(1, 7), "wire type");
  refused("\x0a\x7f", "cut off or damaged");
  refused(field(1, field(4, "")), "has no type");
  refused(field(1, field(3, "")), "has no name");
  refused(with_operation(field(1, "")), "has no name");
  refused(with_operation(field(1, name) + field(1, name)), "repeats the name 'n'");
  refused(with_operation(field(4, "")), "has no name");
  refused(with_operation(field(4, name) + field(4, name)), "repeats the name 'n'");
  refused(with_operation(field(4, name + field(7, std::string(5, 'c')))), "4-byte numbers");
}

/// The densest programs stay within the bound that the header states.
TEST(PaddleProgram, CrowdedFilesStayWithinTheBound) {
  std::string blocks, ops, variables, attributes, inputs, names;
  for (int i = 0; i < 20'000; ++i) {
    const std::string unique{static_cast<char>(i), static_cast<char>(i >> 8), 'x'};
    blocks += field(1, "");
    ops += field(4, field(3, std::string("O")));
    variables += field(3, field(1, std::string("v")));
    attributes += field(4, field(1, unique));
    inputs += field(1, field(1, unique));
    names += field(2, "");
  }
  for (const std::string& bytes :
       {blocks, field(1, ops), field(1, variables), with_operation(attributes),
        with_operation(inputs), with_operation(field(1, field(1, std::string("X")) + names))}) {
    const AllocationWatch watch;
    EXPECT_FALSE(parse(bytes).blocks.empty());
    EXPECT_LE(watch.peak(), 64 * bytes.size());
  }
}

TEST(PaddleTensor, ReadsATensorOfSequences) {
  expect_counting(read_paddle_tensor(fixture_path("paddle/sequences")), {3, 2});
}

TEST(PaddleTensor, ReadsTheTensorsOfAFile) {
  const ByteSource source(File::open(fixture_path("paddle/combined")));
  const std::vector<std::pair<DType, Shape>> expected{{DType::kFloat32, {2, 3}},
                                                      {DType::kFloat64, {3}},
                                                      {DType::kInt64, {2, 1}},
                                                      {DType::kInt32, {2}},
                                                      {DType::kInt8, {4}}};
  std::uint64_t offset = 0;
  for (const auto& [dtype, shape] : expected) {
    const PaddleTensor tensor = find_paddle_tensor(source, offset);
    const HostTensor host = read_paddle_tensor(source, tensor);
    EXPECT_EQ(host.dtype, dtype);
    expect_counting(host, shape);
    offset = tensor.end;
  }
  EXPECT_EQ(offset, source.size());
  expect_refusal(ErrorCode::kFormat, "of which one tensor of Paddle takes",
                 [&] { read_paddle_tensor(source); });
}

/// A file before its numbers, for the description `desc`.
std::string head(const std::string& desc) {
  std::string bytes(16, '\0');
  for (int shift = 0; shift < 32; shift += 8) {
    bytes += static_cast<char>(desc.size() >> shift & 0xff);
  }
  return bytes + desc;
}

TEST(PaddleTensor, DamagedOnesAreRefused) {
  const auto refused = [](const std::string& bytes, const char* says) {
    expect_refusal(ErrorCode::kFormat, says, [&] { read(bytes); });
  };
  const std::string good = bytes_of_file(fixture_path("paddle/sequences"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    refused(good.substr(0, size), "but the file has");
  }
  refused(good + "x", "of which one tensor");
  refused('\1' + good.substr(1), "the version is not 0");
  std::string other = head(field(1, 5));
  other[12] = '\1';
  refused(other, "the tensor's version is not 0");
  std::string levels = good;
  levels[12 + 7] = '\x7f';  // of the first level's size
  refused(levels, "but the file has");
  levels = good;
  levels[4 + 7] = '\x7f';  // of the number of levels
  refused(levels, "but the file has");
  refused(head(std::string(5000, 'x')), "description is too large");
  refused(head(field(2, 1)), "says no element type");
  refused(head("\x12\x7f"), "cut off or damaged");
  refused(head(field(1, 5) + field(2, ~0ull)), "sizes are impossible");
  refused(head(field(1, 5) + field(2, 1ull << 40) + field(2, 1ull << 40)), "sizes are impossible");
  expect_refusal(ErrorCode::kUnsupported, "element type 23", [] { read(head(field(1, 23))); });
}

/// A few bytes that ask for gigabytes.
TEST(PaddleTensor, LargeSizesTakeNoMemory) {
  const std::string bytes = head(field(1, 5) + field(2, 1ull << 40));
  const AllocationWatch watch;
  expect_refusal(ErrorCode::kFormat, "but the file has", [&] { read(bytes); });
  EXPECT_LE(watch.peak(), 65536u);
}

}  // namespace
}  // namespace sluice::io::formats
