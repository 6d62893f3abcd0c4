#include "runtime/vendor_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>

#include <charconv>

#include "base/check.h"

namespace sluice::runtime {
namespace {

std::string variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

void add_matching(std::vector<std::string>& folders, const std::string& pattern) {
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    // The last in order is the newest version.
    for (std::size_t i = found.gl_pathc; i > 0; --i) folders.emplace_back(found.gl_pathv[i - 1]);
  }
  globfree(&found);
}

/// Each pip package of NVIDIA's keeps its libraries in a folder of its own.
void add_python(std::vector<std::string>& folders, const std::string& packages) {
  add_matching(folders, packages + "/nvidia/*/lib");
}

std::vector<std::string> chosen_folders() {
  std::vector<std::string> folders;
  const std::string list = variable("SLUICE_CUDA_LIBS");
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) folders.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

std::string path_of(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

VendorLibrary open(const std::string& name, int more_flags = 0) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | more_flags);
  return handle == nullptr ? VendorLibrary() : VendorLibrary(handle, path_of(handle));
}

VendorLibrary open_in(const std::vector<std::string>& folders, const std::string& file) {
  for (const std::string& folder : folders) {
    if (VendorLibrary library = open(folder + "/" + file)) return library;
  }
  return {};
}

int major_of(std::string_view version) {
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

[[noreturn]] void refuse_version(const VendorSpec& spec, const VendorLibrary& found) {
  base::fail(ErrorCode::kDevice,
             "{} {} is needed ({}), but {} is version {}: install version {} or its Python package "
             "{}, or name its folder in SLUICE_CUDA_LIBS",
             spec.name, spec.major, spec.file_name(), found.path(), spec.version(found), spec.major,
             spec.package);
}

[[noreturn]] void refuse_missing(const VendorSpec& spec) {
  for (const std::string& other :
       {std::string(spec.file), fmt::format("{}.{}", spec.file, spec.major + 1),
        fmt::format("{}.{}", spec.file, spec.major - 1)}) {
    if (const VendorLibrary found = find_library(other)) refuse_version(spec, found);
  }
  base::fail(ErrorCode::kDevice,
             "{} {} is needed and {} was not found: install it or its Python package {}, or name "
             "its folder in SLUICE_CUDA_LIBS",
             spec.name, spec.major, spec.file_name(), spec.package);
}

}  // namespace

VendorLibrary::VendorLibrary(void* handle, std::string path)
    : handle_(handle, [](void* open) { dlclose(open); }), path_(std::move(path)) {}

void* VendorLibrary::symbol(const char* name) const {
  void* found = dlsym(handle_.get(), name);
  if (found == nullptr) base::fail(ErrorCode::kDevice, "{} has no function {}", path_, name);
  return found;
}

std::string VendorSpec::file_name() const { return fmt::format("{}.{}", file, major); }

std::vector<std::string> library_folders() {
  std::vector<std::string> folders = chosen_folders();
  add_matching(folders, "/usr/local/cuda*/lib64");
  if (const std::string root = variable("VIRTUAL_ENV"); !root.empty()) {
    add_python(folders, root + "/lib/python3*/site-packages");
  }
  if (const std::string root = variable("CONDA_PREFIX"); !root.empty()) {
    folders.push_back(root + "/lib");
    add_python(folders, root + "/lib/python3*/site-packages");
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    add_python(folders, home + "/.local/lib/python3*/site-packages");
  }
  add_python(folders, "/usr/local/lib/python3*/dist-packages");
  add_python(folders, "/usr/local/lib/python3*/site-packages");
  add_python(folders, "/usr/lib/python3*/dist-packages");
  add_python(folders, "/usr/lib/python3*/site-packages");
  return folders;
}

VendorLibrary opened_library(std::string_view file) { return open(std::string(file), RTLD_NOLOAD); }

VendorLibrary find_library(std::string_view file) {
  const std::string name(file);
  if (VendorLibrary library = opened_library(name)) return library;
  if (VendorLibrary library = open_in(chosen_folders(), name)) return library;
  if (VendorLibrary library = open(name)) return library;
  return open_in(library_folders(), name);
}

VendorLibrary open_vendor(const VendorSpec& spec) {
  VendorLibrary library = find_library(spec.file_name());
  if (!library) refuse_missing(spec);
  if (major_of(spec.version(library)) != spec.major) refuse_version(spec, library);
  // To be told of in results at the end; and to open one again and again takes long.
  open(library.path(), RTLD_NOLOAD | RTLD_NODELETE);
  return library;
}

}  // namespace sluice::runtime
