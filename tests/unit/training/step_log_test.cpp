#include "training/step_log.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/loss/loss.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::training {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class StepLogTest : public testing::OnDevice {
 protected:
  /// A step of 10 target tokens with these sums.
  void push(double loss, double squares, const std::vector<double>& loss_scale = {}) {
    StepReport report;
    report.step = ++step_;
    report.target_tokens = 10;
    report.learning_rate = 0.25;
    const Tensor scale = loss_scale.empty() ? Tensor() : put(loss_scale);
    log_.push(context_, report,
              {put(std::vector<double>{loss, 2, 10, 0}), put_number(squares), scale});
  }
  std::vector<StepReport> read() {
    std::vector<StepReport> reports;
    log_.read(context_, [&](const StepReport& report) { reports.push_back(report); });
    return reports;
  }
  std::string error() {
    const Error error = testing::error_of([&] { read(); });
    EXPECT_EQ(error.code(), ErrorCode::kNumeric);
    return error.what();
  }

  StepLog log_{context_};
  std::int64_t step_ = 0;
};

TEST_P(StepLogTest, GivesWhatWasPushed) {
  push(5, 9);
  push(7, 16);
  const auto reports = read();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].loss, 0.5);
  EXPECT_EQ(reports[0].nll, 0.2);
  EXPECT_EQ(reports[0].gradient_norm, 3);
  EXPECT_EQ(reports[0].loss_scale, 0);
  EXPECT_EQ(reports[1].step, 2);
  EXPECT_EQ(reports[1].gradient_norm, 4);
  EXPECT_TRUE(log_.is_empty());
}

TEST_P(StepLogTest, NumbersThatAreNotFiniteAreAnError) {
  push(5, 9);
  push(kNan, 9);
  EXPECT_EQ(error(),
            "training diverged at step 2: loss nan, gradient norm 3, learning rate 0.25; lower "
            "training.learning_rate or training.clip_norm, or lengthen training.warmup_steps");
  push(5, kInfinity);
  EXPECT_NE(error().find("at step 3: loss 0.5, gradient norm inf"), std::string::npos);
}

TEST_P(StepLogTest, ALossAboveTheBoundIsAnError) {
  StepLog bounded(context_, 0.2);
  StepReport report;
  report.step = 1;
  report.target_tokens = 10;
  const auto push_nll = [&](double nll) {
    bounded.push(context_, report, {put(std::vector<double>{5, nll, 10, 0}), put_number(9.0), {}});
  };
  push_nll(2);
  bounded.read(context_, [](const StepReport&) {});
  push_nll(2.0001);
  const Error error = testing::error_of([&] { bounded.read(context_, [](const StepReport&) {}); });
  EXPECT_EQ(error.code(), ErrorCode::kNumeric);
  EXPECT_NE(std::string(error.what()).find("at step 1: loss 0.5 (it may be 0.2 at most)"),
            std::string::npos)
      << error.what();
}

TEST_P(StepLogTest, LossScalingMaySkipSteps) {
  push(5, kInfinity, {32768, 0, 1});
  push(5, kNan, {16384, 0, 2});
  push(5, 9, {16384, 1, 2});
  const auto reports = read();
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[0].loss_scale, 32768);
  EXPECT_EQ(reports[1].skipped_steps, 2);
  EXPECT_EQ(reports[2].skipped_steps, 2);
  EXPECT_EQ(reports[2].gradient_norm, 3);
}

TEST_P(StepLogTest, WhatNoLossScaleMendsIsAnError) {
  push(5, kInfinity, {1, 0, 16});
  push(5, kInfinity, {0.5, 0, 17});
  EXPECT_EQ(
      error(),
      "training diverged at step 2: gradients are not finite even with a loss scale of 1; set "
      "machine.precision to bfloat16, or lower training.learning_rate");
  push(kNan, kNan, {32768, 0, 1});
  const std::string text = error();
  EXPECT_NE(text.find("at step 3: loss nan"), std::string::npos) << text;
  EXPECT_NE(text.find("no loss scale helps"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Devices, StepLogTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
