#pragma once

#include <string>
#include <string_view>

/// Parts of Sluice that need other libraries. Each is a library of its own beside libsluice.so and
/// is opened on first use, so that everything else runs where the other library is missing.
namespace sluice::runtime {

/// The beginning of what a part offers. The build id is compared before anything else is read: a
/// part and libsluice.so exchange C++ objects, so both must have been built with the same headers
/// and flags.
struct Part {
  const char* build_id;
};
/// The one function that a part exports.
using PartEntry = const Part* (*)();

/// Where the loader looks for what a part calls.
enum class SymbolSearch {
  kProcessFirst,  ///< as for any library
  /// In the libraries that the part links, then in the process: another library of the process may
  /// export the same names.
  kOwnLibrariesFirst,
};

struct PartLibrary {
  std::string_view name;    ///< "libsluice_cuda"
  const char* entry;        ///< name of its PartEntry
  std::string_view needs;   ///< completes "Sluice's part for"
  std::string_view remedy;  ///< "build it where nvcc is, by `./dev build`"
  SymbolSearch search = SymbolSearch::kProcessFirst;
};

struct OpenedPart {
  const Part* part = nullptr;
  std::string missing;  ///< the reason if there is no part, a clause
};

/// The build id of libsluice.so.
const char* own_build_id();

/// Opens a part, which stays open as long as the program runs.
OpenedPart open_part(const PartLibrary& library);

}  // namespace sluice::runtime
