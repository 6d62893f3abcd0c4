#include "structure/include_rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string_view>

#include "structure/source_tree.h"

namespace sluice::structure {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string_view>;

/// Which rooms a room may include beside itself and the public headers: the arrows of
/// docs/architecture.md, written out with all that lies further down.
const std::map<std::string, Names, std::less<>>& allowed_rooms() {
  static const std::map<std::string, Names, std::less<>> rooms{
      {"include", {}},
      {"base", {}},
      {"runtime", {"base"}},
      {"kernels", {"runtime", "base"}},
      {"c_api", {"kernels", "runtime", "base"}},
      {"layers", {"kernels", "runtime", "base"}},
      {"io", {"base"}},
      {"profiling", {"io", "runtime", "base"}},
      {"models", {"layers", "io", "kernels", "runtime", "base"}},
      {"data", {"io", "base"}},
      {"metrics", {"data", "io", "base"}},
      {"decoding", {"models", "data", "layers", "io", "kernels", "runtime", "base"}},
      {"checking", {"models", "data", "layers", "io", "kernels", "runtime", "base"}},
      {"model_files", {"models", "data", "layers", "io", "kernels", "runtime", "base"}},
      {"interchange",
       {"model_files", "models", "data", "layers", "io", "kernels", "runtime", "base"}},
      {"distributed", {"runtime", "base"}},
      {"training",
       {"model_files", "models", "decoding", "metrics", "data", "distributed", "layers", "io",
        "kernels", "runtime", "base"}},
      {"serving",
       {"model_files", "decoding", "data", "models", "layers", "io", "kernels", "runtime", "base"}},
      {"api",
       {"c_api", "interchange", "serving", "training", "model_files", "decoding", "checking",
        "distributed", "metrics", "data", "models", "layers", "profiling", "io", "kernels",
        "runtime", "base"}},
      {"bench",
       {"serving", "training", "model_files", "distributed", "models", "decoding", "data", "layers",
        "profiling", "io", "kernels", "runtime", "base", "oracle"}},
      {"apps", {"bench"}},  // for the bench command; everything else goes through the public API
      {"python", {}},
      {"oracle", {}},
  };
  return rooms;
}

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  for (const auto& part : fs::path(path)) parts.push_back(part.string());
  return parts;
}

bool has_folder(const std::vector<std::string>& parts, std::string_view name) {
  return std::find(parts.begin(), parts.end() - 1, name) != parts.end() - 1;
}

/// Where a file of the tree stands, by the folders of its path from the root.
struct Place {
  std::string room;    ///< "base", "kernels", …; "include" for the public headers; empty if none
  std::string family;  ///< of kernels: "recurrent", …
  bool cpu_leaf = false;
  bool cuda_leaf = false;
  bool onednn_leaf = false;
  bool sees_onednn = false;  ///< the library's headers
  bool mpi_leaf = false;
};

Place place_of(const std::string& path) {
  const std::vector<std::string> parts = split(path);
  Place place;
  if (parts[0] == "src") {
    place.room = parts.size() > 2 ? parts[1] : "";
  } else if (parts[0] == "tests") {
    place.room = parts[1] == "oracle" ? "oracle" : "tests";
  } else {
    place.room = parts[0];
  }
  if (place.room == "kernels") {
    if (parts.size() > 3) place.family = parts[2];
    place.cpu_leaf = has_folder(parts, "cpu");
  }
  place.cuda_leaf = parts[0] == "src" && has_folder(parts, "cuda");
  place.onednn_leaf = parts[0] == "src" && has_folder(parts, "onednn");
  place.mpi_leaf = path.starts_with("src/distributed/mpi/");
  place.sees_onednn = place.onednn_leaf || path.starts_with("bench/gemm/");
  return place;
}

/// The file of the tree that an include names, as its path from the root; nullopt for a library's.
std::optional<std::string> resolve(const fs::path& root, const std::string& includer,
                                   const Include& include) {
  Names bases{"src", "include", ".", "tests"};
  const std::string own_folder = fs::path(includer).parent_path().generic_string();
  if (!include.angled) bases.push_back(own_folder);
  for (const std::string_view base : bases) {
    const fs::path candidate = (fs::path(base) / include.name).lexically_normal();
    if (fs::is_regular_file(root / candidate)) return candidate.generic_string();
  }
  return std::nullopt;
}

bool is_cuda_header(const std::string& name) {
  static const std::regex pattern(
      "(cuda|cublas|cudnn|cupti|curand|cusolver|cusparse|nccl|nvrtc|nvml|nvToolsExt|cooperative_"
      "groups|"
      "mma\\.h|device_launch_parameters).*|(cuda|cub|thrust|cutlass|cute|nvtx3)/.*");
  return std::regex_match(name, pattern);
}

bool is_onednn_header(const std::string& name) {
  static const std::regex pattern("(dnnl.*\\.h(pp)?)|oneapi/dnnl/.*");
  return std::regex_match(name, pattern);
}

bool is_standard_header(const Include& include) {
  static const std::regex pattern("[a-z_0-9]+");
  return include.angled && std::regex_match(include.name, pattern);
}

/// Why a file at `from` must not include a file of the tree at `to`; empty if it may.
std::string refuse_own(const Place& from, const Place& to) {
  const auto& rooms = allowed_rooms();
  if (to.room != from.room && to.room != "include") {
    const Names& allowed = rooms.find(from.room)->second;
    if (std::ranges::count(allowed, to.room) == 0) {
      return from.room + " must not see " + to.room;
    }
  }
  if (to.cuda_leaf && !from.cuda_leaf) return "only CUDA leaves may see a CUDA leaf";
  if (to.onednn_leaf && !from.onednn_leaf) return "only oneDNN leaves may see a oneDNN leaf";
  if (to.cpu_leaf && from.cuda_leaf) return "a CUDA leaf must not see a cpu leaf";
  if (to.cpu_leaf && from.onednn_leaf) return "a oneDNN leaf must not see a cpu leaf";
  if (to.cpu_leaf && from.room != "kernels" && from.room != "bench") {
    return "a cpu leaf is reached through its family's contract";
  }
  return "";
}

/// The public headers that are C99, for programs in C and all that calls C. The rules of the other
/// public headers have these exceptions and no more.
bool is_c_header(const std::string& path) {
  return path == "include/sluice.h" || path == "include/sluice_models.h";
}

/// The sizes and integers of C.
bool is_header_for_c(const Include& include) {
  return include.angled && (include.name == "stddef.h" || include.name == "stdint.h");
}

/// Whether a C header may have this condition: its include guard, and what C++ needs around C.
bool is_condition_for_c(const std::string& path, const std::string& condition) {
  std::string guard = fs::path(path).stem().string() + "_H";
  std::ranges::transform(guard, guard.begin(),
                         [](unsigned char letter) { return std::toupper(letter); });
  return condition == "#ifndef " + guard || condition == "#ifdef __cplusplus";
}

/// Why a file must not include this header of a library; empty if it may.
std::string refuse_foreign(const SourceFile& file, const Include& include) {
  const Place from = place_of(file.path);
  if (include.name == "(a macro)") return "an include by macro can't be checked";
  if (is_cuda_header(include.name) && !from.cuda_leaf) {
    return "CUDA headers stay in folders named cuda";
  }
  if (is_onednn_header(include.name) && !from.sees_onednn) {
    return "oneDNN's headers stay in folders named onednn and in bench/gemm";
  }
  if (include.name == "mpi.h" && !from.mpi_leaf) return "MPI's header stays in distributed/mpi";
  if (!include.angled) return "no such file in the tree (libraries are included with <>)";
  if (is_c_header(file.path)) {
    return is_header_for_c(include) ? "" : "a C header takes <stddef.h> and <stdint.h> only";
  }
  const bool standard_only = from.room == "include" || from.room == "oracle";
  if (standard_only && !is_standard_header(include)) {
    return from.room + " takes standard headers only";
  }
  return "";
}

std::string refuse(const fs::path& root, const SourceFile& file, const Include& include) {
  const auto target = resolve(root, file.path, include);
  if (!target) return refuse_foreign(file, include);
  const bool from_src = *target == "src/" + include.name || *target == "include/" + include.name;
  if (file.path.starts_with("src/") && target->starts_with("src/") && !from_src) {
    return "includes are written from src/";
  }
  if (is_c_header(file.path) && !is_c_header(*target)) return "a C header sees C headers only";
  return refuse_own(place_of(file.path), place_of(*target));
}

/// Which kernel families include which others.
using FamilyGraph = std::map<std::string, std::set<std::string>>;

/// Walks on from the end of `path`; returns the circle it runs into, its first family repeated at
/// the end, or nothing. `done` are families already known to lead into none.
std::vector<std::string> find_cycle(const FamilyGraph& graph, std::vector<std::string>& path,
                                    std::set<std::string>& done) {
  const std::string last = path.back();
  const auto edges = graph.find(last);
  if (edges == graph.end() || done.contains(last)) return {};
  for (const std::string& next : edges->second) {
    const auto seen = std::ranges::find(path, next);
    if (seen != path.end()) {
      std::vector<std::string> cycle(seen, path.end());
      cycle.push_back(next);
      return cycle;
    }
    path.push_back(next);
    auto cycle = find_cycle(graph, path, done);
    if (!cycle.empty()) return cycle;
    path.pop_back();
  }
  done.insert(last);
  return {};
}

std::vector<std::string> check_family_cycles(const FamilyGraph& graph) {
  std::set<std::string> done;
  for (const auto& [family, targets] : graph) {
    std::vector<std::string> path{family};
    const auto cycle = find_cycle(graph, path, done);
    if (cycle.empty()) continue;
    std::string text = "src/kernels: families include each other in a circle: " + cycle.front();
    for (std::size_t i = 1; i < cycle.size(); ++i) text += " -> " + cycle[i];
    return {text};
  }
  return {};
}

void add_family_edges(const fs::path& root, const SourceFile& file, FamilyGraph& graph) {
  const Place from = place_of(file.path);
  if (from.family.empty()) return;
  for (const Include& include : file.includes) {
    const auto target = resolve(root, file.path, include);
    const std::string to = target ? place_of(*target).family : "";
    if (!to.empty() && to != from.family) graph[from.family].insert(to);
  }
}

std::string at(const SourceFile& file, int line, const std::string& what) {
  return file.path + ":" + std::to_string(line) + ": " + what;
}

void check_file(const fs::path& root, const SourceFile& file, std::vector<std::string>& found) {
  const Place place = place_of(file.path);
  if (!allowed_rooms().contains(place.room)) {
    found.push_back(at(file, 1, "stands in no room of docs/architecture.md"));
    return;
  }
  for (const Include& include : file.includes) {
    const std::string why = refuse(root, file, include);
    if (!why.empty()) found.push_back(at(file, include.line, include.name + ": " + why));
  }
  if (place.room == "include") {
    for (const Conditional& condition : file.conditionals) {
      if (!is_c_header(file.path)) {
        found.push_back(at(file, condition.line, "public headers have no #if"));
      } else if (!is_condition_for_c(file.path, condition.text)) {
        found.push_back(at(file, condition.line,
                           "C headers have no #if but their guard and #ifdef __cplusplus"));
      }
    }
  }
}

}  // namespace

std::vector<std::string> check_includes(const fs::path& root) {
  std::vector<std::string> found;
  FamilyGraph families;
  for (const char* folder : {"include", "src", "apps", "bench", "python", "tests/oracle"}) {
    for (const SourceFile& file : read_sources(root, folder)) {
      check_file(root, file, found);
      add_family_edges(root, file, families);
    }
  }
  const auto cycles = check_family_cycles(families);
  found.insert(found.end(), cycles.begin(), cycles.end());
  return found;
}

std::vector<std::string> check_own_header_first(const fs::path& root) {
  std::vector<std::string> found;
  for (const SourceFile& file : read_sources(root, "src")) {
    const fs::path path(file.path);
    if (path.extension() != ".cpp") continue;
    const std::string header = fs::path(path).replace_extension(".h").generic_string();
    if (!fs::is_regular_file(root / header)) continue;
    if (file.includes.empty() || resolve(root, file.path, file.includes[0]) != header) {
      const int line = file.includes.empty() ? 1 : file.includes[0].line;
      found.push_back(at(file, line, "the first include must be its own header, " + header));
    }
  }
  return found;
}

std::vector<std::string> check_all_compiled(const fs::path& root,
                                            const std::string& compile_commands) {
  std::vector<std::string> found;
  // Where there is no nvcc, nothing of the CUDA part is compiled.
  const bool with_cuda = compile_commands.find("/src/runtime/cuda/") != std::string::npos;
  for (const char* folder : {"src", "apps", "bench"}) {
    for (const SourceFile& file : read_sources(root, folder)) {
      if (!file.path.ends_with(".cpp") || (place_of(file.path).cuda_leaf && !with_cuda)) continue;
      if (compile_commands.find("/" + file.path + "\"") == std::string::npos) {
        found.push_back(at(file, 1, "no target compiles this file"));
      }
    }
  }
  return found;
}

}  // namespace sluice::structure
