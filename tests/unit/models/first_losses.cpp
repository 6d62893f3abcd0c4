#include "unit/models/first_losses.h"

#include <cmath>
#include <fstream>
#include <iostream>
#include <numeric>

#include "kernels/loss/loss.h"
#include "sluice/error.h"
#include "unit/models/golden_optimizer.h"
#include "unit/support/source_path.h"

namespace sluice::models {
namespace {

using Json = nlohmann::json;

Json read_golden(const std::string& script) {
  const auto path = sluice::testing::source_path("tests/peers/goldens/" + script + ".json");
  std::ifstream file(path);
  return Json::parse(file);
}

/// How far a loss of a case may be from torch's in float32.
double allowed(const Json& golden, std::size_t step, const std::string& precision) {
  const Json& losses = golden.at("losses");
  // Both sides sum in different orders: a loss differs by some 1e-7 of itself, and training has
  // made that no more than 4e-7. This leaves room for other machines' orders.
  if (precision == "float32") return 1e-5 * losses.at(step).get<double>();
  const Json& errors = golden.at("errors").at(precision);  // of epochs
  return 2 * errors.at(step * errors.size() / losses.size()).get<double>();
}

struct Comparison {
  double worst = 0;  ///< difference, in what is allowed: at most 1 is right
  std::size_t step = 0;
};

Comparison compared(const std::vector<double>& losses, const Json& golden,
                    const std::string& precision) {
  Comparison result;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const double difference = std::abs(losses[step] - golden.at("losses").at(step).get<double>());
    const double ratio = difference / allowed(golden, step, precision);
    if (ratio <= result.worst) continue;  // which a NaN isn't
    result = {ratio, step};
    if (std::isnan(ratio)) break;
  }
  return result;
}

}  // namespace

std::vector<Json> FirstLosses::read_cases() const {
  const Json rounded = read_golden("rounded_losses");
  auto cases = read_golden(script()).at("cases").get<std::vector<Json>>();
  for (Json& golden : cases) {
    golden["errors"] =
        rounded.at("cases").at(script() + "/" + golden.at("name").get<std::string>());
    golden["float16_loss_scale"] = rounded.at("loss_scale");
    EXPECT_EQ(golden.at("losses").size(), 100u);
  }
  EXPECT_FALSE(cases.empty());
  return cases;
}

std::vector<double> FirstLosses::train(const Json& golden, const std::vector<double>& gate_bias) {
  const std::unique_ptr<Model> model = model_of(golden);
  const layers::Parameters& parameters = model->parameters();
  model->parameters().allocate(context_, DType::kFloat32, true);
  parameters.initialize(context_, golden.at("seed"), {.gate_bias = gate_bias});
  prepare(golden, *model);
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < golden.at("batches"); ++i) batches.push_back(batch_of(golden, i));
  const sluice::testing::GoldenOptimizer optimizer(context_, golden, parameters);
  runtime::ArenaPlanner planner;
  const auto plan = model->training_plan(context_, planner, capacity_of(golden), true);
  const runtime::Arena arena(*device_, planner);
  std::vector<double> losses(golden.at("losses").size());
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const Batch& batch = batches[step % batches.size()];
    const auto lengths = get<std::int32_t>(batch.target_lengths);
    const double scale = 1.0 / std::accumulate(lengths.begin(), lengths.end(), 0);
    Pass pass;
    pass.label_smoothing = golden.at("label_smoothing");
    pass.scale = put_number(scale);
    pass.loss_scale = optimizer.loss_scale();
    context_.zero(parameters.gradients());
    const Tensor sums = plan->forward_backward(context_, arena, batch, pass);
    losses[step] = get<double>(sums)[kernels::loss::kLoss] * scale;
    optimizer.update(static_cast<std::int32_t>(step) + 1);
  }
  context_.synchronize();
  return losses;
}

void FirstLosses::compare(const std::string& precision) {
  const bool on_host = device_->runs_host_kernels();
  if (on_host && precision == "tf32") GTEST_SKIP() << "this device has no TF32";
  context_.set_precision(runtime::Precision::parse(precision));
  for (Json golden : read_cases()) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    if (precision == "float16") golden["loss_scale"] = golden.at("float16_loss_scale");
    std::vector<double> losses;
    try {
      losses = train(golden);
    } catch (const Error& error) {
      if (!on_host || error.code() != ErrorCode::kUnsupported) throw;
      GTEST_SKIP() << "this device computes no " << precision;
    }
    const Comparison result = compared(losses, golden, precision);
    std::cout << golden.at("name").get<std::string>() << ": " << result.worst
              << " of what is allowed\n";
    EXPECT_LE(result.worst, 1) << "step " << result.step << ": loss " << losses[result.step]
                               << ", in torch's float32 " << golden.at("losses").at(result.step);
    release_memory();
  }
}

std::vector<FirstLosses::Mistake> FirstLosses::mistakes_of(const Json& golden) {
  std::vector<Mistake> mistakes;
  const auto wrong = [&](const std::string& key, double value) {
    mistakes.push_back({key, golden});
    mistakes.back().golden[key] = value;
  };
  wrong("learning_rate", 1.05 * golden.at("learning_rate").get<double>());
  // Adam's steps hardly depend on the norm of gradients.
  if (golden.at("optimizer") == "sgd") wrong("clip_norm", 0);
  const std::string cell = golden.at("cell");
  if (cell == "lstm") mistakes.push_back({"forget bias", golden, {0, 0.1, 0, 0}});
  if (cell.starts_with("gru")) mistakes.push_back({"update bias", golden, {0, 0.1, 0}});
  return mistakes;
}

void FirstLosses::compare_mistakes() {
  for (const Json& golden : read_cases()) {
    for (const Mistake& mistake : mistakes_of(golden)) {
      const std::vector<double> losses = train(mistake.golden, mistake.gate_bias);
      for (const char* precision : {"float32", "tf32", "bfloat16", "float16"}) {
        EXPECT_GT(compared(losses, golden, precision).worst, 1)
            << golden.at("name") << " with another " << mistake.name << " passes in " << precision;
      }
      release_memory();
    }
  }
}

}  // namespace sluice::models
