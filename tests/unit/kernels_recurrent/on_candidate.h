#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>

#include "kernels/recurrent/recurrent.h"
#include "runtime/device.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/declined_cases.h"

namespace sluice::kernels::recurrent::testing {

/// A test of one implementation on the device that its parameter names first, with random numbers
/// of a fresh seed. It is skipped where the device doesn't have the implementation, or the GPU
/// lacks what each of its cases needs.
template <typename Parameter>
class OnCandidate : public ::testing::TestWithParam<Parameter> {
 protected:
  explicit OnCandidate(std::string_view name)
      : device_(runtime::open_device(std::get<0>(OnCandidate::GetParam()))) {
    take(name);
  }

  void SetUp() override {
    if (!candidate_) GTEST_SKIP() << "this device lacks the implementation";
  }

  void TearDown() override {
    if (const auto reason = cases_.all_declined()) GTEST_SKIP() << *reason;
  }

  /// Whom the test is about from now on.
  void take(std::string_view name) {
    const auto list = candidates(*device_);
    const auto found = std::ranges::find(list, name, &Candidate::name);
    if (found != list.end()) candidate_ = &*found;
  }

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  std::optional<std::string> refusal(const Descriptor& descriptor) const {
    return recurrent::refusal(*candidate_, descriptor, *device_);
  }
  /// Whether the case can run.
  bool can_run(const Descriptor& descriptor) const {
    return cases_.take(candidate_->name, refusal(descriptor));
  }
  /// Whether the GPU doesn't run such launches, which is the only good reason against the layers.
  bool gpu_lacks(const Descriptor& descriptor) const {
    const auto reason = refusal(descriptor);
    EXPECT_TRUE(!reason || reason->find("GPU") != std::string::npos) << *reason;
    return !cases_.take(candidate_->name, reason);
  }

  RunOptions options() const {
    return {std::get<0>(OnCandidate::GetParam()), std::string(candidate_->name)};
  }

  const std::unique_ptr<runtime::Device> device_;
  const Candidate* candidate_ = nullptr;
  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};

 private:
  mutable sluice::testing::DeclinedCases cases_;
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

}  // namespace sluice::kernels::recurrent::testing
