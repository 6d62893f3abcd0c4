#include "api/report_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/html.h"

namespace sluice::api {

const std::string_view kAnswerStyle = R"(
td.answer { white-space: normal; text-align: left; vertical-align: top; }
td.different { color: var(--bad); }
td.right { font-weight: 700; }
)";

namespace {

using base::escape_html;
using training::Confusion;
using training::SampleAnswer;

constexpr std::int64_t kSamples = 8;
constexpr std::size_t kPictures = 2;
// More would be read by nobody.
constexpr std::size_t kMostClasses = 30;

std::string_view lead(std::string_view kind) {
  if (kind == "language_model") {
    return "How the model goes on from the first half of some texts that it is validated on, "
           "drawing each token by its probability, and how they really do. No two draws are alike: "
           "look for sense, not for sameness.";
  }
  if (kind == "seq2seq") {
    return "What the model answers, by greedy search, to some of the examples that it is validated "
           "on.";
  }
  if (kind == "tagger") {
    return "Sentences that the model is validated on, with its label behind each token, but for O. "
           "Words that the vocabulary lacks stand as the model sees them.";
  }
  if (kind == "features") {
    return "What the model answers to some of the sequences that it is validated on: of values the "
           "first frames, split by ';', of classes how many frames in a row have each.";
  }
  return "What the model answers to some of the examples that it is validated on.";
}

std::string cell(std::string_view text, std::string_view style = "") {
  return fmt::format("<td class=\"answer{}\">{}</td>", style, escape_html(text));
}

std::string table_of(const std::vector<SampleAnswer>& samples, std::string_view kind) {
  std::string rows;
  for (const SampleAnswer& sample : samples) {
    const bool differs = sample.exact && sample.answer != sample.reference;
    rows += fmt::format("<tr>{}{}{}</tr>\n", cell(sample.input),
                        cell(sample.answer, differs ? " different" : ""), cell(sample.reference));
  }
  return fmt::format(
      "<h2>Answers</h2>\n<p>{}</p>\n<div class=\"scroll\"><table>\n<tr><th>input</th>"
      "<th class=\"text\">answer</th><th class=\"text\">reference</th></tr>\n{}</table></div>\n",
      lead(kind), rows);
}

/// The picture as part of a page: without what only a file of its own has, and with names that are
/// the only ones of their kind.
std::string embedded(std::string svg, std::size_t number) {
  svg.erase(0, svg.find("<svg"));
  constexpr std::string_view kName = "attention-scale";
  for (std::size_t at = 0; (at = svg.find(kName, at)) != svg.npos; at += kName.size()) {
    svg.insert(at + kName.size(), fmt::format("-{}", number));
  }
  return svg;
}

std::string attention_of(const std::vector<SampleAnswer>& samples) {
  std::string pictures;
  std::size_t drawn = 0;
  for (const SampleAnswer& sample : samples) {
    if (drawn == kPictures || sample.attention.attention.empty()) continue;
    pictures += "<p>" + escape_html(sample.input) + "</p>\n" +
                embedded(decoding::attention_svg(sample.attention), ++drawn);
  }
  if (drawn == 0) return "";
  return "<h2>Attention</h2>\n<p>Where the model looked in the input (across) when it wrote each "
         "token of the answer (down).</p>\n<div class=\"attention\">\n" +
         pictures + "</div>\n";
}

/// The classes with the most examples, in their own order.
std::vector<std::size_t> largest(const Confusion& confusion) {
  const std::size_t classes = confusion.classes.size();
  std::vector<std::int64_t> examples(classes);
  for (std::size_t i = 0; i < confusion.counts.size(); ++i) {
    examples[i / classes] += confusion.counts[i];
  }
  std::vector<std::size_t> order(classes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return examples[i]; });
  order.resize(std::min(classes, kMostClasses));
  std::ranges::sort(order);
  return order;
}

std::string confusion_table(const Confusion& confusion) {
  const std::vector<std::size_t> shown = largest(confusion);
  std::string text =
      "<h2>Confusion</h2>\n<p>How many of the examples (or frames) of a class (a row) got which "
      "answer (a "
      "column).";
  if (shown.size() < confusion.classes.size()) {
    text += fmt::format(" Of {} classes those {} with the most examples.", confusion.classes.size(),
                        shown.size());
  }
  text += "</p>\n<div class=\"scroll\"><table class=\"confusion\">\n<tr><th></th>";
  for (const std::size_t answered : shown) {
    text += "<th>" + escape_html(confusion.classes[answered]) + "</th>";
  }
  text += "</tr>\n";
  for (const std::size_t right : shown) {
    text += "<tr><th>" + escape_html(confusion.classes[right]) + "</th>";
    for (const std::size_t answered : shown) {
      text += fmt::format("<td{}>{}</td>", answered == right ? " class=\"right\"" : "",
                          confusion.counts[right * confusion.classes.size() + answered]);
    }
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

}  // namespace

std::string answer_sections(const runtime::Context& context, const training::TrainData& data,
                            const models::Model& model) {
  std::string text;
  if (data.samples) {
    const std::vector<SampleAnswer> samples = data.samples(context, model, kSamples);
    text += table_of(samples, model.kind()) + attention_of(samples);
  }
  if (data.confusion) text += confusion_table(data.confusion(context, model));
  return text;
}

}  // namespace sluice::api
