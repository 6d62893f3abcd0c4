#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// A test may skip itself only for a reason that tests/allowed_skips.txt has, on a machine of the
/// kind that the list names. Any other skip is a failure, so that no failure can become a skip.
namespace sluice::testing {

/// The list: a rule a line, `MACHINE | TESTS | REASON`; empty lines and those that begin with # are
/// comments. MACHINE is `any`, something that machine_has() knows, or that behind `no-`. TESTS and
/// REASON are regular expressions of the whole name and the whole reason.
class AllowedSkips {
 public:
  using Has = std::function<bool(const std::string&)>;

  /// Throws std::runtime_error that names the line for what is no rule.
  explicit AllowedSkips(std::string_view text);

  bool allow(const std::string& test, const std::string& reason, const Has& has) const;

 private:
  struct Rule {
    std::string machine, tests, reason;
  };
  std::vector<Rule> rules_;
};

/// Whether this machine has `driver` (NVIDIA's), `gpu` (one that the tests run on), `hopper` (one
/// of compute capability 9.0), `second_gpu`, or a flag of /proc/cpuinfo such as `avx512f`.
bool machine_has(const std::string& what);

/// Fails tests of this program that are skipped against the list. Unless somebody else counts them,
/// its last lines count the reasons of the others: `N skipped: REASON`. To be called between
/// InitGoogleTest and RUN_ALL_TESTS.
void watch_skips(bool counts = true);

}  // namespace sluice::testing
