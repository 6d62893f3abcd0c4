#include "api/text_segmentation.h"

#include "base/check.h"
#include "io/safetensors_header.h"

namespace sluice::api {

TextSegmentation::Side TextSegmentation::side_of(const char* name, const std::string& trained,
                                                 const std::optional<std::string>& chosen,
                                                 bool trust) {
  Side side{name, {}, nullptr};
  const std::string& command = chosen ? *chosen : trained;
  if (command.empty()) return side;
  if (chosen || trust) {
    side.segmenter = std::make_shared<data::Segmenter>(command);
  } else {
    side.refused = command;
  }
  return side;
}

TextSegmentation::TextSegmentation(std::string path, const training::TrainConfig& config,
                                   const SegmenterChoice& choice)
    : path_(std::move(path)),
      source_(side_of("source", config.data.source_segmenter, choice.source, choice.trust)),
      target_(side_of("target", config.data.target_segmenter, choice.target, choice.trust)) {
  const bool one_for_both = source_.segmenter && target_.segmenter &&
                            source_.segmenter->command() == target_.segmenter->command();
  if (one_for_both) target_.segmenter = source_.segmenter;
}

void TextSegmentation::Side::require(const std::string& path) const {
  SLUICE_CHECK(refused.empty(),
               "'{}' was trained on {} texts segmented by the command {}, which is not run without "
               "your word: --trust-segmenter runs it, --{}-segmenter COMMAND runs another, and "
               "--{}-segmenter '' says that texts are segmented already",
               path, name, io::quote_name(refused), name, name);
}

std::string TextSegmentation::Side::command(const std::string& path) const {
  require(path);
  return segmenter ? segmenter->command() : "";
}

std::vector<std::string> TextSegmentation::Side::apply(const std::string& path,
                                                       std::span<const std::string> texts) const {
  require(path);
  if (!segmenter) return {texts.begin(), texts.end()};
  return segmenter->segment(texts);
}

}  // namespace sluice::api
