#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/examples.h"
#include "data/frame_corpus.h"
#include "data/labelled_corpus.h"
#include "data/tagged_examples.h"
#include "data/text_corpus.h"
#include "models/language_model.h"
#include "training/train_data.h"

namespace sluice::training {

/// At most `count` of 0 .. size - 1, evenly spread.
std::vector<std::int64_t> spread(std::int64_t size, std::int64_t count);

/// A tagger's labels for some sentences, between spaces. References are labels of the examples.
std::vector<SampleAnswer> sample_labels(const Context& context, const models::Model& model,
                                        const Tokenizers& tokenizers,
                                        const data::TaggedExamples& examples, std::int64_t count);

/// A classifier's labels for some texts.
std::vector<SampleAnswer> sample_classes(const Context& context, const models::Model& model,
                                         const Tokenizers& tokenizers,
                                         const data::LabelledCorpus& examples, std::int64_t count);

/// A classifier's answers to all texts.
Confusion confusion_of(const Context& context, const models::Model& model,
                       const Tokenizers& tokenizers, const data::LabelledCorpus& examples);

/// What a model on features says of some sequences: values, frame by frame as far as they can be
/// read, or classes, where a frame's is followed by how many frames have it: "a x3 b x12".
std::vector<SampleAnswer> sample_frames(const Context& context, const models::Model& model,
                                        const Tokenizers& tokenizers,
                                        const data::FrameCorpus& examples, std::int64_t count);

/// A model's classes of all frames, or of all sequences if it pools.
Confusion confusion_of(const Context& context, const models::Model& model,
                       const Tokenizers& tokenizers, const data::FrameCorpus& examples);

/// How a language model goes on from the first half of some texts, drawing with a fixed seed.
/// References are the second halves.
std::vector<SampleAnswer> sample_texts(const Context& context, const models::LanguageModel& model,
                                       const data::Tokenizer& tokenizer,
                                       const data::TextCorpus& texts, std::int64_t count);

}  // namespace sluice::training
