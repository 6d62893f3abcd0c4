#include "io/formats/tensorflow/graph_def.h"

#include "io/formats/tensorflow/saved_model.h"
#include "model_fixtures.h"

namespace sluice::io::formats {
namespace {

GraphDef parse(const std::string& bytes) { return read_graph_def(ByteSource(bytes, "g.pb")); }

template <typename T>
const T& attribute(const GraphNode& node, const char* name) {
  const GraphAttribute* found = node.find(name);
  if (found == nullptr) base::fail(ErrorCode::kNotFound, "no attribute {}", name);
  return std::get<T>(*found);
}

HostTensor constant(const GraphDef& graph, const char* name) {
  return to_host(attribute<StoredTensor>(*graph.find(name), "value"), "frozen.pb");
}

void expect_frozen(const GraphDef& graph) {
  EXPECT_EQ(graph.find("y")->op, "Identity");
  EXPECT_EQ(graph.find("MatMul")->inputs, (std::vector<std::string>{"x", "MatMul/ReadVariableOp"}));
  EXPECT_EQ(attribute<TensorflowType>(*graph.find("x"), "dtype").number, 1);
  EXPECT_EQ(attribute<TensorflowShape>(*graph.find("x"), "shape"),
            (TensorflowShape{true, {-1, 2}}));
  EXPECT_EQ(attribute<bool>(*graph.find("MatMul"), "transpose_a"), false);
  EXPECT_EQ(attribute<std::string>(*graph.find("pool"), "padding"), "SAME");
  EXPECT_EQ(attribute<std::vector<std::int64_t>>(*graph.find("pool"), "ksize"),
            (std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_TRUE(std::holds_alternative<EmptyList>(*graph.find("pool")->find("explicit_paddings")));
  expect_counting(constant(graph, "kernel"), {2, 3});
  expect_counting(constant(graph, "halves"), {3});
  EXPECT_EQ(constant(graph, "brains").dtype, DType::kBFloat16);
  expect_counting(constant(graph, "brains"), {3});
  // One value stands for all.
  const HostTensor fill = constant(graph, "fill");
  EXPECT_EQ(fill.shape, (Shape{2, 4}));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(number_at(fill, i), 2.5);
  EXPECT_GT(graph.producer, 1000);
}

TEST(GraphDef, ReadsAFrozenGraph) {
  const GraphDef graph = read_graph_def(fixture_path("tensorflow/frozen.pb"));
  EXPECT_EQ(graph.nodes.size(), 20u);
  expect_frozen(graph);
}

TEST(GraphDef, ReadsBackWhatItWrites) {
  const GraphDef graph = read_graph_def(fixture_path("tensorflow/frozen.pb"));
  const std::string bytes = write_graph_def(graph);
  expect_frozen(parse(bytes));
  EXPECT_EQ(write_graph_def(parse(bytes)), bytes);
}

TEST(GraphDef, EveryKindOfAttributeIsWritten) {
  GraphNode node{"n", "Op", {"^a", "b:1"}, "/cpu:0", {}};
  const HostTensor tensor = HostTensor::make(DType::kInt8, {2});
  const StoredTensor stored = to_stored(tensor, tensorflow_types());
  const GraphAttributes attributes{
      {"none", std::monostate()},
      {"string", std::string("text")},
      {"int", std::int64_t{-3}},
      {"float", 0.5F},
      {"bool", true},
      {"type", TensorflowType{101}},
      {"shape", TensorflowShape{false, {}}},
      {"scalar", TensorflowShape{}},
      {"tensor", stored},
      {"function", FunctionName{"f"}},
      {"placeholder", PlaceholderName{"p"}},
      {"empty", EmptyList{}},
      {"strings", std::vector<std::string>{"", "a"}},
      {"ints", std::vector<std::int64_t>{-1, 1}},
      {"floats", std::vector<float>{1, 2}},
      {"bools", std::vector<bool>{true, false}},
      {"types", std::vector<TensorflowType>{{1}, {2}}},
      {"shapes", std::vector<TensorflowShape>{{}, {true, {-1, 3}}}},
      {"tensors", std::vector<StoredTensor>{stored, stored}},
      {"functions", std::vector<FunctionName>{{"f"}, {"g"}}},
  };
  node.attributes = attributes;
  GraphDef graph;
  graph.nodes = {node};
  GraphFunction function{"f",    {{"x", 1, ""}}, {{"y", 0, "T"}},
                         {node}, attributes,     {{"y", "n:y:0"}}};
  graph.functions = {function};
  graph.gradients = {{"f", "df"}};
  const GraphDef again = parse(write_graph_def(graph));
  for (const GraphAttributes& read : {again.nodes[0].attributes, again.functions[0].attributes,
                                      again.functions[0].nodes[0].attributes}) {
    ASSERT_EQ(read.size(), attributes.size());
    for (const auto& [name, value] : attributes) {
      EXPECT_EQ(read.at(name).index(), value.index()) << name;
    }
    EXPECT_EQ(std::get<std::int64_t>(read.at("int")), -3);
    EXPECT_EQ(std::get<TensorflowShape>(read.at("scalar")), TensorflowShape{});
    EXPECT_FALSE(std::get<TensorflowShape>(read.at("shape")).is_known_rank);
    EXPECT_EQ(std::get<std::vector<std::string>>(read.at("strings")),
              (std::vector<std::string>{"", "a"}));
    EXPECT_EQ(std::get<std::vector<TensorflowShape>>(read.at("shapes")).size(), 2u);
  }
  EXPECT_EQ(again.functions[0].inputs[0].type, 1);
  EXPECT_EQ(again.functions[0].outputs[0].type_attribute, "T");
  EXPECT_EQ(again.functions[0].returns, function.returns);
  EXPECT_EQ(again.gradients, graph.gradients);
  EXPECT_EQ(again.nodes[0].inputs, node.inputs);
  EXPECT_EQ(again.nodes[0].device, node.device);
}

TEST(GraphDef, NamesTypes) {
  EXPECT_EQ(tensorflow_type_name(1), "DT_FLOAT");
  EXPECT_EQ(tensorflow_type_name(101), "DT_FLOAT_REF");
  EXPECT_EQ(tensorflow_type_name(77), "type 77");
}

/// A graph of one node with one attribute.
std::string graph_with(const std::string& value) {
  const std::string entry = field(1, std::string("value")) + field(2, value);
  return field(1, field(1, std::string("n")) + field(2, std::string("Const")) + field(5, entry));
}

TEST(GraphDef, DamagedOnesAreRefused) {
  const auto refused = [](const std::string& bytes, const char* says) {
    expect_refusal(ErrorCode::kFormat, says, [&] { parse(bytes); });
  };
  const std::string good = bytes_of_file(fixture_path("tensorflow/frozen.pb"));
  for (std::size_t size = 0; size < good.size(); size += 7) {
    try {
      parse(good.substr(0, size));  // the end of a node is a shorter graph
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
    }
  }
  const std::string name = field(1, std::string("n")), op = field(2, std::string("Op"));
  refused("", "no nodes");
  refused(field(1, name), "without an operation");
  refused(field(1, op), "has no name");
  refused(field(1, name + op) + field(1, name + op), "two nodes named 'n'");
  refused(field(1, 7), "wire type");
  refused("\x0a\x7f", "cut off or damaged");
  refused(field(1, name + op + field(5, "")), "has no name");
  refused(graph_with(field(1, field(3, 1) + field(2, std::string("a")))), "several kinds");
  const auto tensor = [](const std::string& bytes) { return graph_with(field(8, bytes)); };
  const auto shape = [](std::uint64_t size) { return field(2, field(2, field(1, size))); };
  refused(tensor(field(1, 1) + shape(2) + field(4, std::string(12, 'c'))), "holds 3 values");
  refused(tensor(field(1, 1) + shape(2) + field(4, std::string(7, 'c'))), "holds 1 values");
  refused(tensor(field(1, 1) + shape(2) + field(5, std::string(12, 'c'))), "holds 3 values");
  refused(tensor(field(1, 1) + shape(2) + field(5, std::string(5, 'c'))), "4-byte numbers");
  refused(tensor(field(1, 6) + shape(2) + field(7, 300)), "value 300, beyond DT_INT8");
  refused(tensor(field(1, 1) + shape(1ull << 62)), "overflows");
  refused(tensor(field(1, 1) + field(2, field(3, 1))), "unknown rank");
  expect_refusal(ErrorCode::kUnsupported, "element type 99",
                 [&] { parse(tensor(field(1, 99) + shape(1))); });
  expect_refusal(ErrorCode::kUnsupported, "text format",
                 [] { parse("node {\n  name: \"x\"\n  op: \"Placeholder\"\n}\n"); });
}

/// A few bytes that ask for a tensor of gigabytes.
TEST(GraphDef, LargeFillsAreRefused) {
  const std::string size = field(2, field(2, field(1, 1u << 30)));
  const std::string bytes = graph_with(field(8, field(1, 1) + size));
  const AllocationWatch watch;
  const GraphDef graph = parse(bytes);
  expect_refusal(ErrorCode::kUnsupported, "repeats one value",
                 [&] { to_host(attribute<StoredTensor>(graph.nodes[0], "value"), "g.pb"); });
  EXPECT_LE(watch.peak(), 65536u);
}

/// Attributes of a function's name may nest without end; they are skipped.
TEST(GraphDef, NestedFunctionNamesAreNotFollowed) {
  std::string value = field(3, 1);
  for (int i = 0; i < 5000; ++i) value = field(10, field(1, std::string("f")) + field(2, value));
  EXPECT_EQ(parse(graph_with(value)).nodes.size(), 1u);
}

/// The densest graphs stay within the bound that the header states.
TEST(GraphDef, CrowdedFilesStayWithinTheBound) {
  const std::string name = field(1, std::string("n"));
  std::string nodes, attributes, shapes;
  for (int i = 0; i < 20'000; ++i) {
    const std::string unique{static_cast<char>(i), static_cast<char>(i >> 8), 'x'};
    nodes += field(1, field(1, unique) + field(2, std::string("O")));
    attributes += field(5, field(1, unique));
    shapes += field(7, "");
  }
  for (const std::string& bytes : {nodes, field(1, name + field(2, std::string("O")) + attributes),
                                   graph_with(field(1, shapes))}) {
    const AllocationWatch watch;
    EXPECT_FALSE(parse(bytes).nodes.empty());
    EXPECT_LE(watch.peak(), 64 * bytes.size());
  }
}

void expect_saved(const SavedModel& model) {
  ASSERT_EQ(model.graphs.size(), 1u);
  const MetaGraph& graph = model.graphs[0];
  EXPECT_EQ(graph.tags, std::vector<std::string>{"serve"});
  EXPECT_FALSE(graph.tensorflow_version.empty());
  const Signature& signature = graph.signatures.at("serving_default");
  EXPECT_EQ(signature.method, "tensorflow/serving/predict");
  EXPECT_EQ(signature.inputs.at("x").name, "serving_default_x:0");
  EXPECT_EQ(signature.inputs.at("x").shape, (TensorflowShape{true, {-1, 2}}));
  EXPECT_EQ(signature.outputs.at("y").type, tensorflow_type_of(DType::kFloat32));
  ASSERT_EQ(graph.graph.functions.size(), 4u);
  for (const GraphFunction& function : graph.graph.functions) {
    for (const auto& output : function.outputs) EXPECT_TRUE(function.returns.contains(output.name));
  }
}

TEST(SavedModel, ReadsTheFolderAndTheFile) {
  const SavedModel model = read_saved_model(fixture_path("tensorflow/saved_model"));
  EXPECT_TRUE(model.graphs.at(0).has_objects);
  expect_saved(model);
  expect_saved(read_saved_model(fixture_path("tensorflow/saved_model/saved_model.pb")));
}

TEST(SavedModel, ReadsBackWhatItWrites) {
  const std::string bytes =
      write_saved_model(read_saved_model(fixture_path("tensorflow/saved_model")));
  expect_saved(read_saved_model(ByteSource(bytes, "again")));
}

TEST(SavedModel, OthersAreRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { read_saved_model(folder.path()); }).code(), ErrorCode::kNotFound);
  write_bytes(folder / "saved_model.pbtxt", "saved_model_schema_version: 1");
  expect_refusal(ErrorCode::kUnsupported, "text format", [&] { read_saved_model(folder.path()); });
  const auto parse_model = [](const std::string& bytes) {
    return read_saved_model(ByteSource(bytes, "m.pb"));
  };
  expect_refusal(ErrorCode::kFormat, "holds no graph", [&] { parse_model(field(1, 1)); });
  expect_refusal(ErrorCode::kFormat, "holds no graph", [&] { parse_model(field(2, "")); });
  expect_refusal(ErrorCode::kFormat, "two graphs",
                 [&] { parse_model(field(2, field(2, "") + field(2, ""))); });
  expect_refusal(ErrorCode::kUnsupported, "newer schema", [&] { parse_model(field(1, 2)); });
}

}  // namespace
}  // namespace sluice::io::formats
