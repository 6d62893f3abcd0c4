#include "profile_options.h"

#include <charconv>

#include "sluice/error.h"

namespace sluice::app {
namespace {

/// The number that a text is, or -1.
std::int64_t number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

void parse_steps(const std::string& text, ProfileRequest& request) {
  const std::size_t colon = text.find(':');
  request.first_step = number_of(std::string_view(text).substr(0, colon));
  request.last_step =
      colon == std::string::npos ? -1 : number_of(std::string_view(text).substr(colon + 1));
  if (request.first_step >= 1 && request.last_step >= request.first_step) return;
  throw Error(ErrorCode::kInvalidArgument,
              "--trace-steps '" + text +
                  "' is not A:B, the first and the last step counted from 1, such as 11:15");
}

}  // namespace

void add_profile_options(CLI::App& command, ProfileRequest& request, const std::string& steps) {
  command.add_option("--trace", request.trace,
                     "Write a trace to this file, at most 16 MiB, for ui.perfetto.dev or "
                     "chrome://tracing: what the host did by module and, on a GPU, its kernels");
  command.add_flag("--breakdown", request.breakdown,
                   "Print where the time went, by module, to standard error");
  command.add_option_function<std::string>(
      "--trace-steps", [&request](const std::string& text) { parse_steps(text, request); },
      "A:B, the range that --trace and --breakdown record: " + steps);
}

}  // namespace sluice::app
