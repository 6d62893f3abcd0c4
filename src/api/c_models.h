#pragma once

#include <sluice_models.h>

#include <string>
#include <variant>

#include "c_api/objects.h"
#include "sluice/classifier.h"
#include "sluice/feature_model.h"
#include "sluice/language_model.h"
#include "sluice/sequence_model.h"
#include "sluice/tagger.h"

/// The objects that the handles of include/sluice_models.h point to.
struct sluice_model {
  using Any = std::variant<sluice::FeatureModel, sluice::SequenceModel, sluice::LanguageModel,
                           sluice::Tagger, sluice::Classifier>;

  std::string kind;
  Any any;
  /// The state whose sequence the model itself holds; others hold theirs as bytes.
  sluice_model_state* current = nullptr;
};

struct sluice_model_state {
  sluice_model* model = nullptr;
  std::string bytes;  ///< empty: at the beginning

  ~sluice_model_state() {
    if (model->current == this) model->current = nullptr;
  }
};
