#include "runtime/vendor_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>

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

}  // namespace

VendorLibrary::VendorLibrary(void* handle, std::string path)
    : handle_(handle, [](void* open) { dlclose(open); }), path_(std::move(path)) {}

void* VendorLibrary::symbol(const char* name) const {
  void* found = dlsym(handle_.get(), name);
  if (found == nullptr) base::fail(ErrorCode::kDevice, "{} has no function {}", path_, name);
  return found;
}

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

VendorLibrary find_library(std::string_view file) {
  const std::string name(file);
  if (VendorLibrary library = open(name, RTLD_NOLOAD)) return library;
  if (VendorLibrary library = open_in(chosen_folders(), name)) return library;
  if (VendorLibrary library = open(name)) return library;
  return open_in(library_folders(), name);
}

}  // namespace sluice::runtime
