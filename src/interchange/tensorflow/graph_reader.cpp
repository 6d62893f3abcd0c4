#include "interchange/tensorflow/graph_reader.h"

#include <algorithm>

#include "base/check.h"
#include "interchange/tensorflow/chain.h"
#include "interchange/tensorflow/graph_facts.h"
#include "interchange/tensorflow/variables.h"
#include "io/formats/tensorflow/saved_model.h"
#include "io/formats/tensorflow/tensorflow_checkpoint.h"

namespace sluice::interchange {
namespace {

using io::formats::GraphDef;
using io::formats::MetaGraph;

bool is_saved_model(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) || path.filename() == "saved_model.pb";
}

MetaGraph take_graph(io::formats::SavedModel saved, const std::string& file, Account& account) {
  if (saved.graphs.empty()) {
    base::fail(ErrorCode::kFormat, "{}: the SavedModel has no graph", file);
  }
  const auto serves = [](const MetaGraph& graph) {
    return std::ranges::find(graph.tags, "serve") != graph.tags.end();
  };
  auto graph = std::ranges::find_if(saved.graphs, serves);
  if (graph == saved.graphs.end()) graph = saved.graphs.begin();
  if (saved.graphs.size() > 1) {
    account.leave_out(std::to_string(saved.graphs.size() - 1) + " other graphs of the SavedModel");
  }
  return std::move(*graph);
}

}  // namespace

SourceModel read_tensorflow_graph(const std::filesystem::path& path, const ReadOptions& options) {
  SourceModel model;
  model.path = path.string();
  GraphDef graph;
  std::filesystem::path variables_prefix;
  if (is_saved_model(path)) {
    model.format = "a SavedModel of TensorFlow";
    graph = take_graph(io::formats::read_saved_model(path), model.path, model.account).graph;
    const bool is_folder = std::filesystem::is_directory(path);
    variables_prefix = io::formats::saved_model_variables(is_folder ? path : path.parent_path());
  } else {
    model.format = "a frozen graph of TensorFlow (.pb)";
    graph = io::formats::read_graph_def(path);
  }
  const tensorflow::GraphFacts facts = tensorflow::facts_of(graph, model.path);
  const bool has_variables =
      !variables_prefix.empty() && std::filesystem::exists(variables_prefix.string() + ".index");
  tensorflow::Variables variables =
      has_variables ? tensorflow::variables_of(
                          io::formats::TensorflowCheckpoint::open(variables_prefix), model.account)
                    : tensorflow::constants_of(graph, model.path);
  tensorflow::add_layers(std::move(variables), options, facts, model);
  return model;
}

}  // namespace sluice::interchange
