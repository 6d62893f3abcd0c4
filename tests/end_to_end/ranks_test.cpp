// Training on several ranks, as people start it: by --devices, by mpirun, and by launchers that
// name a machine where ranks meet over TCP, such as torchrun.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "distributed/tcp/connection.h"
#include "end_to_end/workplace.h"
#include "unit/support/long_form.h"

namespace sluice::end_to_end {
namespace {

const std::vector<std::string> kRun{"training.max_epochs=4", "training.validate_every=7",
                                    "training.checkpoint_every=2"};

/// Whether there are mpirun and the part for it.
bool has_mpi() {
  const std::string part = "ls \"$(dirname \"$(command -v sluice)\")\"/lib/libsluice_mpi.so.*";
  return run_in_shell("/", "command -v mpirun && " + part).code == 0;
}

/// A port that nobody listens at.
int free_port() {
  const distributed::tcp::Socket listener = distributed::tcp::listen_at(0);
  return distributed::tcp::port_of(listener);
}

/// Runs "$@" as so many processes with torchrun's variables. Ends with the exit code of rank 0.
std::string torchrun(std::int64_t processes) {
  const std::string number = std::to_string(processes);
  return "launch() { export WORLD_SIZE=" + number +
         " MASTER_ADDR=localhost MASTER_PORT=" + std::to_string(free_port()) +
         "; for r in $(seq 1 $((WORLD_SIZE - 1))); do RANK=$r LOCAL_RANK=$r \"$@\" & done; "
         "RANK=0 LOCAL_RANK=0 \"$@\"; code=$?; wait; return $code; }; launch";
}

/// By the launcher that the parameter names.
class Ranks : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (is_mpi() && !has_mpi()) GTEST_SKIP() << "mpirun is not installed";
  }

  static bool is_mpi() { return GetParam() == "mpirun"; }

  /// `sluice train` with these settings as so many processes, which share the cores.
  static std::string command(std::int64_t processes, const std::vector<std::string>& settings,
                             const std::string& program = "sluice") {
    std::string line = "export OMP_NUM_THREADS=1 SLUICE_START_TIMEOUT=10; ";
    line += is_mpi() ? "mpirun --allow-run-as-root --oversubscribe -n " + std::to_string(processes)
                     : torchrun(processes);
    line += " " + program;
    for (const std::string& argument : train_arguments(settings)) line += " '" + argument + "'";
    return line;
  }
};

INSTANTIATE_TEST_SUITE_P(Launchers, Ranks, ::testing::Values("mpirun", "torchrun"),
                         [](const auto& launcher) { return launcher.param; });

/// The numbers of a safetensors file, without the text that says what they are.
std::string numbers_of(const std::string& file) {
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  return file.substr(sizeof header + header);
}

void expect_same_models(const Workplace& place, const Workplace& other) {
  for (const char* name : {"run/last/model.safetensors", "run/best/model.safetensors",
                           "run/last/training_state.safetensors"}) {
    EXPECT_TRUE(numbers_of(place.read(name)) == numbers_of(other.read(name))) << name << " differs";
  }
}

std::vector<std::string> with(std::vector<std::string> settings, const std::string& one) {
  settings.push_back(one);
  return settings;
}

std::vector<pid_t> children_of(pid_t process) {
  std::ifstream list("/proc/" + std::to_string(process) + "/task/" + std::to_string(process) +
                     "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
}

/// Ids of the programs called `sluice` that a process started, whoever stands between.
std::vector<pid_t> ranks_below(pid_t process) {
  std::vector<pid_t> found;
  for (const pid_t child : children_of(process)) {
    std::ifstream name("/proc/" + std::to_string(child) + "/comm");
    std::string comm;
    std::getline(name, comm);
    if (comm == "sluice") found.push_back(child);
    for (const pid_t below : ranks_below(child)) found.push_back(below);
  }
  return found;
}

/// Whether a process has ended, seen by its parent or not.
bool has_ended(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string stat;
  std::getline(file, stat);
  return stat.empty() || stat.find(") Z ") < stat.size();
}

bool end_within(const std::vector<pid_t>& processes, std::chrono::seconds longest) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!std::ranges::all_of(processes, has_ended)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

/// Ends a shell and the mpirun below it whose ranks have all ended. OpenMPI 4.1 at times waits for
/// a lock of its own in PMIx_server_finalize, and so for ever.
void end_launcher(pid_t shell) {
  if (end_within({shell}, std::chrono::seconds(15))) return;
  for (const pid_t launcher : children_of(shell)) ::kill(launcher, SIGKILL);
}

TEST_P(Ranks, OfOneProcessTrainLikeProcesses) {
  // The other has more gradients than MPI is given at once.
  const std::vector<std::string> large{"model.hidden=600", "training.max_steps=2"};
  const std::vector<std::string> sharded =
      with(with(large, "distributed.shard=true"), "distributed.exchange=bfloat16");
  for (const std::vector<std::string>& settings : {kRun, large, sharded}) {
    const Workplace threads, processes;
    std::vector<std::string> arguments = train_arguments(with(settings, "machine.threads=1"));
    arguments.insert(arguments.end(), {"--devices", "cpu,cpu,cpu"});
    Outcome outcome = run(threads.path(), arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    outcome = run_in_shell(processes.path(), command(3, settings));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
    expect_same_models(threads, processes);
  }
}

/// A file that one rank lacks, wherever the others are.
TEST_P(Ranks, SayWhatOneOfThemLacks) {
  const Workplace place;
  place.write("rank.sh",
              "[ ${RANK:-$OMPI_COMM_WORLD_RANK} = 0 ] || set -- \"$@\" --set data.tsv=nowhere.tsv\n"
              "exec sluice \"$@\"\n");
  const Outcome outcome = run_in_shell(place.path(), command(3, kRun, "sh rank.sh"));
  EXPECT_NE(outcome.code, 0);
  const std::size_t first = outcome.err.find("sluice: error: rank 1: ");
  ASSERT_NE(first, std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("nowhere.tsv", first), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("sluice: error: ", first + 1), std::string::npos) << outcome.err;
}

/// Processes that a launcher of another kind started would each train by themselves.
TEST(RanksOfMpi, RefuseALauncherThatTheyDoNotKnow) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is not installed";
  const Workplace place;
  Setting setting{.variables = {"PMI_SIZE=3"}};
  place.expect_train_error({}, {"started as 3 processes, but MPI knows 1"}, setting);
  setting.variables.push_back("SLUICE_IGNORE_LAUNCHER=1");
  EXPECT_EQ(place.sluice(train_arguments(kRun), setting).code, 0);
}

TEST_P(Ranks, GoOnInAnotherNumber) {
  const Workplace place;
  std::int64_t steps = 0;
  for (const std::int64_t ranks : {4, 2, 1}) {
    steps += 5;
    const Outcome outcome = run_in_shell(
        place.path(), command(ranks, with(kRun, "training.max_steps=" + std::to_string(steps))));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("finished after step " + std::to_string(steps)), std::string::npos)
        << outcome.out;
  }
}

/// A signal to one rank stops all of them before the same step, and the same command goes on.
TEST_P(Ranks, StopTogether) {
  const Workplace uninterrupted, place;
  const std::vector<std::string> run = with(kRun, "training.max_epochs=60");
  Outcome outcome = run_in_shell(uninterrupted.path(), command(2, run));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  Running running(place.path(), in_shell(command(2, run)), {.program = "/bin/sh"});
  for (int wait = 0; wait < 2000 && !std::filesystem::exists(place / "run/last"); ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::vector<pid_t> ranks = ranks_below(running.process());
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGUSR1);
  outcome = running.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("stopped after step"), std::string::npos) << outcome.out;
  outcome = run_in_shell(place.path(), command(2, run));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_same_models(place, uninterrupted);
}

/// Whichever rank is killed, and when: all end, the last checkpoint is whole, and the same command
/// ends with the bits of a run that nobody killed.
TEST_P(Ranks, OneThatIsKilledEndsAll) {
  constexpr std::int64_t kRanks = 3;
  const std::int64_t most = testing::long_form("SLUICE_TEST_RANK_KILLS", 3);
  const Workplace uninterrupted, place;
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome = run_in_shell(uninterrupted.path(), command(kRanks, kRun));
  const auto whole = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::int64_t attempts = 0;
  for (std::int64_t kills = 0; kills < most;) {
    ASSERT_LE(++attempts, 20 * most) << "no run was met with all its ranks";
    Running running(place.path(), in_shell(command(kRanks, kRun)), {.program = "/bin/sh"});
    std::this_thread::sleep_for(whole * (random() % 1000) / 1000);
    const std::vector<pid_t> ranks = ranks_below(running.process());
    // It may not have begun yet, or have ended.
    if (std::ssize(ranks) != kRanks) {
      running.wait();
      std::filesystem::remove_all(place / "run");
      continue;
    }
    ::kill(ranks[static_cast<std::size_t>(kills % kRanks)], SIGKILL);
    EXPECT_TRUE(end_within(ranks, std::chrono::seconds(30)));
    end_launcher(running.process());
    outcome = running.wait();
    if (outcome.code != 0) ++kills;
  }
  outcome = run_in_shell(place.path(), command(kRanks, kRun));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_same_models(place, uninterrupted);
}

/// One sentence, whoever finds the mistake.
TEST_P(Ranks, SayWhatIsWrongOnce) {
  const Workplace place;
  const auto sentences = [&](const std::string& line) {
    const Outcome outcome = run_in_shell(place.path(), line);
    EXPECT_NE(outcome.code, 0);
    std::istringstream lines(outcome.err);
    std::vector<std::string> said;
    for (std::string one; std::getline(lines, one);) {
      if (one.starts_with("sluice: error: ")) said.push_back(one);
    }
    return said;
  };
  const auto expect = [&](const std::string& line, const std::string& part) {
    const std::vector<std::string> said = sentences(line);
    ASSERT_EQ(said.size(), 1u) << line;
    EXPECT_NE(said[0].find(part), std::string::npos) << said[0];
  };
  expect(command(3, with(kRun, "machine.devices=cpu,cpu")), "name a device for each");
  expect(command(4, with(kRun, "data.tsv=nowhere.tsv")), "nowhere.tsv");
  expect(command(3, with(kRun, "training.seed=x")), "training.seed");
  expect(command(3, kRun) + " --folds 3", "a cross-validation runs in one process");
  // Ranks that were started with different settings.
  place.write("rank.sh", "exec sluice \"$@\" --set training.seed=${RANK:-$OMPI_COMM_WORLD_RANK}\n");
  expect(command(2, kRun, "sh rank.sh"), "rank 1 has another configuration than rank 0");
}

/// Processes that step apart: by memory that MPI gives them where they have MPI.
TEST_P(Ranks, StepApart) {
  for (const char* mode : {"average", "async"}) {
    const Workplace place;
    const Outcome outcome =
        run_in_shell(place.path(), command(3, with(kRun, std::string("distributed.mode=") + mode)));
    if (!is_mpi() && std::string(mode) == "async") {
      EXPECT_NE(outcome.code, 0);
      EXPECT_NE(outcome.err.find("can't reach each other's memory"), std::string::npos)
          << outcome.err;
      continue;
    }
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("finished after step"), std::string::npos) << outcome.out;
  }
}

std::string one_sided_by(const std::string& component) {
  return "export OMP_NUM_THREADS=1; mpirun --allow-run-as-root --oversubscribe --mca osc " +
         component + " -n 2 sluice";
}

/// By MPI's ways to memory of one machine and of a network that has access to it; a way that takes
/// no part in threads is refused.
TEST(RanksOfMpi, StepApartHoweverMemoryIsReached) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is not installed";
  for (const char* component : {"sm", "rdma", "pt2pt"}) {
    const Workplace place;
    std::string line = one_sided_by(component);
    for (const std::string& argument : train_arguments(with(kRun, "distributed.mode=async"))) {
      line += " '" + argument + "'";
    }
    const Outcome outcome = run_in_shell(place.path(), line);
    if (std::string(component) == "pt2pt") {
      EXPECT_NE(outcome.code, 0);
      EXPECT_NE(outcome.err.find("MPI gives no memory that all ranks reach"), std::string::npos)
          << outcome.err;
    } else {
      EXPECT_EQ(outcome.code, 0) << component << outcome.err;
    }
  }
}

bool has_two_gpus() {
  return run_in_shell("/", "nvidia-smi -L | grep -c '^GPU' | grep -qv '^[01]$'").code == 0;
}

/// The losses of validations that a run printed.
std::vector<double> losses_of(const Outcome& outcome) {
  std::vector<double> losses;
  const std::string mark = "validation loss ";
  for (std::size_t at = outcome.err.find(mark); at < outcome.err.size();
       at = outcome.err.find(mark, at + 1)) {
    losses.push_back(std::atof(outcome.err.c_str() + at + mark.size()));
  }
  return losses;
}

/// Steps that are replayed, between validations that only the first GPU runs.
TEST(RanksOfGpus, TrainAsOneDoes) {
  if (!has_two_gpus()) GTEST_SKIP() << "this machine has no two GPUs";
  std::vector<std::string> run{"training.max_epochs=12", "training.validate_every=7",
                               "model.dropout=0.1"};
  const auto trained = [&](const std::vector<std::string>& settings) {
    const Workplace place;
    std::vector<std::string> arguments = train_arguments(settings);
    std::erase(arguments, "--quiet");
    const Outcome outcome = sluice::end_to_end::run(place.path(), arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return losses_of(outcome);
  };
  const std::vector<double> alone = trained(with(run, "machine.device=cuda:0"));
  ASSERT_GE(alone.size(), 3u);
  const std::vector<std::string> both = with(run, "machine.devices=cuda:0,cuda:1");
  for (const std::vector<std::string>& settings :
       {both, with(both, "distributed.shard=true"), with(both, "distributed.exchange=bfloat16")}) {
    const std::vector<double> losses = trained(settings);
    ASSERT_EQ(losses.size(), alone.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], alone[i], 0.02 * alone[i]) << settings.back() << ' ' << i;
    }
  }
}

/// Asynchronous ranks reach each other's memory by windows, so one GPU may have several.
TEST(RanksOfGpus, ShareOneGpu) {
  if (run_in_shell("/", "nvidia-smi -L").code != 0) GTEST_SKIP() << "this machine has no GPU";
  const Workplace place;
  const std::vector<std::string> run{"training.max_epochs=12", "training.validate_every=20",
                                     "machine.devices=cuda:0,cuda:0", "distributed.mode=async"};
  Outcome outcome = sluice::end_to_end::run(place.path(), train_arguments(run));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("finished after step"), std::string::npos) << outcome.out;
  std::vector<std::string> endless = train_arguments(with(run, "training.max_epochs=100000"));
  Running running(place.path(), endless);
  std::this_thread::sleep_for(std::chrono::seconds(8));
  const std::vector<pid_t> ranks = ranks_below(running.process());
  ASSERT_EQ(ranks.size(), 1u);
  ::kill(ranks[0], SIGKILL);
  outcome = running.wait();
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("rank 1 ended without a word"), std::string::npos) << outcome.err;
}

/// Where they can't be started, one sentence says so.
TEST(RanksOfGpus, SayWhatIsMissing) {
  if (has_two_gpus()) GTEST_SKIP() << "this machine has two GPUs";
  const Workplace place;
  for (const char* ignored : {"", "SLUICE_IGNORE_LAUNCHER=1"}) {
    Setting setting;
    if (*ignored != '\0') setting.variables.push_back(ignored);
    place.expect_train_error({"machine.devices=cuda:0,cuda:1"}, {"cuda"}, setting);
  }
}

}  // namespace
}  // namespace sluice::end_to_end
