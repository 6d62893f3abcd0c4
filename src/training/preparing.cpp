#include "training/preparing.h"

#include <fmt/format.h>

#include <filesystem>

#include "training/train_config.h"

namespace sluice::training {
namespace {

// Less takes no time that anybody would notice.
constexpr std::uintmax_t kManyBytes = 4 << 20;
constexpr std::int64_t kManyTexts = 10000;

}  // namespace

bool holds_out(const DataConfig& data) {
  return data.hold_out_run != 0 || data.hold_out_every != 0;
}

void tell_reading(const base::Watch& watch, std::string_view path) {
  std::error_code not_a_file, unknown;
  const auto bytes = std::filesystem::file_size(path, not_a_file);
  const bool large = !not_a_file && bytes >= kManyBytes;
  if (watch && (large || std::filesystem::is_directory(path, unknown))) {
    watch(fmt::format("reading '{}'", path), base::kNobodyKnows);
  }
}

std::unique_ptr<data::Tokenizer> train_tokenizer(std::span<const std::string> texts,
                                                 const data::TokenizerOptions& options,
                                                 std::string_view side, const base::Watch& watch) {
  if (watch && std::ssize(texts) >= kManyTexts) {
    watch(fmt::format("making the {}{}vocabulary of {} texts ({})", side, side.empty() ? "" : " ",
                      texts.size(), options.kind),
          base::kNobodyKnows);
  }
  return data::train_tokenizer(texts, options);
}

}  // namespace sluice::training
