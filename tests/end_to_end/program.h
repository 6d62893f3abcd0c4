#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice::end_to_end {

/// How a run of the program ended and what it said.
struct Outcome {
  int code = -1;   ///< exit code; -1 if a signal ended it
  int signal = 0;  ///< the signal that ended it
  std::string out;
  std::string err;
};

struct Setting {
  std::string input{};                     ///< standard input
  std::optional<rlim_t> largest_file{};    ///< bytes; a write beyond fails as on a full disk
  std::optional<rlim_t> largest_memory{};  ///< bytes of address space
  std::vector<std::string> variables{};    ///< NAME=value, added to the environment
  std::filesystem::path program{};         ///< instead of the built one
  int input_descriptor = -1;               ///< instead of `input`
  int output_descriptor = -1;              ///< instead of Outcome::out
};

/// A started `sluice`, with two threads; killed at the end of its life if it still runs.
class Running {
 public:
  Running(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
          const Setting& setting = {});
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running();

  pid_t process() const { return process_; }
  void send(int signal) const;
  Outcome wait();

 private:
  pid_t process_ = -1;
  int out_ = -1;
  int err_ = -1;
};

/// Runs `sluice arguments...` in a folder to its end.
Outcome run(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
            const Setting& setting = {});

/// Arguments of a shell that runs a line as people type it, in which `sluice` is the built program.
std::vector<std::string> in_shell(const std::string& command);
/// Runs a line as people type it, in which `sluice` is the built program.
Outcome run_in_shell(const std::filesystem::path& folder, const std::string& command);

}  // namespace sluice::end_to_end
