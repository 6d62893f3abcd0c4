#pragma once

#include <optional>

#include "unit/kernels_recurrent/error_bounds.h"
#include "unit/kernels_recurrent/stack_case.h"

/// How results of a recurrent stack are held against the oracle.
namespace sluice::kernels::recurrent::testing {

/// Root mean square of the difference relative to that of what is wanted; NaN if either side has
/// one. Inputs, weights and gradients that flow in are of size about one: a tensor of a few
/// elements may cancel to much less while the roundings of its terms stay, so it counts for a tenth
/// at least.
double relative_error(const std::vector<double>& got, const std::vector<double>& want);

/// Bound of relative_error for storage of that type.
double tolerance_of(DType dtype);
/// The same, with factors that are cut off in TF32.
double tolerance_of(const runtime::Precision& precision);

/// Fresh on every run; SLUICE_TEST_SEED repeats one.
std::uint64_t seed();

/// The case in one line, for messages.
std::string describe(const StackCase& stack);

/// Plain implementations that a case is held to: a few, and as many as what lies beyond the bounds
/// of these is held to.
int plain_count(const StackCase& stack);
inline constexpr int kManyPlain = 40;
/// The case's tensors by the oracle and by so many plain implementations, in float32 with the
/// factors of products in TF32 or not.
std::map<std::string, Answer> answers_of(const StackCase& stack, bool tf32, int plain_count);

struct Judging {
  std::optional<bool> tf32 = std::nullopt;  ///< as the case's descriptor says
  double factor = 1;                        ///< by which the bounds are wider
};
/// Fails the test if a tensor is missing, another is there, or one lies beyond its bounds. What
/// lies beyond those of a few plain implementations is held to those of many: now and then an error
/// is amplified (after a reset, layer norm divides by next to nothing), and few draws don't show
/// it. Keeps the largest ratios of the test as a property of it.
void expect_accurate(const Tensors& got, const StackCase& stack, const Judging& judging = {});
void expect_accurate(const Tensors& got, const std::map<std::string, Answer>& answers,
                     double factor = 1);

/// Fails the test if a wanted tensor is missing or off by more, or another is there.
void expect_close(const Tensors& got, const Tensors& want, double tolerance);

}  // namespace sluice::kernels::recurrent::testing
