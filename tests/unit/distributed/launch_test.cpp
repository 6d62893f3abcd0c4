#include "distributed/launch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>

#include "unit/support/message_of.h"

namespace sluice::distributed {
namespace {

using Variables = std::map<std::string, std::string>;

/// Sets variables of launchers for as long as it lives; those that are not named are absent.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (const char* name :
         {"SLUICE_IGNORE_LAUNCHER", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR",
          "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "OMPI_COMM_WORLD_SIZE",
          "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
          "SLURM_PROCID", "SLURM_LOCALID"}) {
      if (const char* text = getenv(name)) before_[name] = text;
      names_.push_back(name);
      unsetenv(name);
    }
    for (const auto& [name, text] : variables) setenv(name.c_str(), text.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : names_) unsetenv(name);
    for (const auto& [name, text] : before_) setenv(name.c_str(), text.c_str(), 1);
  }

 private:
  Variables before_;
  std::vector<const char*> names_;
};

Launch of(const Variables& variables) {
  const Environment environment(variables);
  return launch_of_process();
}

TEST(Launch, IsOfOneProcessWithoutALauncher) {
  EXPECT_TRUE(of({}).is_alone());
  EXPECT_TRUE(of({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "here"}}).is_alone());
  EXPECT_TRUE(of({{"WORLD_SIZE", "8"}}).is_alone());  // without a rank it is somebody else's
  EXPECT_TRUE(of({{"OMPI_COMM_WORLD_SIZE", "4"}, {"SLUICE_IGNORE_LAUNCHER", "1"}}).is_alone());
}

TEST(Launch, ByTorchrunMeetsBesideItsStore) {
  Variables torchrun{{"RANK", "5"},
                     {"WORLD_SIZE", "8"},
                     {"LOCAL_RANK", "1"},
                     {"MASTER_PORT", "29400"},
                     {"MASTER_ADDR", "node-3"}};
  Launch launch = of(torchrun);
  EXPECT_EQ(launch.processes, 8);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.address, "node-3");
  EXPECT_EQ(launch.port, 29400);
  torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(of(torchrun).port, 29401);
}

TEST(Launch, ByMpirunOrSrunMeetsByMpiUnlessThereIsAnAddress) {
  const Variables mpirun{{"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
  const Variables srun{
      {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}};
  for (Variables variables : {mpirun, srun}) {
    Launch launch = of(variables);
    EXPECT_EQ(launch.processes, 4);
    EXPECT_EQ(launch.local_rank, 1);
    EXPECT_EQ(launch.address, "");
    variables["MASTER_ADDR"] = "10.0.0.7";
    launch = of(variables);
    EXPECT_EQ(launch.processes, 4);
    EXPECT_EQ(launch.rank, 3);
    EXPECT_EQ(launch.address, "10.0.0.7");
    EXPECT_EQ(launch.port, 29500);
  }
}

TEST(Launch, RefusesNumbersThatCannotBe) {
  Variables good{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "here"}, {"MASTER_PORT", "1024"}};
  const auto refused = [&](const char* name, const char* text) {
    Variables changed = good;
    changed[name] = text;
    return testing::message_of([&] { of(changed); });
  };
  EXPECT_NE(refused("RANK", "one").find("RANK is 'one'"), std::string::npos);
  EXPECT_NE(refused("RANK", "2").find("rank 2 of 2"), std::string::npos);
  EXPECT_NE(refused("WORLD_SIZE", "-2").find("WORLD_SIZE is '-2'"), std::string::npos);
  EXPECT_NE(refused("MASTER_ADDR", "").find("MASTER_ADDR does not say"), std::string::npos);
  EXPECT_NE(refused("MASTER_PORT", "70000").find("70000"), std::string::npos);
}

}  // namespace
}  // namespace sluice::distributed
