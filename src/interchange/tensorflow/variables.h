#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/account.h"
#include "interchange/read_options.h"
#include "interchange/source_model.h"
#include "io/formats/tensorflow/graph_def.h"
#include "io/formats/tensorflow/tensorflow_checkpoint.h"

namespace sluice::interchange::tensorflow {

/// The variables of a model by name. A reader takes some of them; the others must be accounted for.
class Variables {
 public:
  struct Variable {
    std::vector<std::int64_t> sizes;
    std::function<io::HostTensor()> read;
  };

  /// `file` is named in messages.
  explicit Variables(std::string file) : file_(std::move(file)) {}
  void add(const std::string& name, Variable variable);

  const std::string& file() const { return file_; }
  const std::map<std::string, Variable, std::less<>>& all() const { return variables_; }
  bool has(std::string_view name) const { return variables_.contains(name); }
  /// Throws ErrorCode::kFormat if there is none of that name.
  const std::vector<std::int64_t>& sizes(std::string_view name) const;
  /// The numbers in float32. The variable counts as used from now on.
  io::HostTensor take(std::string_view name);

  bool is_used(std::string_view name) const { return used_.contains(name); }
  std::vector<std::string> unused() const;
  void remove(const std::string& name) { variables_.erase(name); }

 private:
  std::string file_;
  std::map<std::string, Variable, std::less<>> variables_;
  std::set<std::string, std::less<>> used_;
};

/// The variables of a checkpoint with rank 1 or more. A checkpoint of TensorFlow 2 names objects;
/// its variables get their full names. Throws ErrorCode::kUnsupported for layers of Keras.
Variables variables_of(const io::formats::TensorflowCheckpoint& checkpoint, Account& account);
/// The constants that a frozen graph has in place of variables, with their names. The graph must
/// outlive them.
Variables constants_of(const io::formats::GraphDef& graph, const std::string& file);

/// Removes what training alone needs: scalars, optimizers' slots and averages. With
/// `options.subgraph`, removes all that does not lie under that scope.
void remove_training_state(Variables& variables, Account& account);
void keep_subgraph(Variables& variables, const ReadOptions& options);

/// Throws ErrorCode::kUnsupported with a list unless all variables are used or the answer `ignore`
/// names them or a scope above them.
void require_all_used(const Variables& variables, const ReadOptions& options, Account& account);

}  // namespace sluice::interchange::tensorflow
