#include "end_to_end/program.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace sluice::end_to_end {
namespace {

int memory_file(const std::string& content) {
  const int file = memfd_create("sluice-test", MFD_CLOEXEC);
  if (file < 0) throw std::runtime_error("memfd_create failed");
  if (!content.empty() &&
      ::write(file, content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    throw std::runtime_error("cannot fill a memory file");
  }
  lseek(file, 0, SEEK_SET);
  return file;
}

std::string content_of(int file) {
  std::string content(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), '\0');
  if (::pread(file, content.data(), content.size(), 0) != static_cast<ssize_t>(content.size())) {
    throw std::runtime_error("cannot read a memory file");
  }
  return content;
}

std::vector<std::string> environment() {
  std::vector<std::string> variables{"OMP_NUM_THREADS=2", "OMP_WAIT_POLICY=passive"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!text.starts_with("OMP_")) variables.push_back(text);
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Running::Running(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                 const Setting& setting)
    : out_(memory_file("")), err_(memory_file("")) {
  std::vector<std::string> words{setting.program.empty() ? SLUICE_PROGRAM
                                                         : setting.program.native()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment();
  variables.insert(variables.end(), setting.variables.begin(), setting.variables.end());
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(variables);
  const int input =
      setting.input_descriptor >= 0 ? setting.input_descriptor : memory_file(setting.input);
  const int output = setting.output_descriptor >= 0 ? setting.output_descriptor : out_;
  process_ = fork();
  if (process_ < 0) throw std::runtime_error("fork failed");
  if (process_ == 0) {
    // Only calls that are safe between fork and exec.
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(err_, STDERR_FILENO);
    if (setting.largest_file) {
      const rlimit limit{*setting.largest_file, *setting.largest_file};
      setrlimit(RLIMIT_FSIZE, &limit);
      signal(SIGXFSZ, SIG_IGN);  // a full disk raises no signal
    }
    if (setting.largest_memory) {
      const rlimit limit{*setting.largest_memory, *setting.largest_memory};
      setrlimit(RLIMIT_AS, &limit);
    }
    if (chdir(folder.c_str()) == 0) execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  if (setting.input_descriptor < 0) close(input);
}

Running::~Running() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  close(out_);
  close(err_);
}

void Running::send(int signal) const { kill(process_, signal); }

Outcome Running::wait() {
  int status = 0;
  if (waitpid(process_, &status, 0) != process_) throw std::runtime_error("waitpid failed");
  process_ = -1;
  Outcome outcome;
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.out = content_of(out_);
  outcome.err = content_of(err_);
  return outcome;
}

Outcome run(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
            const Setting& setting) {
  return Running(folder, arguments, setting).wait();
}

std::vector<std::string> in_shell(const std::string& command) {
  return {"-c", "PATH=\"$(dirname '" SLUICE_PROGRAM "'):$PATH\"\n" + command};
}

Outcome run_in_shell(const std::filesystem::path& folder, const std::string& command) {
  return run(folder, in_shell(command), {.program = "/bin/sh"});
}

}  // namespace sluice::end_to_end
