#include "bench/train/config_work.h"

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "data/batches.h"
#include "runtime/threads.h"
#include "training/checkpoint.h"
#include "training/task.h"

namespace sluice::bench::train {

using training::TrainConfig;
using training::TrainData;

namespace {

/// The same batches in every round.
class RepeatedBatches final : public BatchSource {
 public:
  explicit RepeatedBatches(std::shared_ptr<const std::vector<data::Batch>> batches)
      : batches_(std::move(batches)) {}
  std::span<const data::Batch> next() override { return *batches_; }

 private:
  std::shared_ptr<const std::vector<data::Batch>> batches_;
};

TrainConfig read_config(const ConfigRequest& request, const std::string& path,
                        const std::string& device, const std::string& dtype) {
  TrainConfig config = training::read_train_config(path);
  for (const std::string& assignment : request.overrides) {
    training::apply_override(config, assignment);
  }
  if (!device.empty()) config.device = device;
  if (!dtype.empty()) config.precision = dtype;
  config.validate();
  SLUICE_CHECK(config.loop.accumulate == 1,
               "training.accumulate is {}, but steps of one batch are measured",
               config.loop.accumulate);
  return config;
}

std::vector<data::Batch> first_batches(const TrainConfig& config, const data::Examples& examples,
                                       std::int64_t most) {
  const data::BatchOptions options{config.loop.max_tokens, config.loop.max_rows, config.loop.pool};
  const data::BatchSchedule schedule(examples.lengths(), data::in_their_order(examples, options),
                                     static_cast<std::uint64_t>(config.loop.seed));
  std::vector<data::Batch> batches;
  for (const data::BatchRows& rows : schedule.batches(0)) {
    if (std::ssize(batches) == most) break;
    batches.push_back(examples.assemble(rows));
  }
  return batches;
}

ConfigSizes sizes_of(const TrainConfig& config, const std::string& path,
                     const std::vector<data::Batch>& batches) {
  ConfigSizes sizes{std::filesystem::path(path).stem().string(), config.model.kind,
                    std::ssize(batches)};
  for (const data::Batch& batch : batches) {
    sizes.examples += batch.rows;
    sizes.source_tokens += batch.source_tokens();
    sizes.target_tokens += batch.target_tokens();
  }
  return sizes;
}

}  // namespace

ConfigWork read_config_work(const ConfigRequest& request, const std::string& path,
                            const std::string& device, const std::string& dtype) {
  SLUICE_CHECK(request.batches >= 1, "batches is {}; it must be at least 1", request.batches);
  const auto config =
      std::make_shared<const TrainConfig>(read_config(request, path, device, dtype));
  const training::Task& task = training::task_of(*config);
  const auto data = std::make_shared<const TrainData>(task.read_data(*config, nullptr));
  const auto batches = std::make_shared<const std::vector<data::Batch>>(
      first_batches(*config, *data->train, request.batches));
  TrainWork work{.name = std::filesystem::path(path).stem().string(),
                 .device = config->device,
                 .dtype = config->precision,
                 .seed = static_cast<std::uint64_t>(config->loop.seed),
                 .label_smoothing = config->loop.label_smoothing,
                 .learning_rate = config->learning_rate.learning_rate,
                 .optimizer = config->optimizer,
                 .carries = data->train->rows_in_order() > 0};
  work.make_model = [config, data, &task](const runtime::Context& context) {
    runtime::use_threads(context, config->threads);
    std::unique_ptr<models::Model> model = training::make_model(context, *config, *data);
    task.prepare_training(context, *config, *data, *model);
    return model;
  };
  work.make_batches = [batches] { return std::make_unique<RepeatedBatches>(batches); };
  return {sizes_of(*config, path, *batches), std::move(work)};
}

}  // namespace sluice::bench::train
