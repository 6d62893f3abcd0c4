#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// Libraries that a machine may have and that this program is neither linked to nor ships with.
namespace sluice::runtime {

/// A shared library that was opened; copies share it. It is closed with the last.
class VendorLibrary {
 public:
  /// Absent: `if (!library)`.
  VendorLibrary() = default;
  VendorLibrary(void* handle, std::string path);

  explicit operator bool() const { return handle_ != nullptr; }
  /// The file it was loaded from.
  const std::string& path() const { return path_; }

  /// The function of that name. Throws ErrorCode::kDevice if the library has none.
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  std::shared_ptr<void> handle_;
  std::string path_;
};

/// A library in the one major version that this program can use.
struct VendorSpec {
  std::string_view name;     ///< "cuDNN"
  std::string_view file;     ///< "libcudnn.so", which a dot and the major version follow
  int major;                 ///< 9
  std::string_view package;  ///< of Python, which has it too: "nvidia-cudnn-cu13"
  /// Asks the library: "9.10.2".
  std::string (*version)(const VendorLibrary& library);

  std::string file_name() const;  ///< "libcudnn.so.9"
};

/// The folders in which find_library looks for a library that the system's loader does not know,
/// in this order: those of the environment variable SLUICE_CUDA_LIBS (separated by colons), the
/// CUDA toolkits in /usr/local, the packages of NVIDIA's in the Python environment that is active
/// (VIRTUAL_ENV, CONDA_PREFIX), the user's and the system's.
std::vector<std::string> library_folders();

/// Opens `file`, such as "libcublasLt.so.13": the one already in the process, else the first found
/// in SLUICE_CUDA_LIBS, by the system's loader, or in library_folders. Absent if there is none.
VendorLibrary find_library(std::string_view file);
/// The one already in the process; absent if it was not opened yet.
VendorLibrary opened_library(std::string_view file);

/// Opens the library, for as long as the process lives, and asks it for its version. Throws
/// ErrorCode::kDevice with one sentence if there is none, or only another version: what is needed,
/// what was found, what to do.
VendorLibrary open_vendor(const VendorSpec& spec);

}  // namespace sluice::runtime
