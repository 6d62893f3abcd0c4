#pragma once

#include <compare>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::bench::report {

/// What was measured: results that agree in all of it are compared with each other.
struct Workload {
  std::string device;   ///< "cpu", "cuda:0"
  std::string machine;  ///< the GPU's model, or the CPU's with the number of threads
  /// A recurrent layer's, "gemm" for a product of matrices, "seq2seq" for training.
  std::string cell;
  std::string dtype;
  std::string pass;
  std::string name;
  std::string sizes;  ///< "T100 B64 I512 H512", …

  auto operator<=>(const Workload&) const = default;
};

/// One entry of a results file.
struct Measurement {
  Workload workload;
  std::string implementation;
  bool peer = false;
  bool is_default = false;  ///< what "auto" picks
  double milliseconds = 0;
  /// Median over turns of the time of the fastest peer / this one's in the same turn.
  std::optional<double> speedup_over_peer;
  std::string turns;                 ///< names the run that took them; empty: not said
  std::string commit;                ///< empty: not said
  std::string software;              ///< driver and libraries; empty: not said
  std::optional<double> peak_bytes;  ///< of the device
  std::string file;                  ///< where it stands, for errors
};

/// Reads a JSON list as `sluice bench` and bench/peers write it, or a list of groups
/// {"common": {…}, "results": […]} as join_results writes it. Throws Error naming file, entry and
/// key for whatever does not fit.
std::vector<Measurement> read_results(const std::filesystem::path& path);
/// The same, of a text that `origin` names in errors.
std::vector<Measurement> parse_results(std::string_view text, const std::string& origin);

/// All that results files hold as the text of one: results of the same machine, libraries and
/// commit are a group, which states these once; a result is a line. Throws Error as read_results
/// does.
std::string join_results(const std::vector<std::string>& files);

}  // namespace sluice::bench::report
