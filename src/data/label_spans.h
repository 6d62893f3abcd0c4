#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

/// Neighbouring tokens that a labelling makes one entity.
struct LabelSpan {
  std::string type;
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< behind the last token

  auto operator<=>(const LabelSpan&) const = default;
};

/// The entities of one sentence's labels, in their order. A label is O, or a prefix of one letter
/// and a type: B-person begins an entity of type person, I- goes on, E- ends it, S- is one by
/// itself (BIO and BIOES). Labellings that break these rules are read as the script conlleval of
/// the CoNLL-2000 shared task (Tjong Kim Sang and Buchholz 2000) and the seqeval package read them:
/// an entity also begins where the type changes, or with I or E after O, E or S; it also ends
/// before O, B, S and another type. What has no hyphen is a prefix and a type, too: the type of "B"
/// is
/// "_".
std::vector<LabelSpan> spans_of(std::span<const std::string> labels);

/// How spans are spelled.
enum class LabelScheme {
  kAsIs,   ///< whatever it is
  kBio,    ///< B-, then I-
  kBioes,  ///< B-, I-, E-; S- of a single token
};
/// "as-is", "bio", "bioes"; throws ErrorCode::kInvalidArgument for others.
LabelScheme parse_label_scheme(std::string_view name);

/// Whether it is O, or B-, I-, E- or S- and a type: what respell_labels can read.
bool is_span_label(std::string_view label);

/// The same spans in another scheme. Every label must be a span label.
std::vector<std::string> respell_labels(std::span<const std::string> labels, LabelScheme scheme);

}  // namespace sluice::data
