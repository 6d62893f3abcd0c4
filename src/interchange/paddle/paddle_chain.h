#pragma once

#include <string>
#include <utility>
#include <vector>

#include "interchange/paddle/paddle_parameters.h"
#include "interchange/paddle/paddle_values.h"

namespace sluice::interchange::paddle {

/// Makes layers of what a walk found.
class Chain {
 public:
  /// Borrows the nodes, the parameters and the model, for its account. `hint` ends the sentence of
  /// a refusal.
  Chain(const Nodes& nodes, Parameters& parameters, SourceModel& model, std::string hint)
      : nodes_(nodes),
        parameters_(parameters),
        account_(model.account),
        path_(model.path),
        hint_(std::move(hint)) {}

  /// The layers from the feed to `end`, first to last. Throws ErrorCode::kUnsupported, naming the
  /// variables, if the outputs of several layers come together, other than of two directions.
  std::vector<SourceLayer> layers_to(Features end);
  /// A recurrent layer of one direction or two, without what is before it.
  RecurrentLayer recurrent(const Features& features);
  CrfLayer crf(const std::string& transitions);

 private:
  SourceLayer layer_of(const Features& features);
  PoolingLayer take_pooling(Features& features);
  SourceLayer embedding(const Node& node, const Node::Embedding& embedding);
  SourceLayer linear(const Linear& linear);
  SourceLayer scaling(const Node& node, const Node::Scaling& scaling) const;
  Features before(const Features& features) const;
  [[noreturn]] void refuse_join(const Features& features) const;
  [[noreturn]] void refuse(const std::string& why) const;

  const Nodes& nodes_;
  Parameters& parameters_;
  Account& account_;
  std::string path_, hint_;
};

}  // namespace sluice::interchange::paddle
