#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/tokenizer.h"
#include "metrics/bleu_tokens.h"
#include "training/answer_scorer.h"

namespace sluice::training {

/// How answers by greedy search compare with references: exact match, BLEU, chrF.
class Seq2SeqScorer final : public AnswerScorer {
 public:
  /// references[i] is the text of the target of examples[i].
  Seq2SeqScorer(std::shared_ptr<const data::PairCorpus> examples,
                std::shared_ptr<const std::vector<std::string>> references,
                std::shared_ptr<const data::Tokenizer> target,
                metrics::BleuTokenizer bleu_tokenizer)
      : examples_(std::move(examples)),
        references_(std::move(references)),
        target_(std::move(target)),
        bleu_tokenizer_(bleu_tokenizer) {}

  std::optional<std::vector<double>> finish(const Context& context, const models::Model& model,
                                            const std::atomic<bool>* stop,
                                            const base::Watch& watch) override;

 private:
  std::shared_ptr<const data::PairCorpus> examples_;
  std::shared_ptr<const std::vector<std::string>> references_;
  std::shared_ptr<const data::Tokenizer> target_;
  metrics::BleuTokenizer bleu_tokenizer_;
};

}  // namespace sluice::training
