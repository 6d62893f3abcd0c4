#include "training/seq2seq_scorer.h"

#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "models/seq2seq.h"
#include "training/greedy_answers.h"

namespace sluice::training {

std::optional<std::vector<double>> Seq2SeqScorer::finish(const Context& context,
                                                         const models::Model& model,
                                                         const std::atomic<bool>* stop,
                                                         const base::Watch& watch) {
  const auto answers = greedy_answers(context, dynamic_cast<const models::Seq2Seq&>(model),
                                      examples_->source, stop, watch);
  if (!answers) return std::nullopt;
  metrics::Bleu bleu(bleu_tokenizer_);
  metrics::Chrf chrf;
  std::int64_t right = 0;
  for (std::size_t i = 0; i < answers->size(); ++i) {
    const std::vector<std::int32_t>& answer = (*answers)[i];
    right += answer == examples_->target[i] ? 1 : 0;
    const std::string text = target_->decode(answer);
    bleu.add(text, (*references_)[i]);
    chrf.add(text, (*references_)[i]);
  }
  return std::vector{static_cast<double>(right) / static_cast<double>(answers->size()),
                     bleu.score().score, chrf.score()};
}

}  // namespace sluice::training
