#include "io/atomic_directory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <random>

#include "child_process.h"
#include "temporary_folder.h"
#include "unit/support/full_disk.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;

constexpr SwapMethod kMethods[] = {SwapMethod::kAutomatic, SwapMethod::kTwoRenames};

std::string content(int generation, char file) {
  return fmt::format("{} of generation {}\n", file, generation) +
         std::string(30'000, static_cast<char>('A' + generation % 26));
}

/// Plain writes, so that only the folder's own protocol protects them.
void fill(const fs::path& folder, int generation) {
  fs::create_directories(folder / "below");
  std::ofstream(folder / "a") << content(generation, 'a');
  std::ofstream(folder / "below" / "b") << content(generation, 'b');
  std::ofstream(folder / "generation") << generation;
}

/// Which generation the folder holds, whole; none if a part is missing or of another.
std::optional<int> generation_of(const fs::path& folder) {
  try {
    const int generation = std::stoi(read_file(folder / "generation", 100));
    const bool whole = read_file(folder / "a", 1'000'000) == content(generation, 'a') &&
                       read_file(folder / "below" / "b", 1'000'000) == content(generation, 'b');
    return whole ? std::optional(generation) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void write_generation(const fs::path& folder, int generation,
                      SwapMethod method = SwapMethod::kAutomatic) {
  AtomicDirectory directory(folder);
  fill(directory.path(), generation);
  directory.commit(method);
}

TEST(AtomicDirectory, AppearsAndIsReplaced) {
  for (const SwapMethod method : kMethods) {
    const TemporaryFolder folder;
    write_generation(folder / "last", 1, method);
    EXPECT_EQ(generation_of(folder / "last"), 1);
    write_generation(folder / "last", 2, method);
    write_generation(folder / "last/", 3, method);
    EXPECT_EQ(generation_of(folder / "last"), 3);
    EXPECT_EQ(folder.count(), 1);
  }
}

TEST(AtomicDirectory, UncommittedIsRemoved) {
  const TemporaryFolder folder;
  write_generation(folder / "last", 1);
  {
    AtomicDirectory directory(folder / "last");
    fill(directory.path(), 2);
    EXPECT_EQ(folder.count(), 2);
    EXPECT_EQ(generation_of(folder / "last"), 1);
  }
  EXPECT_EQ(generation_of(folder / "last"), 1);
  EXPECT_EQ(folder.count(), 1);
}

TEST(AtomicDirectory, FollowsALinkToTheFolder) {
  const TemporaryFolder folder;
  write_generation(folder / "real", 1);
  fs::create_directory_symlink(folder / "real", folder / "link");
  write_generation(folder / "link", 2);
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(generation_of(folder / "real"), 2);
  EXPECT_EQ(folder.count(), 2);
}

TEST(AtomicDirectory, RefusesASecondWriterAndWhatIsNoFolder) {
  const TemporaryFolder folder;
  AtomicDirectory first(folder / "last");
  fill(first.path(), 1);
  const Error error = error_of([&] { AtomicDirectory second(folder / "last"); });
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_NE(std::string(error.what()).find("another process is writing it"), std::string::npos);
  // A reader that puts things in order leaves the living writer's folder alone.
  recover_directory(folder / "last");
  first.commit();
  EXPECT_EQ(generation_of(folder / "last"), 1);

  std::ofstream(folder / "file") << "text";
  EXPECT_EQ(error_of([&] { AtomicDirectory directory(folder / "file"); }).code(), ErrorCode::kIo);
  EXPECT_EQ(error_of([&] { AtomicDirectory directory("/"); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { AtomicDirectory directory(folder / "no" / "parent"); }).code(),
            ErrorCode::kIo);
}

/// The steps of a commit, in order.
std::vector<std::string> steps_of(SwapMethod method, bool replaces) {
  std::vector<std::string> steps;
  const TemporaryFolder folder;
  if (replaces) write_generation(folder / "last", 1);
  AtomicDirectory directory(folder / "last");
  directory.commit(method, [&](const char* step) { steps.emplace_back(step); });
  return steps;
}

/// Kills a writer in each step; a complete folder must be there afterwards, the new one once a step
/// has put it in place, and nothing left beside it.
TEST(AtomicDirectory, SurvivesAKillInEachStep) {
  for (const SwapMethod method : kMethods) {
    for (const bool replaces : {false, true}) {
      const auto steps = steps_of(method, replaces);
      ASSERT_GE(steps.size(), 2u);
      for (const std::string& fatal : steps) {
        SCOPED_TRACE(fatal);
        const TemporaryFolder folder;
        if (replaces) write_generation(folder / "last", 1);
        ChildProcess child([&] {
          AtomicDirectory directory(folder / "last");
          fill(directory.path(), 2);
          directory.commit(method, [&](const char* step) {
            if (fatal == step) raise(SIGKILL);
          });
        });
        ASSERT_EQ(child.wait(), -SIGKILL);
        recover_directory(folder / "last");
        const bool before = fatal == "content synced" || fatal == "marked complete";
        if (before && !replaces) {
          EXPECT_FALSE(fs::exists(folder / "last"));
        } else {
          EXPECT_EQ(generation_of(folder / "last"), before ? 1 : 2);
        }
        EXPECT_EQ(folder.count(), before && !replaces ? 0 : 1);
        write_generation(folder / "last", 3, method);
        EXPECT_EQ(generation_of(folder / "last"), 3);
      }
    }
  }
}

/// A writer that runs for ever and is killed at random moments, over and over: what it reported as
/// committed is never lost, and what is there is always whole.
TEST(AtomicDirectory, SurvivesKillsAtRandomMoments) {
  std::mt19937 random(42);
  for (const SwapMethod method : kMethods) {
    const TemporaryFolder folder;
    int reported = 0;
    const auto start = std::chrono::steady_clock::now();
    write_generation(folder / "last", reported);
    const std::chrono::duration<double, std::micro> one = std::chrono::steady_clock::now() - start;
    for (int round = 0; round < 20; ++round) {
      int report[2];
      ASSERT_EQ(pipe(report), 0);
      ChildProcess child([&] {
        for (int generation = reported + 1;; ++generation) {
          write_generation(folder / "last", generation, method);
          if (write(report[1], &generation, sizeof(int)) != sizeof(int)) return;
        }
      });
      close(report[1]);
      // Every other writer gets to commit once, however slow the disk.
      if (round % 2 == 1) {
        ASSERT_EQ(read(report[0], &reported, sizeof(int)), static_cast<ssize_t>(sizeof(int)));
      }
      usleep(
          static_cast<useconds_t>(one.count() * 2.0 * std::generate_canonical<double, 32>(random)));
      child.kill_and_wait();
      while (read(report[0], &reported, sizeof(int)) == sizeof(int)) {
      }
      close(report[0]);
      recover_directory(folder / "last");
      const auto found = generation_of(folder / "last");
      ASSERT_TRUE(found) << "round " << round;
      // The last commit may have ended without its report.
      ASSERT_GE(*found, reported);
      ASSERT_LE(*found, reported + 1);
      ASSERT_EQ(folder.count(), 1);
      reported = *found;
    }
    EXPECT_GT(reported, 0);
  }
}

/// All sixteen combinations of folders that a crash, or a crash while recovering, could leave.
TEST(RecoverDirectory, KeepsACompleteFolderWhateverIsThere) {
  for (int there = 0; there < 16; ++there) {
    SCOPED_TRACE(there);
    const TemporaryFolder folder;
    if (there & 1) fill(folder / "last", 1);
    if (there & 2) fill(folder / "last.sluice-new", 2);
    if (there & 4) fill(folder / "last.sluice-old", 3);
    if (there & 8) fs::create_directory(folder / "last.sluice-tmp");
    recover_directory(folder / "last");
    const int expected = (there & 1) ? 1 : (there & 2) ? 2 : 3;
    if ((there & 7) == 0) {
      EXPECT_EQ(folder.count(), 0);
    } else {
      EXPECT_EQ(generation_of(folder / "last"), expected);
      EXPECT_EQ(folder.count(), 1);
    }
  }
}

TEST(RecoverDirectory, TouchesNothingElse) {
  const TemporaryFolder folder;
  write_generation(folder / "last", 1);
  fs::create_directory(folder / "last.old");
  fs::create_directory(folder / "last.tmp-1");
  fs::create_directory(folder / "best.sluice-tmp");
  recover_directory(folder / "last");
  EXPECT_EQ(folder.count(), 4);
  EXPECT_NO_THROW(recover_directory(folder / "never" / "was"));
}

TEST(AtomicDirectory, ErrorsWhileSwappingLeaveTheOldFolder) {
  for (const SwapMethod method : kMethods) {
    for (const std::string& failing : steps_of(method, true)) {
      // From here on the new folder is in place and durable.
      if (failing == "synced" || failing == "exchanged") continue;
      SCOPED_TRACE(failing);
      const TemporaryFolder folder;
      write_generation(folder / "last", 1);
      const Error error = error_of([&] {
        AtomicDirectory directory(folder / "last");
        fill(directory.path(), 2);
        directory.commit(method, [&](const char* step) {
          if (failing == step) throw Error(ErrorCode::kIo, "refused");
        });
      });
      EXPECT_STREQ(error.what(), "refused");
      EXPECT_EQ(generation_of(folder / "last"), 1);
      EXPECT_EQ(folder.count(), 1);
    }
  }
}

/// Fills a disk of 256 KiB: the folder that is there survives every attempt to write a larger one.
/// Runs in a child with mounts of its own; 77 if the system does not let it have them.
int write_until_full(const fs::path& disk) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0) {
    return 77;
  }
  write_generation(disk / "last", 1);
  try {
    AtomicDirectory directory(disk / "last");
    fill(directory.path(), 2);
    write_file_durably(directory.path() / "large", std::string(500'000, 'x'));
    return 2;
  } catch (const Error& error) {
    if (std::string(error.what()).find("No space left on device") == std::string::npos) return 3;
  }
  if (generation_of(disk / "last") != 1) return 4;
  write_generation(disk / "last", 3);
  return generation_of(disk / "last") == 3 ? 0 : 5;
}

TEST(AtomicDirectory, AFullDiskLosesNothing) {
  const TemporaryFolder folder;
  ChildProcess child([&] { _exit(write_until_full(folder.path())); });
  const int status = child.wait();
  if (status == 77) GTEST_SKIP() << "no private mounts here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace sluice::io
