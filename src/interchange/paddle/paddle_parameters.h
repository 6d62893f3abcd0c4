#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/read_options.h"
#include "io/formats/paddle/paddle_program.h"
#include "io/host_tensor.h"

namespace sluice::interchange::paddle {

/// The parameters of a program: a file for each, named as it is, or one file for all.
class Parameters {
 public:
  /// Asks for "params", the name of the file that has all. Without it, the only file beside the
  /// program has all of them if a parameter has no file of its own.
  Parameters(std::filesystem::path folder, const io::formats::PaddleBlock& block,
             const ReadOptions& options);

  /// "in a file for each" or "in the file 'params'", for the account.
  std::string describe() const;
  bool has(std::string_view name) const { return sizes_.contains(name); }
  /// The axes that the program says; throws ErrorCode::kFormat if it has no such parameter.
  const std::vector<std::int64_t>& sizes(std::string_view name) const;
  /// The numbers in float32. Throws ErrorCode::kFormat if the file says other sizes, and
  /// kUnsupported if a parameter is read often, which would take memory for each.
  io::HostTensor read(const std::string& name);

 private:
  std::filesystem::path folder_;
  std::string combined_;  ///< the file's name, or empty
  std::map<std::string, std::vector<std::int64_t>, std::less<>> sizes_;
  std::map<std::string, std::uint64_t, std::less<>> offsets_ = {};  ///< in the combined file
  std::map<std::string, int, std::less<>> reads_ = {};
};

}  // namespace sluice::interchange::paddle
