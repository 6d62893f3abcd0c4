#include "api/program_check.h"

#include <array>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "data/child_process.h"

namespace sluice::api {
namespace {

using namespace std::chrono_literals;

// Some programs take minutes to start on a slow disk.
constexpr auto kLongest = 10min;
// The folder where people stand may hold files that came with a model: no module is taken from it.
constexpr const char* kCommand =
    "PYTHONSAFEPATH=1 exec \"${SLUICE_PYTHON:-python3}\" -m sluice._verify_with";
// The module's exit code if outputs differ or the program can't run the source.
constexpr int kDiffers = 3;

std::string request_json(const ConvertRequest& request) {
  const nlohmann::json json{{"program", request.verify_with},
                            {"source", request.source},
                            {"to", "sluice"},
                            {"kind", request.kind},
                            {"words", ""},
                            {"labels", ""},
                            {"target_words", ""},
                            {"pad", nullptr},
                            {"unknown", nullptr},
                            {"begin", nullptr},
                            {"end", nullptr},
                            {"subgraph", request.subgraph},
                            {"map", request.map},
                            {"answers", request.answers},
                            {"verify", false},
                            {"seed", request.seed},
                            {"device", request.device}};
  return json.dump();
}

std::string run(const std::string& input) {
  data::ChildProcess process(kCommand);
  std::string_view left = input;
  while (!left.empty() && process.input_open()) {
    if (!process.ready(true, kLongest)) break;
    left.remove_prefix(process.write(left));
  }
  process.close_input();
  std::string output;
  std::array<char, 4096> buffer{};
  while (process.ready(false, kLongest)) {
    const std::optional<std::size_t> count = process.read(buffer);
    if (count && *count == 0) break;
    if (count) output.append(buffer.data(), *count);
  }
  const std::string end = process.wait();
  if (process.exit_code() == 0) return output;
  if (process.exit_code() == kDiffers) {
    base::fail(ErrorCode::kNumeric, "the source's own program does not prove the conversion: {}",
               output.substr(0, output.find('\n')));
  }
  base::fail(ErrorCode::kNotFound,
             "--verify-with ended with {}: it needs the Python package of Sluice in python3, or in "
             "the interpreter that SLUICE_PYTHON names",
             end);
}

}  // namespace

double check_with_program(const ConvertRequest& request) {
  const std::string output = run(request_json(request));
  double difference = 0;
  const auto [stop, error] =
      std::from_chars(output.data(), output.data() + output.size(), difference);
  SLUICE_CHECK(error == std::errc(), "--verify-with printed '{}', which is no number", output);
  return difference;
}

}  // namespace sluice::api
