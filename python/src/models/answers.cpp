#include "answers.h"

#include "loaded.h"

namespace sluice::python {

nb::list to_texts(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(to_text(text));
  return list;
}

nb::tuple to_python(const Hypothesis& hypothesis) {
  nb::object attention = nb::none();
  if (!hypothesis.attention.empty()) {
    nb::list rows;
    for (const std::vector<float>& row : hypothesis.attention) {
      nb::list numbers;
      for (const float number : row) numbers.append(number);
      rows.append(numbers);
    }
    attention = rows;
  }
  return nb::make_tuple(to_text(hypothesis.text), hypothesis.score, hypothesis.normalised_score,
                        to_texts(hypothesis.pieces), attention, hypothesis.ended);
}

nb::list to_python(const std::vector<Hypothesis>& hypotheses) {
  nb::list list;
  for (const Hypothesis& hypothesis : hypotheses) list.append(to_python(hypothesis));
  return list;
}

nb::list to_python(const std::vector<Scored>& scores) {
  nb::list list;
  for (const Scored& score : scores) {
    list.append(nb::make_tuple(score.log_probability, score.tokens));
  }
  return list;
}

}  // namespace sluice::python
