#include "bench/step/streamed_model.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "model_files/loaded_model.h"
#include "models/features.h"

namespace sluice::bench {
namespace {

models::FeaturesConfig configuration(const BenchShape& shape) {
  models::FeaturesConfig config;
  config.features = shape.input;
  config.normalize = false;
  config.stack.cell = kernels::recurrent::name_of(shape.cell);
  config.stack.hidden = shape.hidden;
  config.stack.layers = shape.layers;
  config.stack.projections = shape.projections;
  config.stack.dropout = 0;
  config.outputs = config.stack.output_width();
  config.output_layer = false;
  return config;
}

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// The parameters are those of the layers, one layer behind the other.
void upload_weights(const runtime::Context& context, const models::Features& model,
                    const HostData& data) {
  const layers::Parameters& parameters = model.parameters();
  layers::ParameterId id = 0;
  for (const HostData::LayerWeights& layer : data.weights) {
    for (const auto member :
         {&HostData::LayerWeights::weight_ih, &HostData::LayerWeights::weight_hh,
          &HostData::LayerWeights::bias_ih, &HostData::LayerWeights::bias_hh,
          &HostData::LayerWeights::weight_hr}) {
      if ((layer.*member).empty()) continue;
      parameters.upload<float>(context, id++, floats(layer.*member));
    }
  }
  SLUICE_ASSERT(id == parameters.specs().size());
}

FeatureModel written_and_loaded(const BenchShape& shape, const HostData& data) {
  const auto device = runtime::open_device("cpu");
  const runtime::Context context(*device);
  models::Features model(configuration(shape));
  model.parameters().allocate(context, base::DType::kFloat32, false);
  upload_weights(context, model, data);
  const ScratchFolder folder;
  model_files::save_model(context, folder.path() / "model", model, {}, "");
  return FeatureModel::load((folder.path() / "model").native(), {shape.device, "float32"});
}

std::string implementation_of(const BenchShape& shape) {
  const auto device = runtime::open_device(shape.device);
  const runtime::Context context(*device);
  BenchShape step = shape;
  step.time = 1;
  return std::string(
      kernels::recurrent::make_plan(context, step.descriptor(false)).plan->implementation());
}

const BenchShape& accepted(const BenchShape& shape) {
  if (const auto reason = refuse_steps(shape)) {
    base::fail(ErrorCode::kUnsupported, "shape {} has no single steps to measure: {}", shape.name,
               *reason);
  }
  return shape;
}

/// A stream starts from zero.
HostData drawn(const BenchShape& shape) {
  HostData data(shape);
  std::ranges::fill(data.h0, 0);
  std::ranges::fill(data.c0, 0);
  return data;
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "sluice-bench-XXXXXX").native();
  if (mkdtemp(name.data()) == nullptr) {
    base::fail(ErrorCode::kIo,
               "no folder can be made in '{}'; set TMPDIR to one that can be written",
               std::filesystem::temp_directory_path().native());
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::optional<std::string> refuse_steps(const BenchShape& shape) {
  if (shape.batch != 1) return "a stream has one row: give batch=1";
  if (shape.directions != 1) return "a stream can't be read backwards: give directions=1";
  if (shape.dtype != base::DType::kFloat32 || shape.tf32 || shape.int8) {
    return "they are measured in float32";
  }
  if (shape.uniform_lengths) return "a stream has no end: give lengths=full";
  if (shape.descriptor(true).has_extras()) return "they are measured of cells without extras";
  return std::nullopt;
}

StreamedModel::StreamedModel(const BenchShape& shape)
    : shape_(accepted(shape)),
      data_(drawn(shape_)),
      implementation_(implementation_of(shape_)),
      frames_(floats(data_.x)),
      model_(written_and_loaded(shape_, data_)) {}

double StreamedModel::run(std::int64_t steps) {
  const auto width = static_cast<std::size_t>(shape_.input);
  const auto time = static_cast<std::size_t>(shape_.time);
  std::vector<float> answer(static_cast<std::size_t>(model_->outputs()));
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < steps; ++step) {
    model_->run_part(std::span(frames_).subspan(next_ * width, width), answer);
    next_ = next_ + 1 < time ? next_ + 1 : 0;
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return took.count() / static_cast<double>(steps);
}

std::vector<float> StreamedModel::answers() {
  const auto width = static_cast<std::size_t>(shape_.input);
  const auto outputs = static_cast<std::size_t>(model_->outputs());
  std::vector<float> answers(static_cast<std::size_t>(shape_.time) * outputs);
  model_->begin_sequence();
  for (std::size_t t = 0; t < static_cast<std::size_t>(shape_.time); ++t) {
    model_->run_part(std::span(frames_).subspan(t * width, width),
                     std::span(answers).subspan(t * outputs, outputs));
  }
  return answers;
}

}  // namespace sluice::bench
