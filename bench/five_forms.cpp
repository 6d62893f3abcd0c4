#include "bench/five_forms.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>

#include "bench/fixed_workload.h"
#include "bench/output_file.h"
#include "bench/runner.h"

namespace sluice::bench {
namespace {

constexpr const char* kRow = "{:<11} {:<28} {:<36} {}\n";

std::vector<std::string> implementations_of(bool gpu) {
  std::vector<std::string> names;
  for (const Form& form : forms()) {
    for (const std::string& name : gpu ? form.gpu : form.cpu) names.push_back(name);
  }
  return names;
}

std::string_view without_captured(std::string_view name) {
  return name.substr(0, name.find(kCaptured));
}

std::string cell(const std::vector<BenchResult>& results, const std::vector<std::string>& names) {
  const BenchResult* result = result_of(results, names);
  if (result == nullptr) return "-";
  return fmt::format("{:>9.3f} {}", result->milliseconds, result->implementation);
}

std::vector<BenchResult> run_column(const FiveFormsOptions& options, bool gpu, std::ostream& out) {
  const std::string device = gpu ? options.device : "cpu";
  RecurrentBenchOptions bench;
  std::vector<std::string> names = implementations_of(gpu);
  if (gpu) {
    try {
      const auto opened = runtime::open_device(device);
      if (!opened->default_stream().can_capture()) {
        std::erase_if(names, [](const std::string& name) { return name.ends_with(kCaptured); });
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDevice) throw;
      out << fmt::format("# no GPU column: {}\n", error.what());
      return {};
    }
  }
  bench.implementations = fmt::format("{}", fmt::join(names, ","));
  bench.skip_declined = true;
  bench.passes = options.pass;
  bench.repeats = options.repeats;
  bench.error = ErrorCheck::kOff;
  const BenchShape shape = fixed_workload("table", options.shapes, options.dtype, device);
  return run_quietly(bench, shape, out);
}

}  // namespace

const std::vector<Form>& forms() {
  static const std::vector<Form> list{
      {"Basic", {"baseline"}, {"portable"}, "operations gate by gate, a step at a time"},
      {"LSTMCell",
       {"combined-gemm"},
       {"avx2"},
       "one product for all gates of a step; takes projections"},
      {"Block", {"fused-pointwise"}, {"avx512"}, "one fused kernel a step"},
      {"BlockFused",
       {"persistent-cluster", "combined-inputs", "combined-inputs+graph"},
       {"amx"},
       "fused over time: launched as a whole, inputs of all steps at once"},
      {"cuDNN",
       {"cudnn-standard", "cudnn-standard+graph"},
       {"onednn"},
       "the library's own layer (oneDNN on the CPU)"},
      {"Sluice", {"auto"}, {"auto"}, "what is chosen by default"},
  };
  return list;
}

const BenchResult* result_of(const std::vector<BenchResult>& results,
                             const std::vector<std::string>& names) {
  const BenchResult* best = nullptr;
  for (const std::string& name : names) {
    if (best && without_captured(name) != without_captured(best->implementation)) break;
    for (const BenchResult& result : results) {
      const bool has_form = name == "auto" ? result.is_default : result.implementation == name;
      if (has_form && (!best || result.milliseconds < best->milliseconds)) best = &result;
    }
  }
  return best;
}

std::vector<BenchResult> run_five_forms(const FiveFormsOptions& options, std::ostream& out) {
  SLUICE_CHECK(options.pass == "forward" || options.pass == "forward+backward",
               "unknown pass '{}'; use forward or forward+backward", options.pass);
  if (!options.json.empty()) require_writable(options.json);
  const BenchShape shape = fixed_workload("table", options.shapes, options.dtype, "cpu");
  out << fmt::format("{}, {}, milliseconds\n", describe(shape), options.pass);
  std::vector<BenchResult> cpu = run_column(options, false, out);
  const std::vector<BenchResult> gpu = run_column(options, true, out);
  out << fmt::format(kRow, "form", "       CPU", "       GPU", "what it is");
  for (const Form& form : forms()) {
    out << fmt::format(kRow, form.name, cell(cpu, form.cpu), cell(gpu, form.gpu), form.meaning);
  }
  cpu.insert(cpu.end(), gpu.begin(), gpu.end());
  if (!options.json.empty()) write_file(options.json, to_json(cpu));
  return cpu;
}

}  // namespace sluice::bench
