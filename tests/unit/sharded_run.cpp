#include "unit/sharded_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>

#include "unit/support/temporary_folder.h"

namespace sluice::testing {
namespace {

using Clock = std::chrono::steady_clock;

/// More shards than run at a time: a process that has quick tests takes the next shard.
constexpr int kShardsAJob = 6;

/// The environment, with some variables set. Those that `keep` are left as they are if set.
class Environment {
 public:
  Environment() {
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string text = *variable;
      variables_[text.substr(0, text.find('='))] = text;
    }
  }
  void set(const std::string& name, const std::string& value) {
    variables_[name] = name + "=" + value;
  }
  void set_default(const std::string& name, const std::string& value) {
    variables_.emplace(name, name + "=" + value);
  }
  std::vector<char*> pointers() {
    std::vector<char*> all;
    for (auto& [name, text] : variables_) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  }

 private:
  std::map<std::string, std::string> variables_;
};

struct Shard {
  int index = 0;
  std::filesystem::path report, output;
  Clock::time_point begun;
};

pid_t start(const Shard& shard, int shards, int jobs, std::vector<std::string> arguments) {
  Environment environment;
  environment.set("GTEST_TOTAL_SHARDS", std::to_string(shards));
  environment.set("GTEST_SHARD_INDEX", std::to_string(shard.index));
  environment.set(kReportVariable, shard.report.native());
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  environment.set_default("OMP_NUM_THREADS", std::to_string(std::max(2, cores / jobs)));
  environment.set_default("OMP_WAIT_POLICY", "passive");

  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  arguments.insert(arguments.begin(), program);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, shard.output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t process = -1;
  const int failed = posix_spawn(&process, program.c_str(), &actions, nullptr, pointers.data(),
                                 environment.pointers().data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + program + " for a part of the tests");
  return process;
}

void print_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::cout << file.rdbuf();
  std::cout.clear();  // an empty file sets the failure bit
}

/// What came of a shard, from its report and from how its process ended.
TestReport conclude(const Shard& shard, int shards, int status) {
  TestReport report = read_test_report(shard.report);
  const bool complete = WIFEXITED(status) && report.planned == report.ended() &&
                        (report.failed > 0) == (WEXITSTATUS(status) != 0);
  if (!complete || report.failed > 0) print_file(shard.output);
  if (!complete) {
    const std::string how = WIFSIGNALED(status)
                                ? "signal " + std::to_string(WTERMSIG(status))
                                : "exit status " + std::to_string(WEXITSTATUS(status));
    const int lost = std::max(1, report.planned - report.ended());
    std::cout << "part " << shard.index + 1 << " ended by " << how
              << (report.running.empty() ? "" : " in " + report.running) << ": " << lost
              << " of its tests did not end and count as failed\n";
    report.failed += lost;
  }
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - shard.begun).count();
  std::cout << "part " << shard.index + 1 << " of " << shards << ": " << report.passed
            << " passed, " << report.failed << " failed, " << report.skipped << " skipped in "
            << seconds << " s" << std::endl;
  return report;
}

}  // namespace

TestReport run_shards(const std::vector<std::string>& arguments, int jobs) {
  const TemporaryFolder folder;
  const int shards = jobs * kShardsAJob;
  std::map<pid_t, Shard> running;
  TestReport all;
  for (int next = 0; next < shards || !running.empty();) {
    while (next < shards && static_cast<int>(running.size()) < jobs) {
      const Shard shard{next, folder / ("report" + std::to_string(next)),
                        folder / ("output" + std::to_string(next)), Clock::now()};
      running[start(shard, shards, jobs, arguments)] = shard;
      ++next;
    }
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    const auto found = running.find(ended);
    if (found == running.end()) continue;
    all.add(conclude(found->second, shards, status));
    running.erase(found);
  }
  return all;
}

}  // namespace sluice::testing
