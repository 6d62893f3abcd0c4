#include "runtime/vendor_library.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "unit/support/temporary_folder.h"

namespace sluice::runtime {
namespace {

/// Sets an environment variable as long as it lives; null unsets it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old, was_set_ = true;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(was_set_ ? old_.c_str() : nullptr); }

 private:
  void set(const char* value) const {
    value != nullptr ? setenv(name_, value, 1) : unsetenv(name_);
  }

  const char* name_;
  std::string old_;
  bool was_set_ = false;
};

TEST(VendorLibrary, FindsInAChosenFolder) {
  // A library that every machine which builds this has, under a name that none has.
  const std::filesystem::path real = find_library("libz.so.1").path();
  const testing::TemporaryFolder empty, folder;
  const std::string file = "libsluice-probe.so.9";
  std::filesystem::copy_file(std::filesystem::canonical(real), folder / file);
  EXPECT_FALSE(find_library(file));
  const Variable chosen("SLUICE_CUDA_LIBS",
                        (empty.path().string() + "::" + folder.path().string()).c_str());
  const VendorLibrary found = find_library(file);
  ASSERT_TRUE(found);
  EXPECT_EQ(found.path(), folder / file);
  EXPECT_NE(found.function<const char*()>("zlibVersion")(), nullptr);
  const Error error = testing::error_of([&] { found.function<void()>("no_such_function"); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_NE(std::string(error.what()).find("no_such_function"), std::string::npos);
}

std::string zlib_version(const VendorLibrary& library) {
  return library.function<const char*()>("zlibVersion")();
}

// Every library of NVIDIA's goes through this; zlib, of which only version 1 is known, stands in.
TEST(VendorLibrary, IsOpenedInOneVersionOnly) {
  const std::filesystem::path real = find_library("libz.so.1").path();
  const testing::TemporaryFolder folder;
  const Variable chosen("SLUICE_CUDA_LIBS", folder.path().c_str());
  const VendorSpec good{"Probe", "libsluice-probe.so", 1, "sluice-probe", zlib_version};
  const VendorSpec newer{"Probe", "libsluice-probe.so", 2, "sluice-probe", zlib_version};
  const auto refusal = [](const VendorSpec& spec) {
    const Error error = testing::error_of([&] { open_vendor(spec); });
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    return std::string(error.what());
  };
  EXPECT_EQ(refusal(good),
            "Probe 1 is needed and libsluice-probe.so.1 was not found: install it or its Python "
            "package sluice-probe, or name its folder in SLUICE_CUDA_LIBS");

  std::filesystem::copy_file(std::filesystem::canonical(real), folder / "libsluice-probe.so.1");
  const VendorLibrary library = open_vendor(good);
  EXPECT_EQ(library.path(), folder / "libsluice-probe.so.1");
  const std::string found = "Probe 2 is needed (libsluice-probe.so.2), but " + library.path() +
                            " is version " + zlib_version(library) + ": install version 2 or its " +
                            "Python package sluice-probe, or name its folder in SLUICE_CUDA_LIBS";
  EXPECT_EQ(refusal(newer), found);
  // The name promises what the library doesn't keep.
  std::filesystem::rename(folder / "libsluice-probe.so.1", folder / "libsluice-probe.so.2");
  EXPECT_NE(refusal(newer).find("Probe 2 is needed"), std::string::npos);
}

TEST(VendorLibrary, FindsInAPythonEnvironment) {
  const testing::TemporaryFolder root;
  const auto package = root / "lib/python3.11/site-packages/nvidia/cu13/lib";
  std::filesystem::create_directories(package);
  const Variable active("VIRTUAL_ENV", root.path().c_str());
  const auto folders = library_folders();
  EXPECT_NE(std::find(folders.begin(), folders.end(), package.string()), folders.end());
}

TEST(VendorLibrary, IsAbsentIfThereIsNone) {
  const VendorLibrary none = find_library("libsluice-none.so.1");
  EXPECT_FALSE(none);
  EXPECT_EQ(none.path(), "");
}

}  // namespace
}  // namespace sluice::runtime
