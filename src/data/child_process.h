#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice::data {

/// A command of the shell (/bin/sh -c) whose standard input and output are pipes to this object;
/// standard error stays that of the program. What it starts is a process group, which is ended with
/// this object unless wait() has seen the command's end. Reading and writing never wait; only
/// ready() and wait() do.
class ChildProcess {
 public:
  /// Throws ErrorCode::kIo if the system refuses a pipe or a process.
  explicit ChildProcess(const std::string& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Waits until there is something to read (or the output has ended) or, if `to_write`, room to
  /// write; false if neither came within the time.
  bool ready(bool to_write, std::chrono::milliseconds longest) const;
  /// Writes what the pipe takes now and returns how many bytes; 0 if none. If the command reads no
  /// more, closes the input.
  std::size_t write(std::string_view bytes);
  /// What has come so far, at most as much as `out` holds: nothing if none has, 0 at the end.
  std::optional<std::size_t> read(std::span<char> out);
  void close_input();
  bool input_open() const { return input_ >= 0; }
  /// "exit code 1" or "signal 9", once the command has ended; waits for that, but ends it
  /// if it takes long.
  std::string wait();
  /// Of what wait() saw; -1 for a signal or an unknown end.
  int exit_code() const { return exit_code_; }

 private:
  pid_t process_ = -1;
  int input_ = -1;
  int output_ = -1;
  int exit_code_ = -1;
};

}  // namespace sluice::data
