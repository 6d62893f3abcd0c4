#include "bench/gemm/gemm_bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "bench/gemm/eigen_product.h"
#include "bench/gemm/library.h"
#include "bench/report/comparison.h"
#include "sluice/error.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench::gemm {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes sizes_of(const std::vector<Product>& products, Kind kind) {
  Sizes sizes;
  for (const Product& product : products) {
    if (product.kind == kind) sizes.insert(sizes.end(), {product.m, product.n, product.k});
  }
  return sizes;
}

TEST(GemmProducts, AreThoseOfTheLayers) {
  const auto shapes = parse_shapes(
      "a time=3 batch=2 input=5 hidden=8 layers=3 directions=2\n"
      "same_layer time=3 batch=2 input=5 hidden=8\n"
      "gru cell=gru time=3 batch=2 input=5 hidden=8\n"
      "projected time=3 batch=2 input=5 hidden=8 projection=4 pass=forward\n",
      "f");
  const auto products = products_of(shapes, true);
  EXPECT_EQ(sizes_of(products, Kind::kInput),
            (Sizes{6, 32, 5, 6, 32, 16, 6, 24, 5}));  // the second layer reads both directions
  EXPECT_EQ(sizes_of(products, Kind::kStep), (Sizes{2, 32, 8, 2, 24, 8, 2, 32, 4}));
  EXPECT_EQ(sizes_of(products, Kind::kStepBackward), (Sizes{2, 8, 32, 2, 8, 24}));
  EXPECT_EQ(sizes_of(products, Kind::kInputBackward), (Sizes{6, 5, 32, 6, 16, 32, 6, 5, 24}));
  EXPECT_EQ(sizes_of(products, Kind::kGradient), (Sizes{32, 5, 6, 32, 16, 6, 24, 5, 6}));
  for (const Product& product : products_of(shapes, false)) {
    EXPECT_TRUE(product.kind == Kind::kInput || product.kind == Kind::kStep);
  }
  EXPECT_EQ(products.front().flops(), 2.0 * 6 * 32 * 5);
}

TEST(GemmBench, EveryLibraryGetsEveryProductRight) {
  const sluice::testing::TemporaryFolder folder;
  GemmBenchOptions options;
  options.shapes = folder.write("a.shapes",
                                "full time=7 batch=5 input=19 hidden=23\n"
                                "half time=7 batch=5 input=19 hidden=23 dtype=bfloat16\n"
                                "far time=2 batch=3 input=4 hidden=5 device=test\n");
  options.repeats = 2;
  options.json = (folder / "out.json").string();
  std::ostringstream out;
  const std::vector<GemmResult> results = run_gemm_bench(options, out);
  std::set<std::string> libraries;
  for (const GemmResult& result : results) {
    libraries.insert(result.matrix_library);
    EXPECT_GT(result.milliseconds, 0);
    EXPECT_NEAR(result.gflops * result.milliseconds * 1e6, result.product.flops(), 1e-3);
    // float32 sums of at most 92 products of either type, which bfloat16 factors make exact.
    EXPECT_LT(result.error, 1e-5) << result.matrix_library << " " << name_of(result.product.kind);
  }
  EXPECT_TRUE(libraries.contains("sluice") && libraries.contains("onednn"));
  const auto groups = report::compare(report::read_results(options.json));
  EXPECT_TRUE(report::summarize(groups).has_value());
}

TEST(GemmBench, RefusesWhatIsNotThere) {
  const sluice::testing::TemporaryFolder folder;
  GemmBenchOptions options;
  options.shapes = folder.write("a.shapes", "a time=2 batch=3 input=4 hidden=5\n");
  options.repeats = 1;
  std::ostringstream out;
  const auto refuses = [&](const std::string& said) {
    try {
      run_gemm_bench(options, out);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
      return;
    }
    ADD_FAILURE() << "nothing refused; expected " << said;
  };
  options.libraries = "onednm";
  refuses("unknown library 'onednm'");
  options.libraries = "all";
  options.pass = "backward";
  refuses("use all or forward");
  options.pass = "forward";
  options.dtype = "float64x";
  refuses("unknown dtype");
  options.dtype = "float16";  // which nothing on the CPU multiplies
  refuses("no shape that a library here could multiply");
  options.libraries = "onednn";
  refuses("it multiplies float32 and bfloat16");
  options.repeats = 0;
  refuses("repeats is 0");
}

TEST(EigenProduct, TransposesAsAsked) {
  std::string reason;
  if (!eigen_library(reason)) GTEST_SKIP() << reason;
  const EigenMultiply multiply = eigen_multiply();
  constexpr std::int64_t m = 5, n = 7, k = 3;
  const std::vector<float> a{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const std::vector<float> b{1, 0, 2, 1, 0, 3, 1, 1, 4, 0, 2, 1, 1, 0, 5, 1, 0, 2, 1, 0, 3};
  for (const bool at : {false, true}) {
    for (const bool bt : {false, true}) {
      std::vector<float> c(m * n, NAN);
      multiply({m, n, k, at, bt, a.data(), b.data(), c.data()}, 2);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          float sum = 0;  // of small integers: exact
          for (std::int64_t l = 0; l < k; ++l) {
            sum += a[at ? l * m + i : i * k + l] * b[bt ? j * k + l : l * n + j];
          }
          EXPECT_EQ(c[i * n + j], sum);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::bench::gemm
