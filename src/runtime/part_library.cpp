#include "runtime/part_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "runtime/build_id.h"

namespace sluice::runtime {
namespace {

// Sanitizers intercept calls of libraries, which own libraries first would bypass: they refuse it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kOwnLibrariesFirst = 0;
#else
constexpr int kOwnLibrariesFirst = RTLD_DEEPBIND;
#endif

/// A part lies beside the library that holds this function.
std::string path_of(std::string_view name) {
  const std::string file = fmt::format("{}.so." SLUICE_MAJOR, name);
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&open_part), &info) == 0) return file;
  const std::string own = info.dli_fname;
  return own.substr(0, own.rfind('/') + 1) + file;
}

}  // namespace

const char* own_build_id() { return build_id(); }

OpenedPart open_part(const PartLibrary& library) {
  const std::string path = path_of(library.name);
  const bool own_first = library.search == SymbolSearch::kOwnLibrariesFirst;
  // Never closed: objects of it may live as long as the program.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | (own_first ? kOwnLibrariesFirst : 0));
  if (handle == nullptr) {
    return {nullptr, fmt::format("Sluice's part for {} could not be loaded ({}); {}", library.needs,
                                 dlerror(), library.remedy)};
  }
  const auto entry = reinterpret_cast<PartEntry>(dlsym(handle, library.entry));
  const char* build = entry == nullptr ? "an older one" : entry()->build_id;
  if (std::string_view(build) != build_id()) {
    return {nullptr, fmt::format("{} is of another build ({}) than libsluice.so ({}); build both "
                                 "with `./dev build`, or take both from one bundle",
                                 path, build, build_id())};
  }
  return {entry(), {}};
}

}  // namespace sluice::runtime
