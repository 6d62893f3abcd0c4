#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/watch.h"
#include "model_files/loaded_model.h"
#include "models/model.h"
#include "training/train_config.h"
#include "training/train_data.h"
#include "training/validation_report.h"

namespace sluice::training {

using model_files::LoadedModel;

/// What training a kind of model takes beside its Model and its model_files::ModelKind: how
/// configured files become examples, how a new model is made, and what is measured. Loop and
/// commands go by this, so that a new kind is a new Task in the list of task.cpp.
class Task {
 public:
  virtual ~Task() = default;

  /// ModelKind::name of its models.
  virtual std::string_view kind() const = 0;
  /// Names of the configuration keys that not every kind has a use for, but this one has.
  virtual std::span<const std::string_view> keys() const = 0;
  /// What a validation measures and training.keep_best may name.
  virtual std::span<const ValidationMetric> metrics() const = 0;

  /// Refuses values that can't go together, as TrainConfig::validate.
  virtual void check(const TrainConfig& config) const = 0;
  /// Reads the configured files. Vocabularies are `saved` (of a run that is resumed) if given, else
  /// as initial_tokenizers() or from the training examples. `watch` is told what is being done
  /// where that may take long. Throws what the readers throw.
  virtual TrainData read_data(const TrainConfig& config, const Tokenizers* saved,
                              const base::Watch& watch = {}) const = 0;

  /// The examples to validate on, for who looks at answers: no file to train on need be named,
  /// those to train on may be absent, and nothing is written to the disk.
  virtual TrainData read_validation(const TrainConfig& config, const Tokenizers& saved) const = 0;

  /// Throws ErrorCode::kInvalidArgument, with the file, if the examples to validate on, which are
  /// there, aren't of the widths that a trained model takes and answers with, which only dense ones
  /// can differ in. `config` is what `data` was read by.
  virtual void require_widths(const TrainConfig& config, const models::Model& model,
                              const TrainData& data) const;

  /// A model for these examples; no memory is taken.
  virtual std::unique_ptr<models::Model> make_model(const TrainConfig& config,
                                                    const TrainData& data) const = 0;
  /// Gives parameters the values that come from the examples, where those that are drawn won't do.
  virtual void set_from_data(const Context& context, const TrainData& data,
                             const layers::Parameters& parameters) const;
  /// Gives a model that is to be trained, fresh or resumed, what that takes beside parameters.
  virtual void prepare_training(const Context& context, const TrainConfig& config,
                                const TrainData& data, models::Model& model) const;
  /// The loss of a target (kernels::loss::kNll, in the mean) above which a run has diverged,
  /// whatever its learning rate: a thousand times that of a guess at random; of values, that of
  /// answers a thousand times as far off as the largest target (or as 1) is from 0.
  virtual double divergence_bound(const TrainData& data) const;
  /// Of its kind's word parameters, the one whose rows are the embeddings of a vocabulary's words;
  /// for word vectors.
  virtual std::string_view embedding_of(const TrainConfig& config, Vocabulary vocabulary) const = 0;

  const model_files::ModelKind& model_kind() const;
  /// Null if there is none of that key.
  const ValidationMetric* find_metric(std::string_view key) const;
};

/// Of every kind, in the order in which people read of them.
std::span<const Task* const> tasks();
/// Null if there is no such kind.
const Task* find_task(std::string_view kind);

/// The task that model.kind names. Throws ErrorCode::kInvalidArgument if there is none.
const Task& task_of(const TrainConfig& config);
/// The task of a model's kind.
const Task& task_of(const LoadedModel& loaded);

/// Those that only some kinds of models use, and this one doesn't, but which are set: their value
/// is not the default. `known` are the keys of all kinds, `used` those of this one.
std::vector<std::string_view> useless_keys(const TrainConfig& config,
                                           std::span<const std::string_view> used,
                                           std::span<const std::string_view> known);

}  // namespace sluice::training
