#include "model_files/tokenizers.h"

#include <fmt/format.h>

#include "base/check.h"

namespace sluice::model_files {

using base::fail;

const char* blob_name(Vocabulary vocabulary) {
  constexpr const char* kNames[] = {"tokenizer.source", "tokenizer.target", "labels"};
  return kNames[static_cast<std::size_t>(vocabulary)];
}

const char* side_name(Vocabulary vocabulary) {
  constexpr const char* kNames[] = {"source", "target", "label"};
  return kNames[static_cast<std::size_t>(vocabulary)];
}

bool Tokenizers::has(Vocabulary vocabulary) const {
  switch (vocabulary) {
    case Vocabulary::kSource:
      return source != nullptr;
    case Vocabulary::kTarget:
      return target != nullptr;
    case Vocabulary::kLabels:
      return labels != nullptr;
  }
  return false;
}

std::int64_t Tokenizers::size(Vocabulary vocabulary) const {
  SLUICE_ASSERT(has(vocabulary));
  if (vocabulary == Vocabulary::kLabels) return labels->size();
  return (vocabulary == Vocabulary::kSource ? source : target)->size();
}

std::string Tokenizers::describe(Vocabulary vocabulary) const {
  if (vocabulary == Vocabulary::kLabels) return fmt::format("{}", size(vocabulary));
  const data::Tokenizer& tokenizer = vocabulary == Vocabulary::kSource ? *source : *target;
  return fmt::format("{}, {} ids", tokenizer.kind(), tokenizer.size());
}

void Tokenizers::require(Vocabulary vocabulary, std::int64_t ids) const {
  if (!has(vocabulary)) {
    fail(ErrorCode::kFormat, "it has no blob '{}', which its kind of model needs",
         blob_name(vocabulary));
  }
  if (size(vocabulary) == ids) return;
  fail(ErrorCode::kFormat, "the {} vocabulary has {} ids, but its {} {}", side_name(vocabulary),
       ids, vocabulary == Vocabulary::kLabels ? "labels are" : "tokenizer has", size(vocabulary));
}

std::map<std::string, std::string> to_blobs(const Tokenizers& tokenizers) {
  std::map<std::string, std::string> blobs;
  if (tokenizers.source) blobs[blob_name(Vocabulary::kSource)] = tokenizers.source->serialize();
  if (tokenizers.target) blobs[blob_name(Vocabulary::kTarget)] = tokenizers.target->serialize();
  if (tokenizers.labels) blobs[blob_name(Vocabulary::kLabels)] = tokenizers.labels->serialize();
  return blobs;
}

Tokenizers tokenizers_of(const io::Container& container) {
  Tokenizers tokenizers;
  // Calls load(bytes) if the blob is there.
  const auto take = [&](Vocabulary vocabulary, auto&& load) {
    const auto found = container.blobs.find(blob_name(vocabulary));
    if (found == container.blobs.end()) return;
    try {
      load(found->second);
    } catch (const Error& error) {
      fail(error.code(), "'{}': {}: {}", container.origin, found->first, error.what());
    }
  };
  take(Vocabulary::kSource,
       [&](const std::string& bytes) { tokenizers.source = data::load_tokenizer(bytes); });
  take(Vocabulary::kTarget, [&](const std::string& bytes) {
    const auto source = container.blobs.find(blob_name(Vocabulary::kSource));
    const bool shared = source != container.blobs.end() && source->second == bytes;
    tokenizers.target = shared ? tokenizers.source : data::load_tokenizer(bytes);
  });
  take(Vocabulary::kLabels, [&](const std::string& bytes) {
    tokenizers.labels = std::make_shared<data::Labels>(data::Labels::parse(bytes));
  });
  return tokenizers;
}

}  // namespace sluice::model_files
