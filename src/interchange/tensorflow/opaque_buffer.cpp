#include "interchange/tensorflow/opaque_buffer.h"

#include <fmt/format.h>

#include "base/check.h"
#include "interchange/cudnn/cudnn_buffer.h"
#include "interchange/tensorflow/names.h"

namespace sluice::interchange::tensorflow {
namespace {

using kernels::recurrent::CellType;

// Larger answers are a mistake.
constexpr std::int64_t kMostLayers = 256, kMostWidth = 1 << 20;

std::int64_t size_of(const ReadOptions& options, const char* key, std::int64_t most,
                     const std::string& name) {
  const std::optional<double> number = options.find_number(key);
  SLUICE_CHECK(number,
               "'{}' is cuDNN's flat buffer, which does not hold its sizes; say --set "
               "opaque_layers=N --set opaque_directions=1 or 2 --set opaque_hidden=H --set "
               "opaque_input=I ({} is missing)",
               name, key);
  const auto size =
      *number >= 1 && *number <= static_cast<double>(most) ? static_cast<std::int64_t>(*number) : 0;
  SLUICE_CHECK(size > 0 && static_cast<double>(size) == *number,
               "--set {}={}: it is a whole number from 1 to {}", key, *number, most);
  return size;
}

CellType cell_of(const std::string& name, const ReadOptions& options) {
  const std::string text = lower(options.find("opaque_cell").value_or(name));
  const bool is_gru = text.find("gru") != std::string::npos;
  const bool is_lstm = text.find("lstm") != std::string::npos;
  SLUICE_CHECK(is_gru != is_lstm, "'{}' does not say its cells; say --set opaque_cell=lstm or gru",
               name);
  return is_gru ? CellType::kGru : CellType::kLstm;
}

}  // namespace

std::vector<FoundCell> split_opaque_buffers(Variables& variables, const ReadOptions& options,
                                            Account& account) {
  std::vector<std::string> names;
  for (const auto& [name, variable] : variables.all()) {
    if (last_of(name).starts_with("opaque_kernel")) names.push_back(name);
  }
  if (names.empty()) return {};
  SLUICE_CHECK(names.size() == 1,
               "{}: {} are flat buffers of cuDNN; take one with --subgraph SCOPE", variables.file(),
               listed(names));
  const std::string& name = names[0];
  CudnnStack stack{.cell = cell_of(name, options)};
  stack.layers = size_of(options, "opaque_layers", kMostLayers, name);
  stack.directions = size_of(options, "opaque_directions", 2, name);
  stack.hidden = size_of(options, "opaque_hidden", kMostWidth, name);
  stack.input = size_of(options, "opaque_input", kMostWidth, name);
  const StoredBuffer stored{
      "'" + name + "'", variables.sizes(name), [&] { return variables.take(name); },
      "the answers opaque_layers, opaque_directions, opaque_hidden and opaque_input"};
  std::vector<SourceCell> cells = cells_of_cudnn_buffer(stack, stored, options, account);
  const std::string scope = scope_of(name).empty() ? "cudnn" : scope_of(name);
  std::vector<FoundCell> found;
  for (std::size_t at = 0; at < cells.size(); ++at) {
    const auto directions = static_cast<std::size_t>(stack.directions);
    found.push_back({.scope = fmt::format("{}/cell_{}/{}", scope, at / directions,
                                          at % directions == 0 ? "fw" : "bw"),
                     .cell = std::move(cells[at])});
  }
  return found;
}

}  // namespace sluice::interchange::tensorflow
