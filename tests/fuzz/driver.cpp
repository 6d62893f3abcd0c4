// Feeds a parser with mutated files: fuzz_NAME [--seconds N] [--executions N] [--seed N] FILE...
// A file is a corpus entry; so is each member of a FILE that ends in .zip. A+B are the contents of
// both and the size of A in 4 bytes. Ends at the first crash, with what crashed in ./fuzz-crash.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "io/zip_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = 1 << 20;
/// No input may take so long.
constexpr unsigned kMostSeconds = 20;

std::string running;  // what a crash is told of

// Only what is safe in a signal handler.
void keep_crash(int signal) {
  if (FILE* file = std::fopen("fuzz-crash", "wb")) {
    std::fwrite(running.data(), 1, running.size(), file);
    std::fclose(file);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot open %s\n", path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void add_to(std::vector<std::string>& corpus, const std::string& name) {
  if (name.ends_with(".zip")) {
    sluice::io::ZipArchive archive(name);
    for (const auto& member : archive.members()) {
      std::string bytes(static_cast<std::size_t>(member.bytes), '\0');
      archive.open(member);
      bytes.resize(archive.read(bytes));
      corpus.push_back(std::move(bytes));
    }
    return;
  }
  const std::size_t plus = name.find('+');
  std::string bytes = bytes_of(name.substr(0, plus));
  if (plus != std::string::npos) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    bytes += bytes_of(name.substr(plus + 1));
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  }
  corpus.push_back(std::move(bytes));
}

/// Damages that files meet, and those that parsers fall for: sizes that lie.
class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, std::uint64_t seed)
      : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string bytes = pick();
    for (std::uint64_t changes = 1 + below(6); changes > 0; --changes) mutate(bytes);
    if (bytes.size() > kMostBytes) bytes.resize(kMostBytes);
    return bytes;
  }

 private:
  std::uint64_t below(std::uint64_t count) { return count == 0 ? 0 : random_() % count; }
  const std::string& pick() { return corpus_[below(corpus_.size())]; }

  void mutate(std::string& bytes) {
    const std::uint64_t at = below(bytes.size() + 1);
    const std::uint64_t length = below(std::min<std::uint64_t>(bytes.size() - at, 64) + 1);
    switch (below(8)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<char>(random_());
        break;
      case 2:
        put_number(bytes, at);
        break;
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(at, bytes.substr(below(bytes.size() + 1), length));
        break;
      case 5:
        bytes.insert(at, length, static_cast<char>(random_()));
        break;
      case 6:
        splice(bytes, at);
        break;
      default:
        if (below(4) == 0) bytes.resize(at);
    }
  }

  /// A number that is near a limit, little-endian, of 1 to 8 bytes.
  void put_number(std::string& bytes, std::uint64_t at) {
    static constexpr std::int64_t kNumbers[]{
        0,          1,         -1,        16,
        127,        128,       255,       256,
        32767,      65535,     INT32_MAX, INT32_MIN,
        UINT32_MAX, INT64_MAX, INT64_MIN, std::int64_t{1} << 40};
    const std::int64_t number = kNumbers[below(std::size(kNumbers))];
    const std::size_t size = std::size_t{1} << below(4);
    for (std::size_t i = 0; i < size && at + i < bytes.size(); ++i) {
      bytes[at + i] = static_cast<char>(number >> (8 * i));
    }
  }

  void splice(std::string& bytes, std::uint64_t at) {
    const std::string& other = pick();
    const std::uint64_t from = below(other.size() + 1);
    bytes.replace(at, below(bytes.size() - at + 1), other.substr(from, below(4096)));
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int count, char** arguments) {
  double seconds = 10;
  std::uint64_t executions = UINT64_MAX, seed = std::random_device()();
  std::vector<std::string> corpus;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    const bool has_value = i + 1 < count;
    if (name == "--seconds" && has_value) {
      seconds = std::atof(arguments[++i]);
    } else if (name == "--executions" && has_value) {
      executions = std::strtoull(arguments[++i], nullptr, 10);
    } else if (name == "--seed" && has_value) {
      seed = std::strtoull(arguments[++i], nullptr, 10);
    } else {
      add_to(corpus, std::string(name));
    }
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "usage: %s [--seconds N] [--executions N] [--seed N] FILE...\n",
                 arguments[0]);
    return 2;
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    ::signal(signal, keep_crash);
  }
  Mutator mutator(corpus, seed);
  const auto start = Clock::now();
  double slowest = 0;
  std::uint64_t done = 0;
  const auto run = [&](std::string bytes) {
    running = std::move(bytes);
    alarm(kMostSeconds);
    const auto begun = Clock::now();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(running.data()), running.size());
    slowest = std::max(slowest, std::chrono::duration<double>(Clock::now() - begun).count());
    ++done;
  };
  for (const std::string& whole : corpus) run(whole);
  while (done < executions &&
         std::chrono::duration<double>(Clock::now() - start).count() < seconds) {
    run(mutator.next());
  }
  std::printf("%llu executions from %zu files, seed %llu; the slowest took %.3f s\n",
              static_cast<unsigned long long>(done), corpus.size(),
              static_cast<unsigned long long>(seed), slowest);
  return 0;
}
