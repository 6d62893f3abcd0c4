#include "io/formats/onnx/onnx_file.h"

#include "model_fixtures.h"

namespace sluice::io::formats {
namespace {

namespace fs = std::filesystem;

OnnxModel parse(const std::string& bytes) { return read_onnx(ByteSource(bytes, "m.onnx")); }

std::vector<std::int64_t> sizes_of(const OnnxValue& value) {
  std::vector<std::int64_t> sizes;
  for (const OnnxAxis& axis : *value.shape) sizes.push_back(axis.size.value_or(-1));
  return sizes;
}

void expect_initializers(const OnnxModel& model) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                            DType::kInt64, DType::kInt32, DType::kUInt8, DType::kInt8}) {
    for (const char* way : {"_raw", "_typed"}) {
      const std::string name = std::string(base::name_of(dtype)) + way;
      SCOPED_TRACE(name);
      const OnnxTensor* tensor = model.graph.find_initializer(name);
      ASSERT_NE(tensor, nullptr);
      const HostTensor host = read_tensor(*tensor, model.path);
      EXPECT_EQ(host.dtype, dtype);
      expect_counting(host, {2, 3});
    }
  }
  expect_counting(read_tensor(*model.graph.find_initializer("scalar"), ""), {});
  expect_counting(read_tensor(*model.graph.find_initializer("none"), ""), {0, 4});
  EXPECT_EQ(model.graph.find_initializer("strings")->strings,
            (std::vector<std::string>{"a", "bc"}));
  expect_refusal(ErrorCode::kUnsupported, "'m': tensor 'bools' has the element type BOOL",
                 [&] { read_tensor(*model.graph.find_initializer("bools"), "m"); });
}

template <typename T>
const T& value_of(const OnnxNode& node, const char* name) {
  return std::get<T>(node.find(name)->value);
}

void expect_kinds(const OnnxNode& node) {
  EXPECT_EQ(node.domain, "sluice.test");
  EXPECT_EQ(node.inputs, (std::vector<std::string>{"z", "", "float32_raw"}));
  EXPECT_EQ(value_of<std::int64_t>(node, "an_int"), -7);
  EXPECT_EQ(value_of<float>(node, "a_float"), 0.25F);
  EXPECT_EQ(value_of<std::string>(node, "a_string"), "text");
  EXPECT_EQ(value_of<std::vector<std::int64_t>>(node, "ints"),
            (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(value_of<std::vector<float>>(node, "floats"), (std::vector<float>{0.5F, -1.0F}));
  EXPECT_EQ(value_of<std::vector<std::string>>(node, "strings"),
            (std::vector<std::string>{"a", "b"}));
  expect_counting(read_tensor(value_of<std::vector<OnnxTensor>>(node, "a_tensor").at(0), ""), {3});
  expect_counting(read_tensor(value_of<std::vector<OnnxTensor>>(node, "tensors").at(1), ""), {});
  EXPECT_EQ(node.find("graphs")->graphs.at(1).nodes.at(0).op_type, "Abs");
  EXPECT_EQ(node.find("nothing"), nullptr);
}

void expect_everything(const OnnxModel& model) {
  EXPECT_EQ(model.ir_version, 9);
  EXPECT_EQ(model.opsets, (std::map<std::string, std::int64_t>{{"", 17}, {"sluice.test", 1}}));
  EXPECT_EQ(model.producer_name + model.producer_version, "sluice1");
  EXPECT_EQ(model.domain + model.doc, "sluice.testa test");
  EXPECT_EQ(model.model_version, 3);
  EXPECT_EQ(model.metadata, (std::map<std::string, std::string>{{"key", "value"}, {"other", ""}}));
  expect_initializers(model);
  const OnnxGraph& graph = model.graph;
  EXPECT_EQ(graph.nodes.at(0).find("then_branch")->graphs.at(0).nodes.at(0).op_type, "Neg");
  expect_kinds(graph.nodes.at(2));
  EXPECT_TRUE(graph.inputs.at(0).shape->empty());
  EXPECT_EQ(sizes_of(graph.inputs.at(1)), (std::vector<std::int64_t>{-1, -1, 3}));
  EXPECT_EQ(graph.inputs.at(1).shape->at(0).symbol, "batch");
  EXPECT_EQ(graph.values.at(0).name, "y");
  EXPECT_FALSE(graph.nodes[0].find("then_branch")->graphs[0].outputs.at(0).shape);
  ASSERT_EQ(model.functions.size(), 1u);
  EXPECT_EQ(model.functions[0].name, "Twice");
  EXPECT_EQ(model.functions[0].attributes, std::vector<std::string>{"scale"});
  EXPECT_EQ(model.functions[0].nodes.at(0).find("value_float")->reference, "scale");
}

TEST(OnnxFile, ReadsEverything) {
  const OnnxModel model = read_onnx(fixture_path("onnx/everything.onnx"));
  expect_everything(model);
  EXPECT_EQ(model.graph.inputs.at(2).kind, "sequence");
}

TEST(OnnxFile, ReadsBackWhatItWrites) {
  OnnxModel model = read_onnx(fixture_path("onnx/everything.onnx"));
  expect_refusal(ErrorCode::kInvalidArgument, "'s' is a sequence", [&] { write_onnx(model); });
  model.graph.inputs.pop_back();
  const std::string bytes = write_onnx(model);
  expect_everything(parse(bytes));
  EXPECT_EQ(write_onnx(parse(bytes)), bytes);
}

TEST(OnnxFile, ReadsALayerOfTorch) {
  const OnnxModel model = read_onnx(fixture_path("onnx/lstm.onnx"));
  const auto is_lstm = [](const OnnxNode& node) { return node.op_type == "LSTM"; };
  const auto lstm = std::find_if(model.graph.nodes.begin(), model.graph.nodes.end(), is_lstm);
  ASSERT_NE(lstm, model.graph.nodes.end());
  EXPECT_EQ(value_of<std::int64_t>(*lstm, "hidden_size"), 3);
  const OnnxTensor* weights = model.graph.find_initializer(lstm->inputs.at(1));
  EXPECT_EQ(read_tensor(*weights, "").shape, (Shape{1, 12, 2}));
}

TEST(OnnxFile, ExternalDataIsReadWithinTheFolder) {
  const OnnxModel model = read_onnx(fixture_path("onnx/external.onnx"));
  const OnnxTensor& second = *model.graph.find_initializer("b");
  EXPECT_EQ(second.external->offset, 24u);
  expect_counting(read_tensor(second, model.path), {2, 3});
  expect_refusal(ErrorCode::kUnsupported, "in another file", [&] { write_onnx(model); });
}

TEST(OnnxFile, ExternalDataOutsideOfTheFolderIsRefused) {
  const TemporaryFolder folder;
  const fs::path inside = folder / "model";
  fs::create_directories(inside / "sub");
  write_bytes(folder / "secret", std::string(24, 's'));
  fs::copy(fixture_path("onnx/external.bin"), inside / "sub" / "data");
  fs::create_symlink("sub/data", inside / "link");
  fs::create_symlink("../secret", inside / "escape");
  fs::create_directory_symlink("..", inside / "up");
  const auto read = [&](const std::string& location, std::uint64_t offset = 0) {
    OnnxTensor tensor = to_onnx(HostTensor::make(DType::kFloat32, {2, 3}), "w");
    tensor.external = OnnxExternalData{location, offset, {}};
    return read_tensor(tensor, inside / "m.onnx");
  };
  expect_counting(read("sub/data"), {2, 3});
  expect_counting(read("./sub/data", 24), {2, 3});
  expect_counting(read("link"), {2, 3});
  for (const std::string& location :
       {std::string("../secret"), std::string("sub/../../secret"), (folder / "secret").string(),
        (inside / "sub/data").string(), std::string(), std::string("sub/data\0x", 10),
        std::string("escape"), std::string("up/secret"), std::string("sub/..")}) {
    SCOPED_TRACE(location);
    expect_refusal(ErrorCode::kFormat, "tensor 'w' has its values in", [&] { read(location); });
  }
  EXPECT_EQ(error_of([&] { read("nothing"); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(error_of([&] { read("sub"); }).code(), ErrorCode::kIo);
  EXPECT_EQ(error_of([&] { read("."); }).code(), ErrorCode::kIo);
  expect_refusal(ErrorCode::kFormat, "24 bytes from byte 25 on", [&] { read("sub/data", 25); });
  expect_refusal(ErrorCode::kFormat, "from byte 18446744073709551615 on",
                 [&] { read("sub/data", UINT64_MAX); });
}

/// A tensor that promises gigabytes takes no memory before its file is looked at.
TEST(OnnxFile, ExternalDataThatIsNotThereTakesNoMemory) {
  OnnxTensor tensor = to_onnx(HostTensor::make(DType::kUInt8, {1}), "w");
  tensor.sizes = {std::int64_t{1} << 40};
  tensor.external = OnnxExternalData{"external.bin", 0, {}};
  const AllocationWatch watch;
  expect_refusal(ErrorCode::kFormat, "which has 48",
                 [&] { read_tensor(tensor, fixture_path("onnx/external.onnx")); });
  EXPECT_LE(watch.peak(), 65536u);
}

std::string name(const char* text) { return field(1, std::string(text)); }

/// A model whose graph has this besides its name.
std::string model_of(const std::string& graph) {
  return field(1, 9) + field(7, field(2, std::string("g")) + graph);
}
std::string model_of_tensor(const std::string& tensor) {
  return model_of(field(5, field(8, std::string("w")) + tensor));
}
std::string model_of_attribute(const std::string& attribute) {
  return model_of(field(1, field(4, std::string("Op")) + field(5, attribute)));
}

TEST(OnnxFile, DamagedOnesAreRefused) {
  const auto refused = [](const std::string& bytes, const char* says) {
    expect_refusal(ErrorCode::kFormat, says, [&] { parse(bytes); });
  };
  EXPECT_NO_THROW(parse(model_of("")));
  refused("", "no model of ONNX");
  refused(field(1, 9), "no model of ONNX");
  refused(field(1, 9) + field(7, ""), "has no name");
  refused(model_of("") + field(7, field(2, std::string("g"))), "two graphs");
  refused(model_of(field(1, field(3, std::string("n")))), "has no operator");
  refused(model_of(field(11, "")), "has no name");
  refused(model_of(field(5, field(2, 1) + field(1, 0))), "initializer without a name");
  refused(model_of_tensor(field(1, 2)), "has no element type");
  refused(model_of_tensor(field(1, 2) + field(2, 1) + field(9, std::string(7, 'x'))), "holds 1");
  refused(model_of_tensor(field(1, 2) + field(2, 1) + field(9, std::string(4, 'x'))), "holds 1");
  refused(model_of_tensor(field(1, 2) + field(2, 1)), "holds 0 values");
  refused(model_of_tensor(field(1, 1ull << 62) + field(2, 1)), "overflows");
  refused(model_of_tensor(field(1, ~0ull) + field(2, 1)), "negative size");
  refused(model_of_tensor(field(1, 1) + field(2, 3) + field(5, 200)), "value 200, beyond INT8");
  refused(model_of_attribute(field(20, 2)), "has no name");
  refused(model_of_attribute(name("a")), "does not say its kind");
  refused(model_of_attribute(name("a") + field(20, 4)), "0 values instead of 1");
  refused(model_of_attribute(name("a") + field(20, 2) + field(4, std::string("s"))), "two kinds");
  refused(model_of("") + field(8, field(2, 0)), "version 0");
  const auto unsupported = [](const std::string& bytes, const char* says) {
    expect_refusal(ErrorCode::kUnsupported, says, [&] { parse(bytes); });
  };
  unsupported(bytes_of_file(fixture_path("onnx/sparse.onnx")), "sparse initializer");
  unsupported(model_of_tensor(field(2, 99)), "element type 99");
  unsupported(model_of_tensor(field(2, 1) + field(3, "")), "segment");
  unsupported(model_of_attribute(name("a") + field(20, 11)), "sparse tensor");
  unsupported(model_of_attribute(name("a") + field(20, 13)), "holds types");
}

TEST(OnnxFile, TruncatedOnesAreRefused) {
  const std::string good = bytes_of_file(fixture_path("onnx/everything.onnx"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    try {
      parse(good.substr(0, size));  // what stands behind the graph may be absent
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
    }
  }
}

TEST(OnnxFile, DeepNestingIsRefused) {
  std::string graph = field(2, std::string("g"));
  for (int i = 0; i < 200; ++i) {
    const std::string attribute = name("a") + field(20, 5) + field(6, graph);
    graph =
        field(2, std::string("g")) + field(1, field(4, std::string("If")) + field(5, attribute));
  }
  expect_refusal(ErrorCode::kFormat, "nests messages more than 100 deep",
                 [&] { parse(field(1, 9) + field(7, graph)); });
}

/// The densest models stay within the bound that the header states.
TEST(OnnxFile, CrowdedFilesStayWithinTheBound) {
  std::string nodes, inputs, values, tensors, ints, graphs, functions;
  for (int i = 0; i < 20'000; ++i) {
    nodes += field(1, field(4, std::string("O")));
    inputs += field(1, "");
    values += field(11, name("v"));
    tensors += field(10, field(2, 14));
    ints += '\1';
    graphs += field(11, field(2, std::string("g")));
    functions += field(25, name("f"));
  }
  for (const std::string& bytes : {model_of(nodes), model_of(values), model_of("") + functions,
                                   model_of(field(1, field(4, std::string("O")) + inputs)),
                                   model_of_attribute(name("a") + field(20, 9) + tensors),
                                   model_of_attribute(name("a") + field(20, 7) + field(8, ints)),
                                   model_of_attribute(name("a") + field(20, 10) + graphs)}) {
    const AllocationWatch watch;
    EXPECT_NO_THROW(parse(bytes));
    EXPECT_LE(watch.peak(), 64 * bytes.size());
  }
}

}  // namespace
}  // namespace sluice::io::formats
