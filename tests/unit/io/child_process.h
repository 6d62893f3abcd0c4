#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace sluice::io {

/// A forked child that runs `body`; it ends with 0 if the body returns, 1 if it throws.
class ChildProcess {
 public:
  template <typename Body>
  explicit ChildProcess(Body&& body) : id_(fork()) {
    if (id_ != 0) return;
    int status = 0;
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      status = 1;
    }
    _exit(status);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    if (id_ > 0) kill_and_wait();
  }

  void kill_and_wait() {
    ::kill(id_, SIGKILL);
    wait();
  }
  /// The exit status, or the negative number of the signal that ended it.
  int wait() {
    int status = 0;
    waitpid(id_, &status, 0);
    id_ = -1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t id_;
};

}  // namespace sluice::io
