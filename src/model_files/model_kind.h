#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "model_files/tokenizers.h"
#include "models/model.h"

namespace sluice::model_files {

/// A parameter with a row for each id of a vocabulary.
struct WordParameter {
  std::string_view name;
  Vocabulary vocabulary;
};

/// What opening a model of a kind takes. A new kind is a new entry of the list in model_kind.cpp;
/// what training it takes is its training::Task.
struct ModelKind {
  std::string_view name;  ///< Model::kind, and the value of model.kind
  std::string_view
      commands;  ///< that use such a model, for messages: "sluice decode, chat or score"
  /// The model of a checkpoint's Model::configuration; no memory is taken. Throws
  /// ErrorCode::kFormat, or kInvalidArgument for a value, if it is none or doesn't fit the
  /// vocabularies.
  std::unique_ptr<models::Model> (*saved_model)(std::string_view configuration,
                                                const Tokenizers& tokenizers);
  /// Every name that such a parameter has in any configuration.
  std::span<const WordParameter> word_parameters;
};

/// In the order in which people read of them.
std::span<const ModelKind> model_kinds();
/// Null if there is no such kind.
const ModelKind* find_kind(std::string_view name);
/// "seq2seq, tagger"
std::string names_of_kinds();

}  // namespace sluice::model_files
