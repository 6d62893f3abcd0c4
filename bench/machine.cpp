#include "bench/machine.h"

#include <omp.h>

#include <nlohmann/json.hpp>

#include "bench/commit.h"
#include "runtime/cuda_library.h"
#include "runtime/machine.h"

namespace sluice::bench {

void add_machine(nlohmann::ordered_json& row, std::string_view device) {
  row["threads"] = omp_get_max_threads();
  row["cpu"] = runtime::cpu_model();
  row["commit"] = commit();
  if (!device.starts_with("cuda")) return;
  const runtime::CudaSoftware software =
      runtime::cuda_part().software(runtime::LibrarySearch::kOpened);
  row["driver"] = software.driver;
  row["driver_cuda"] = software.driver_cuda;
  row["cuda_runtime"] = software.runtime;
  nlohmann::ordered_json& libraries = row["libraries"] = nlohmann::ordered_json::object();
  for (const runtime::LibraryReport& library : software.libraries) {
    libraries[library.name] = library.version;
  }
}

}  // namespace sluice::bench
