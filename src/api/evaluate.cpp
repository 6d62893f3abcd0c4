#include "sluice/evaluate.h"

#include "metrics/bleu.h"
#include "metrics/chrf.h"

namespace sluice {

TextScores evaluate(std::span<const std::pair<std::string, std::string>> pairs,
                    const std::string& bleu_tokenizer) {
  metrics::Bleu bleu(metrics::parse_bleu_tokenizer(bleu_tokenizer));
  metrics::Chrf chrf;
  metrics::Chrf chrf_plus_plus({.word_order = 2});
  TextScores scores;
  scores.lines = static_cast<std::int64_t>(pairs.size());
  for (const auto& [hypothesis, reference] : pairs) {
    scores.exact += hypothesis == reference ? 1 : 0;
    bleu.add(hypothesis, reference);
    chrf.add(hypothesis, reference);
    chrf_plus_plus.add(hypothesis, reference);
  }
  const metrics::BleuScore of_bleu = bleu.score();
  scores.bleu = of_bleu.score;
  scores.precisions = of_bleu.precisions;
  scores.brevity_penalty = of_bleu.brevity_penalty;
  scores.hypothesis_tokens = of_bleu.hypothesis_tokens;
  scores.reference_tokens = of_bleu.reference_tokens;
  scores.bleu_signature = bleu.signature();
  scores.chrf = chrf.score();
  scores.chrf_signature = chrf.signature();
  scores.chrf_plus_plus = chrf_plus_plus.score();
  scores.chrf_plus_plus_signature = chrf_plus_plus.signature();
  return scores;
}

}  // namespace sluice
