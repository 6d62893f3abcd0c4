#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

namespace fs = std::filesystem;

bool has_driver() { return fs::exists("/proc/driver/nvidia/version"); }

void expect_said(const std::string& text, const std::vector<std::string>& said) {
  for (const std::string& part : said) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
  }
}

/// What `sluice info --machine` prints.
std::string machine(const Workplace& place, const Setting& setting = {}) {
  const Outcome outcome = place.sluice({"info", "--machine"}, setting);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.out;
}

/// The built program and its libraries, without its parts.
Setting copy_without_parts(const Workplace& place) {
  const fs::path built = fs::path(SLUICE_PROGRAM).parent_path();
  fs::create_directory(place / "lib");
  fs::copy_file(SLUICE_PROGRAM, place / "sluice");
  for (const char* library : {"lib/libsluice.so.0", "lib/libsluice_core.so.0"}) {
    fs::copy_file(built / library, place / library);
  }
  return {.program = place / "sluice"};
}

TEST(Machine, IsDescribed) {
  const Workplace place;
  expect_said(machine(place), {"cpu  ", "memory  ", "float32  ", "recurrent layers by "});
  EXPECT_EQ(place.sluice({"info"}).code, 2);
}

TEST(Machine, WithoutADriverIsNamed) {
  if (has_driver()) GTEST_SKIP() << "this machine has a driver";
  const Workplace place;
  expect_said(machine(place), {"no GPU: "});
  place.expect_train_error(
      {"machine.device=cuda"},
      {"device cuda:0 is not available: this machine has no NVIDIA driver", "use the device cpu"});
}

#ifdef WITH_CUDA
// As a run would say it, for each.
TEST(Machine, NamesLibrariesOfOtherVersions) {
  const Workplace place;
  for (const char* name : {"libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2"}) {
    fs::copy_file(FAKE_LIBRARY, place / name);
  }
  expect_said(machine(place, {.variables = {"SLUICE_CUDA_LIBS=" + place.path().native()}}),
              {"cuBLAS 13 is needed (libcublasLt.so.13), but " +
                   (place / "libcublasLt.so.13").native() + " is version 12.8.5: install",
               "cuDNN 9 is needed", "is version 8.9.7: install", "NCCL 2 is needed",
               "is version 1.3.4: install"});
}
#endif

TEST(Machine, RefusesACudaPartOfAnotherBuild) {
  const Workplace place;
  const Setting copied = copy_without_parts(place);
  fs::copy_file(FAKE_LIBRARY, place / "lib/libsluice_cuda.so.0");
  expect_said(machine(place, copied),
              {"libsluice_cuda.so.0 is of another build (0.0.1-of-another-build) than "
               "libsluice.so (0.1.0-",
               "build both with `./dev build`"});
  fs::remove(place / "lib/libsluice_cuda.so.0");
  expect_said(machine(place, copied),
              {"no GPU: ", "could not be loaded", "build it where nvcc is"});
  if (!has_driver()) return;
  place.expect_train_error({"machine.device=cuda"}, {"device cuda:0 is not available", "nvcc"},
                           copied);
}

TEST(Machine, WithoutTheOnednnPartComputesInBfloat16) {
  const Workplace place;
  const Setting copied = copy_without_parts(place);
  place.write("tiny.shapes", "tiny time=3 batch=2 input=5 hidden=8\n");
  const Outcome bench = place.sluice({"bench", "lstm", "--shapes", "tiny.shapes", "--impl", "all",
                                      "--dtype", "bfloat16", "--device", "cpu", "--repeats", "1"},
                                     copied);
  EXPECT_EQ(bench.code, 0) << bench.err;
  const std::string reason = " declines: Sluice's part for oneDNN could not be loaded (" +
                             (place / "lib/libsluice_onednn.so.0").native() + ": ";
  expect_said(bench.out, {"portable", "onednn" + reason, "onednn-int8" + reason,
                          "build it by `./dev build`, or take it from a bundle"});
  place.train_texts({"training.max_steps=1"});
  const Outcome text = place.sluice({"generate", "text/best", "--precision", "bfloat16"}, copied);
  // Other processors refuse it, with the part too.
  if (text.err.find("precision bfloat16 needs a CPU with") != std::string::npos) return;
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_FALSE(text.out.empty());
}

}  // namespace
}  // namespace sluice::end_to_end
