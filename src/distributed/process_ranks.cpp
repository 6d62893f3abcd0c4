#include "distributed/process_ranks.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "distributed/launch.h"
#include "distributed/mpi_part.h"
#include "distributed/tcp/tcp_ranks.h"

namespace sluice::distributed {
namespace {

// Set for processes that this program started, which start no others.
constexpr const char* kStarted = "SLUICE_STARTED_RANK";

/// The environment of rank `rank`: this process's, but for the variables of a launcher.
std::vector<std::string> environment_of(std::int64_t rank, std::int64_t count, int port) {
  std::vector<std::string> all{"RANK=" + std::to_string(rank),
                               "LOCAL_RANK=" + std::to_string(rank),
                               "WORLD_SIZE=" + std::to_string(count),
                               "MASTER_ADDR=127.0.0.1",
                               std::string(kStarted) + "=" + std::to_string(rank),
                               "MASTER_PORT=" + std::to_string(port)};
  const std::size_t own = all.size();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    bool kept = !text.starts_with("TORCHELASTIC_USE_AGENT_STORE=") &&
                !text.starts_with("SLUICE_IGNORE_LAUNCHER=");
    for (std::size_t i = 0; i < own; ++i) {
      kept = kept && !text.starts_with(all[i].substr(0, all[i].find('=') + 1));
    }
    if (kept) all.emplace_back(text);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// Returns their process ids.
std::vector<pid_t> start_ranks(const std::vector<std::string>& command, std::int64_t count,
                               int port) {
  std::vector<std::string> arguments = command;
  const std::vector<char*> argument_list = pointers_to(arguments);
  const pid_t parent = getpid();
  std::vector<pid_t> children;
  for (std::int64_t rank = 1; rank < count; ++rank) {
    std::vector<std::string> environment = environment_of(rank, count, port);
    const std::vector<char*> variables = pointers_to(environment);
    const pid_t child = fork();
    if (child < 0) {
      base::fail(ErrorCode::kIo, "the process of rank {} can't be started: {}", rank,
                 std::strerror(errno));
    }
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    // Only what is safe between fork and exec.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    execve("/proc/self/exe", argument_list.data(), variables.data());
    _exit(127);
  }
  return children;
}

/// Throws if one has ended: a process that was killed at once never comes.
void require_alive(const std::vector<pid_t>& children) {
  for (std::size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    if (waitpid(children[i], &status, WNOHANG) != children[i]) continue;
    base::fail(ErrorCode::kDevice, "the process of rank {} ended before it began ({} {})", i + 1,
               WIFSIGNALED(status) ? "signal" : "exit code",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
}

std::unique_ptr<Communicator> connect(const Launch& launch) {
  if (launch.address.empty()) return start_mpi(launch.processes);
  if (launch.rank == 0) return tcp::lead(tcp::listen_at(launch.port), launch.processes);
  return tcp::join(launch.address, launch.port, launch.rank, launch.processes);
}

}  // namespace

Communicator* rank_of_process() {
  const Launch launch = launch_of_process();
  if (launch.is_alone()) return nullptr;
  static const std::unique_ptr<Communicator> rank = connect(launch);
  return rank.get();
}

Communicator* start_others(const std::vector<std::string>& gpus,
                           const std::vector<std::string>& command) {
  if (command.empty()) {
    base::fail(
        ErrorCode::kUnsupported,
        "{} GPUs take a process each: use the program (sluice train task.toml --devices {}), "
        "or start this one by torchrun",
        gpus.size(), fmt::join(gpus, ","));
  }
  SLUICE_CHECK(std::getenv(kStarted) == nullptr,
               "rank {} was started by another process and can't start ranks",
               std::getenv(kStarted));
  static const std::unique_ptr<Communicator> first = [&] {
    const tcp::Socket listener = tcp::listen_at(0, tcp::Reach::kThisMachine);
    const auto children = start_ranks(command, std::ssize(gpus), tcp::port_of(listener));
    return tcp::lead(listener, std::ssize(gpus), [&] { require_alive(children); });
  }();
  SLUICE_CHECK(first->size() == std::ssize(gpus),
               "this process has trained on {} GPUs and can't go on with {}; start another one",
               first->size(), gpus.size());
  return first.get();
}

std::string device_here(const std::vector<std::string>& devices,
                        const std::vector<std::string>& gpus) {
  const auto place = static_cast<std::size_t>(launch_of_process().local_rank);
  if (devices.size() == 1) {
    return devices.front() == "cuda" ? gpus[place % gpus.size()] : devices.front();
  }
  SLUICE_CHECK(place < devices.size(),
               "{} devices are named, but at least {} processes were started on this machine, each "
               "of which is a rank: name a device for each",
               devices.size(), place + 1);
  return devices[place];
}

}  // namespace sluice::distributed
