#include "training/segmentation.h"

#include "base/check.h"
#include "data/segmenter.h"

namespace sluice::training {

void segment_texts(const std::string& command, std::string_view what,
                   std::vector<std::string>& texts) {
  if (command.empty()) return;
  try {
    texts = data::Segmenter(command).segment_file(texts);
  } catch (const Error& error) {
    base::fail(error.code(), "{}: {}", what, error.what());
  }
}

}  // namespace sluice::training
