#include "distributed/launch.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/check.h"

namespace sluice::distributed {
namespace {

// The default of torchrun and PyTorch.
constexpr std::int64_t kPort = 29500;

std::string text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

/// The number in the first of these variables that is set.
std::optional<std::int64_t> first_of(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    const std::string text = text_of(variable);
    if (text.empty()) continue;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    SLUICE_CHECK(
        error == std::errc() && end == text.data() + text.size() && number >= 0,
        "the environment variable {} is '{}'; it must be a number that is not negative, or "
        "set SLUICE_IGNORE_LAUNCHER=1 to train without others",
        variable, text);
    return number;
  }
  return std::nullopt;
}

/// Where torchrun keeps a store of its own at MASTER_PORT, rank 0 listens at the next one.
int port_of_rank_0() {
  const std::int64_t port = first_of({"MASTER_PORT"}).value_or(kPort) +
                            (text_of("TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0);
  SLUICE_CHECK(port > 0 && port < 65536, "MASTER_PORT leads to the port {}, which can't be", port);
  return static_cast<int>(port);
}

}  // namespace

Launch launch_of_process() {
  Launch launch;
  if (std::getenv("SLUICE_IGNORE_LAUNCHER") != nullptr) return launch;
  const std::string address = text_of("MASTER_ADDR");
  const auto rank = first_of({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"});
  const bool torchrun = !address.empty() && !text_of("RANK").empty();
  if (torchrun) launch.processes = first_of({"WORLD_SIZE"}).value_or(1);
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (torchrun) break;
    launch.processes = std::max(launch.processes, first_of({variable}).value_or(1));
  }
  SLUICE_CHECK(!address.empty() || text_of("RANK").empty() ||
                   first_of({"WORLD_SIZE"}).value_or(1) <= 1 || !launch.is_alone(),
               "this process is rank {} of {}, but MASTER_ADDR does not say where rank 0 is; set "
               "it, or SLUICE_IGNORE_LAUNCHER=1 to train without others",
               text_of("RANK"), text_of("WORLD_SIZE"));
  if (launch.is_alone()) return {};
  launch.local_rank =
      first_of({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}).value_or(0);
  if (address.empty() || !rank) return launch;
  SLUICE_CHECK(*rank < launch.processes, "this process is rank {} of {}, which can't be", *rank,
               launch.processes);
  launch.rank = *rank;
  launch.address = address;
  launch.port = port_of_rank_0();
  return launch;
}

}  // namespace sluice::distributed
