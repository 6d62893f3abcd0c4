#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::metrics {

/// What BLEU counts as a token; the names are those of the sacrebleu package.
enum class BleuTokenizer {
  k13a,   ///< "13a": of NIST's mteval-v13a, punctuation apart but for that within numbers
  kZh,    ///< "zh": Chinese characters one by one, the rest by 13a's rules for punctuation
  kChar,  ///< "char": every character
  kNone,  ///< "none": what stands between white space
};

/// Every name, in the order of the enumerators.
std::span<const std::string_view> bleu_tokenizer_names();
std::string_view name_of(BleuTokenizer tokenizer);
/// Throws ErrorCode::kInvalidArgument with the names there are.
BleuTokenizer parse_bleu_tokenizer(std::string_view name);

/// The tokens of one line. Throws ErrorCode::kFormat if it is not valid UTF-8.
std::vector<std::string> bleu_tokens(std::string_view line, BleuTokenizer tokenizer);

}  // namespace sluice::metrics
