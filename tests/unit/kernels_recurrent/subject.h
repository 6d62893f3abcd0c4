#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/recurrent/recurrent.h"

namespace sluice::kernels::recurrent::testing {

/// An implementation on a device of the tests.
struct Subject {
  std::string device, implementation;

  const Candidate& candidate() const;
  /// Why it declines such layers, if it does.
  std::optional<std::string> refusal(const Descriptor& descriptor) const;
  bool can_run(const Descriptor& descriptor) const { return !refusal(descriptor); }
};

void PrintTo(const Subject& subject, std::ostream* out);

/// All of them but those of 8 bits, which have tests of their own. "test" runs what "cpu" does and
/// has tests of its own. A GPU that can't be had has no subjects (this runs before any test could
/// say so; those of other families do).
std::vector<Subject> subjects();
/// Those of 8 bits.
std::vector<Subject> int8_subjects();

/// What tests of a subject in one precision are instantiated with, and how they are called.
using SubjectAndPrecision = std::tuple<Subject, std::string>;
std::string parameter_name(const ::testing::TestParamInfo<SubjectAndPrecision>& info);
/// All subjects but libraries' own layers, whose arithmetic is not ours to vouch for, in each
/// precision of 16 and 32 bits that their device has.
std::vector<SubjectAndPrecision> own_subjects();

}  // namespace sluice::kernels::recurrent::testing
