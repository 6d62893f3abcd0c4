#include "interchange/paddle/paddle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "interchange/paddle/paddle_chain.h"
#include "interchange/paddle/paddle_op.h"
#include "interchange/paddle/paddle_subgraph.h"
#include "interchange/paddle/paddle_walk.h"

namespace sluice::interchange {
namespace {

namespace fs = std::filesystem;
using io::formats::PaddleBlock;
using io::formats::PaddleOp;
using io::formats::PaddleProgram;
using Names = std::set<std::string, std::less<>>;

std::string hint(const PaddleBlock& block) {
  const std::vector<std::string> names = paddle::recurrent_layers(block);
  if (names.empty()) return "it has no gru or lstm that could be taken alone";
  return "--subgraph NAME takes a recurrent layer alone: " + paddle::quoted(names);
}

/// Reads a whole program.
class ProgramReader {
 public:
  ProgramReader(const PaddleBlock& block, paddle::Parameters& parameters, SourceModel& model)
      : block_(block), parameters_(parameters), model_(model) {}

  void read(const ReadOptions& options) {
    const std::string output = choose_output(options);
    const std::vector<const PaddleOp*> ops = ops_before(output);
    refuse_unknown(ops);
    paddle::Walk walk(block_, parameters_, model_.account);
    for (const PaddleOp* op : ops) {
      if (op->type == "feed") model_.account.find("feed " + describe_feed(*op));
      walk.visit(*op);
    }
    const paddle::Value* value = walk.find(output);
    if (value == nullptr) {
      base::fail(ErrorCode::kUnsupported, "'{}': no operation that is read puts out '{}'",
                 model_.path, output);
    }
    const auto* answers = std::get_if<paddle::Answers>(value);
    const std::string transitions = answers == nullptr ? "" : answers->transitions;
    paddle::Features end =
        answers == nullptr ? walk.features_of(*ops.back(), output) : answers->scores;
    paddle::Chain chain(walk.nodes(), parameters_, model_, hint(block_));
    model_.layers = chain.layers_to(std::move(end));
    if (!transitions.empty()) model_.layers.emplace_back(chain.crf(transitions));
    const bool has_recurrent = std::ranges::any_of(model_.layers, [](const SourceLayer& layer) {
      return std::holds_alternative<RecurrentLayer>(layer);
    });
    if (!has_recurrent) {
      base::fail(ErrorCode::kUnsupported,
                 "'{}' has no gru or lstm before '{}'; --set output=NAME takes another variable",
                 model_.path, output);
    }
  }

 private:
  std::string choose_output(const ReadOptions& options) {
    if (const std::optional<std::string> name = options.find("output")) return *name;
    std::vector<std::pair<std::int64_t, std::string>> fetches;
    for (const PaddleOp& op : block_.ops) {
      if (op.type != "fetch") continue;
      fetches.emplace_back(paddle::int_of(op, "col", 0), paddle::only_input(op, "X"));
    }
    if (fetches.empty()) {
      base::fail(ErrorCode::kUnsupported,
                 "'{}' fetches nothing; --set output=NAME says where the "
                 "chain ends",
                 model_.path);
    }
    std::ranges::sort(fetches);
    std::vector<std::string> others;
    for (std::size_t i = 1; i < fetches.size(); ++i) others.push_back(fetches[i].second);
    if (!others.empty()) {
      model_.account.assume(fmt::format("the chain ends at '{}' (--set output=NAME says otherwise)",
                                        fetches[0].second));
      model_.account.leave_out("the outputs " + paddle::quoted(others));
    }
    return fetches[0].second;
  }

  /// The operations that `output` depends on, in their order. A variable may be set again.
  std::vector<const PaddleOp*> ops_before(const std::string& output) const {
    Names needed{output};
    std::vector<const PaddleOp*> ops;
    for (auto op = block_.ops.rbegin(); op != block_.ops.rend(); ++op) {
      bool is_needed = false;
      for (const auto& [parameter, names] : op->outputs) {
        for (const std::string& name : names) is_needed = needed.erase(name) > 0 || is_needed;
      }
      if (!is_needed) continue;
      ops.push_back(&*op);
      for (const auto& [parameter, names] : op->inputs) needed.insert(names.begin(), names.end());
    }
    std::ranges::reverse(ops);
    return ops;
  }

  void refuse_unknown(const std::vector<const PaddleOp*>& ops) const {
    std::vector<std::string> unknown;
    Names types;
    for (const PaddleOp* op : ops) {
      if (paddle::Walk::knows(*op) || !types.insert(op->type).second) continue;
      unknown.push_back(op->type);
    }
    if (unknown.empty()) return;
    base::fail(ErrorCode::kUnsupported, "'{}' has operations that Sluice does not read: {}; {}",
               model_.path, paddle::quoted(unknown), hint(block_));
  }

  static std::string describe_feed(const PaddleOp& op) {
    return fmt::format("'{}'", paddle::only_output(op, "Out"));
  }

  const PaddleBlock& block_;
  paddle::Parameters& parameters_;
  SourceModel& model_;
};

std::string version_text(std::int64_t version) {
  if (version == 0) return "of an unknown version";
  return fmt::format("{}.{}.{}", version / 1000000, version / 1000 % 1000, version % 1000);
}

}  // namespace

SourceModel read_paddle(const fs::path& folder, const ReadOptions& options) {
  const PaddleProgram program = io::formats::read_paddle_program(folder / "__model__");
  const PaddleBlock& block = program.blocks[0];
  SourceModel model;
  model.format = "a model of Paddle (__model__)";
  model.path = folder.native();
  paddle::Parameters parameters(folder, block, options);
  model.account.find(fmt::format("a program of Paddle {}, its parameters {}",
                                 version_text(program.version), parameters.describe()));
  if (options.subgraph.empty()) {
    ProgramReader(block, parameters, model).read(options);
  } else {
    paddle::read_subgraph(block, options.subgraph, parameters, model);
  }
  return model;
}

}  // namespace sluice::interchange
