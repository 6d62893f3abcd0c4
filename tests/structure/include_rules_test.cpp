#include "structure/include_rules.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "unit/support/source_path.h"

namespace sluice::structure {
namespace {

namespace fs = std::filesystem;

/// A tree of sources in a folder of its own, removed at the end of the test.
class PlantedTree : public ::testing::Test {
 protected:
  PlantedTree() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(::testing::TempDir()) /
            ("sluice_structure_" + std::to_string(::getpid()) + "_" + test->name());
    fs::remove_all(root_);
    plant("include/sluice/error.h", "#include <string>\n");
    plant("src/base/check.h", "#include <fmt/format.h>\n#include \"sluice/error.h\"\n");
    plant("src/runtime/device.h", "#include \"base/check.h\"\n");
  }
  ~PlantedTree() override { fs::remove_all(root_); }

  void plant(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  /// What the include check says, one sentence a line.
  std::string check() const { return join(check_includes(root_)); }

  static std::string join(const std::vector<std::string>& sentences) {
    std::string text;
    for (const std::string& sentence : sentences) text += sentence + "\n";
    return text;
  }

  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

TEST_F(PlantedTree, GoodTreeIsAccepted) {
  plant("src/kernels/recurrent/recurrent.h", "#include \"runtime/device.h\"\n");
  plant("src/kernels/recurrent/cpu/portable.cpp", "#include \"kernels/recurrent/recurrent.h\"\n");
  plant("src/training/loop.h", "# include <vector>\n#include \"kernels/recurrent/recurrent.h\"\n");
  plant("src/runtime/cuda/stream.h", "#include <cuda_runtime.h>\n");
  plant("src/kernels/recurrent/cuda/lstm.cu", "#include \"runtime/cuda/stream.h\"\n");
  plant("bench/driver.h", "#include \"kernels/recurrent/recurrent.h\"\n");
  plant("apps/sluice/main.cpp", "#include \"bench/driver.h\"\n#include \"sluice/error.h\"\n");
  plant("tests/oracle/lstm.h", "#include <cmath>\n");
  EXPECT_EQ(check(), "");
}

TEST_F(PlantedTree, UpwardIncludeIsFound) {
  plant("src/base/shape.h", "#include <array>\n\n#include \"runtime/device.h\"\n");
  EXPECT_EQ(check(), "src/base/shape.h:3: runtime/device.h: base must not see runtime\n");
}

TEST_F(PlantedTree, AngleBracketsAndRelativePathsHideNothing) {
  plant("src/base/shape.h", "#include <runtime/device.h>\n");
  plant("src/base/log.h", "#include \"../runtime/device.h\"\n");
  plant("src/base/dtype.h", "#include \"check.h\"\n");
  EXPECT_EQ(check(),
            "src/base/dtype.h:1: check.h: includes are written from src/\n"
            "src/base/log.h:1: ../runtime/device.h: includes are written from src/\n"
            "src/base/shape.h:1: runtime/device.h: base must not see runtime\n");
}

TEST_F(PlantedTree, NothingBelowTrainingSeesDistributed) {
  plant("src/distributed/communicator.h", "#include \"runtime/device.h\"\n");
  plant("src/training/loop.h", "#include \"distributed/communicator.h\"\n");
  plant("src/models/seq2seq.h", "#include \"distributed/communicator.h\"\n");
  EXPECT_EQ(check(),
            "src/models/seq2seq.h:1: distributed/communicator.h: models must not see "
            "distributed\n");
}

TEST_F(PlantedTree, DataSeesFilesAndNoDevice) {
  plant("src/io/npy.h", "#include \"base/check.h\"\n");
  plant("src/data/reader.h", "#include \"io/npy.h\"\n#include \"runtime/device.h\"\n");
  EXPECT_EQ(check(), "src/data/reader.h:2: runtime/device.h: data must not see runtime\n");
}

TEST_F(PlantedTree, ModelsAreOpenedWithoutTraining) {
  plant("src/training/loop.h", "#include \"model_files/loaded_model.h\"\n");
  plant("src/serving/session.h", "#include \"model_files/loaded_model.h\"\n");
  plant("src/interchange/onnx.h", "#include \"model_files/loaded_model.h\"\n");
  plant("src/model_files/loaded_model.h", "");
  plant("src/api/model.cpp",
        "#include \"interchange/onnx.h\"\n#include \"serving/session.h\"\n"
        "#include \"model_files/loaded_model.h\"\n");
  plant("bench/serve.h", "#include \"serving/session.h\"\n");
  EXPECT_EQ(check(), "");
  plant("src/serving/batch.h", "#include \"training/loop.h\"\n");
  plant("src/model_files/kind.h", "#include \"training/loop.h\"\n");
  EXPECT_EQ(check(),
            "src/model_files/kind.h:1: training/loop.h: model_files must not see training\n"
            "src/serving/batch.h:1: training/loop.h: serving must not see training\n");
}

TEST_F(PlantedTree, LeavesDoNotKnowEachOther) {
  plant("src/kernels/gemm/cpu/pack.h", "");
  plant("src/kernels/gemm/cuda/tile.h", "#include \"kernels/gemm/cpu/pack.h\"\n");
  plant("src/kernels/recurrent/cpu/loop.cpp", "#include \"kernels/gemm/cuda/tile.h\"\n");
  plant("src/layers/linear.cpp", "#include \"kernels/gemm/cpu/pack.h\"\n");
  EXPECT_EQ(check(),
            "src/kernels/gemm/cuda/tile.h:1: kernels/gemm/cpu/pack.h: a CUDA leaf must not see a "
            "cpu leaf\n"
            "src/kernels/recurrent/cpu/loop.cpp:1: kernels/gemm/cuda/tile.h: only CUDA leaves may "
            "see a CUDA leaf\n"
            "src/layers/linear.cpp:1: kernels/gemm/cpu/pack.h: a cpu leaf is reached through its "
            "family's contract\n");
}

TEST_F(PlantedTree, CudaHeadersStayInTheirLeaves) {
  plant("src/kernels/recurrent/cpu/loop.cpp", "#include <cuda_bf16.h>\n");
  plant("src/runtime/stream.h", "#include <cublas_v2.h>\n");
  EXPECT_EQ(check(),
            "src/kernels/recurrent/cpu/loop.cpp:1: cuda_bf16.h: CUDA headers stay in folders "
            "named cuda\n"
            "src/runtime/stream.h:1: cublas_v2.h: CUDA headers stay in folders "
            "named cuda\n");
}

TEST_F(PlantedTree, OnednnStaysInItsLeaves) {
  plant("src/kernels/gemm/product.h", "");
  plant("src/kernels/gemm/cpu/pack.h", "");
  plant("src/kernels/gemm/onednn/product.h",
        "#include <dnnl.hpp>\n#include \"kernels/gemm/product.h\"\n");
  plant("src/kernels/onednn/library.cpp", "#include \"kernels/gemm/onednn/product.h\"\n");
  plant("bench/gemm/library.cpp", "#include <dnnl.hpp>\n");
  EXPECT_EQ(check(), "");
  plant("bench/driver.cpp", "#include <dnnl.h>\n");
  plant("src/kernels/gemm/cpu/pack.cpp",
        "#include <oneapi/dnnl/dnnl.hpp>\n#include \"kernels/gemm/onednn/product.h\"\n");
  plant("src/kernels/gemm/onednn/pack.cpp", "#include \"kernels/gemm/cpu/pack.h\"\n");
  EXPECT_EQ(
      check(),
      "src/kernels/gemm/cpu/pack.cpp:1: oneapi/dnnl/dnnl.hpp: oneDNN's headers stay in "
      "folders named onednn and in bench/gemm\n"
      "src/kernels/gemm/cpu/pack.cpp:2: kernels/gemm/onednn/product.h: only oneDNN leaves may "
      "see a oneDNN leaf\n"
      "src/kernels/gemm/onednn/pack.cpp:1: kernels/gemm/cpu/pack.h: a oneDNN leaf must not "
      "see a cpu leaf\n"
      "bench/driver.cpp:1: dnnl.h: oneDNN's headers stay in folders named onednn and in "
      "bench/gemm\n");
}

TEST_F(PlantedTree, MpiStaysInItsLeaf) {
  plant("src/distributed/mpi/ranks.cpp", "#include <mpi.h>\n");
  EXPECT_EQ(check(), "");
  plant("src/training/trainer.cpp", "#include <mpi.h>\n");
  EXPECT_EQ(check(), "src/training/trainer.cpp:1: mpi.h: MPI's header stays in distributed/mpi\n");
}

TEST_F(PlantedTree, AppsSeeThePublicApiOnly) {
  plant("apps/sluice/train.cpp", "#include \"runtime/device.h\"\n");
  EXPECT_EQ(check(), "apps/sluice/train.cpp:1: runtime/device.h: apps must not see runtime\n");
}

TEST_F(PlantedTree, PublicHeadersAreStandardTypesWithoutConditions) {
  plant("include/sluice/model.h",
        "#include <fmt/format.h>\n#include \"base/check.h\"\n#ifdef SLUICE_CUDA\n#endif\n");
  EXPECT_EQ(check(),
            "include/sluice/model.h:1: fmt/format.h: include takes standard headers only\n"
            "include/sluice/model.h:2: base/check.h: include must not see base\n"
            "include/sluice/model.h:3: public headers have no #if\n");
}

TEST_F(PlantedTree, CHeadersAskForCplusplusOnly) {
  plant("include/sluice.h",
        "#ifndef SLUICE_H\n#define SLUICE_H\n#include <stddef.h>\n#include <stdint.h>\n"
        "#ifdef __cplusplus\n#endif\n#endif\n");
  plant("include/sluice_models.h", "#ifndef SLUICE_MODELS_H\n#include \"sluice.h\"\n#endif\n");
  plant("include/sluice/recurrent.h", "#include <sluice.h>\n");
  EXPECT_EQ(check(), "");
}

TEST_F(PlantedTree, CHeadersHaveNoOtherConditionsAndIncludes) {
  plant("include/sluice.h",
        "#include <stdio.h>\n#include <vector>\n#include \"sluice/error.h\"\n"
        "#ifndef SLUICE_MODELS_H\n#if defined(__cplusplus)\n#ifdef SLUICE_CUDA\n");
  plant("include/sluice_other.h", "#include <stddef.h>\n#ifdef __cplusplus\n#endif\n");
  plant("src/c_api/objects.h", "#include <sluice.h>\n#ifdef __cplusplus\n#endif\n");
  EXPECT_EQ(check(),
            "include/sluice.h:1: stdio.h: a C header takes <stddef.h> and <stdint.h> only\n"
            "include/sluice.h:2: vector: a C header takes <stddef.h> and <stdint.h> only\n"
            "include/sluice.h:3: sluice/error.h: a C header sees C headers only\n"
            "include/sluice.h:4: C headers have no #if but their guard and #ifdef __cplusplus\n"
            "include/sluice.h:5: C headers have no #if but their guard and #ifdef __cplusplus\n"
            "include/sluice.h:6: C headers have no #if but their guard and #ifdef __cplusplus\n"
            "include/sluice_other.h:1: stddef.h: include takes standard headers only\n"
            "include/sluice_other.h:2: public headers have no #if\n");
}

TEST_F(PlantedTree, OracleSharesNoCodeWithTheEngine) {
  plant("tests/oracle/lstm.h", "#include \"base/check.h\"\n");
  EXPECT_EQ(check(), "tests/oracle/lstm.h:1: base/check.h: oracle must not see base\n");
}

TEST_F(PlantedTree, FamiliesInACircleAreFound) {
  plant("src/kernels/a/a.h", "#include \"kernels/b/b.h\"\n");
  plant("src/kernels/b/b.h", "#include \"kernels/c/c.h\"\n");
  plant("src/kernels/c/c.h", "");
  EXPECT_EQ(check(), "");
  plant("src/kernels/c/cpu/c.cpp", "#include \"kernels/a/a.h\"\n");
  EXPECT_EQ(check(), "src/kernels: families include each other in a circle: a -> b -> c -> a\n");
}

TEST_F(PlantedTree, UnknownRoomsAndFilesAreFound) {
  plant("src/utils/helpers.h", "");
  plant("src/base/log.h", "#include \"base/gone.h\"\n#include SOME_MACRO\n");
  EXPECT_EQ(check(),
            "src/base/log.h:1: base/gone.h: no such file in the tree (libraries are included with "
            "<>)\n"
            "src/base/log.h:2: (a macro): an include by macro can't be checked\n"
            "src/utils/helpers.h:1: stands in no room of docs/architecture.md\n");
}

TEST_F(PlantedTree, OwnHeaderComesFirst) {
  plant("src/base/check.cpp", "#include <string>\n#include \"base/check.h\"\n");
  plant("src/runtime/device.cpp", "#include \"runtime/device.h\"\n#include <string>\n");
  EXPECT_EQ(join(check_own_header_first(root())),
            "src/base/check.cpp:1: the first include must be its own header, src/base/check.h\n");
}

TEST_F(PlantedTree, ForgottenSourcesAreFound) {
  plant("src/base/check.cpp", "");
  plant("src/base/log.cpp", "");
  EXPECT_EQ(join(check_all_compiled(root(), R"([{"file": "/x/src/base/check.cpp"}])")),
            "src/base/log.cpp:1: no target compiles this file\n");
}

void expect_none(const std::vector<std::string>& found) {
  for (const std::string& sentence : found) ADD_FAILURE() << sentence;
}

TEST(Tree, IncludesFollowTheArrows) { expect_none(check_includes(testing::source_path(""))); }

TEST(Tree, EachSourceIncludesItsOwnHeaderFirst) {
  expect_none(check_own_header_first(testing::source_path("")));
}

TEST(Tree, EachSourceIsCompiled) {
  std::ifstream file(SLUICE_COMPILE_COMMANDS);
  ASSERT_TRUE(file) << SLUICE_COMPILE_COMMANDS;
  std::stringstream text;
  text << file.rdbuf();
  expect_none(check_all_compiled(testing::source_path(""), text.str()));
}

}  // namespace
}  // namespace sluice::structure
