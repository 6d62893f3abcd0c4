#include "training/config_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "training/config_keys.h"
#include "training/key_limits.h"
#include "training/task.h"
#include "training/train_config.h"

namespace sluice::training {
namespace {

constexpr std::string_view kHead = R"(# Configuration

`sluice reference config` writes this page from the table that the program reads configurations by.

A configuration is a TOML file of these keys. Only the files of examples have no default. `sluice train task.toml --set section.key=value` sets one
key for a single run. `sluice train --example` prints a file with all keys to start from.

Each key shows its type, its default and its allowed values. *Of* names the kinds of models (`model.kind`) that use the key. Another kind refuses it,
if you set it. A run that resumes from `last/` must keep the values it started with. Keys with these marks are exceptions:

- *may change*: you may set another value.
- *may change (bits may differ)*: likewise; results may change by rounding.
- *fresh runs*: the key acts once, at the start. You may leave it out afterwards, but not change it.

)";

struct Section {
  std::string_view name;
  std::string_view about;
};

constexpr Section kSections[] = {
    {"data",
     "Which examples to train and to validate on. File names are relative to the folder in which "
     "you "
     "start the program. [Data](../data.md) describes the formats."},
    {"tokenizer",
     "How texts become ids. A run makes its vocabularies once, from the training examples. Every "
     "checkpoint holds them."},
    {"model",
     "The model. [Training](../training.md#kinds-of-models) introduces the kinds, "
     "[equations](../equations.md) the arithmetic."},
    {"training",
     "Optimiser, learning rate, batches, and the metric that decides which model is best: "
     "[training](../training.md)."},
    {"output", "What a run writes, and where."},
    {"distributed", "How several ranks work together ([several devices](../distributed.md))."},
    {"machine",
     "The processor and its precision. These keys change results by rounding only: "
     "[GPUs](../gpu.md)."},
};

std::string_view about(std::string_view section) {
  const auto found = std::ranges::find(kSections, section, &Section::name);
  return found == std::end(kSections) ? "" : found->about;
}

/// What GitHub makes of a heading: "training.max_rows" becomes "trainingmax_rows".
std::string anchor(std::string_view heading) {
  std::string text(heading);
  std::erase(text, '.');
  return text;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// `text` with names of other keys as links and what stands in quotes as code.
std::string linked(std::string_view text) {
  std::string page;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '(';
    if (begins && text[at] == '\'') {
      const std::size_t end = text.find('\'', at + 1);
      page += fmt::format("`{}`", text.substr(at + 1, end - at - 1));
      at = end == text.npos ? text.size() : end + 1;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && (is_name(text[end]) || text[end] == '.')) ++end;
    std::string_view word = text.substr(at, std::max<std::size_t>(end - at, 1));
    while (word.size() > 1 && word.back() == '.') word.remove_suffix(1);
    if (find_key(word) != nullptr) {
      page += fmt::format("[`{}`](#{})", word, anchor(word));
    } else {
      if (word == "*" || word == "<" || word == "[") page += '\\';
      page += word;
    }
    at += word.size();
  }
  return page;
}

std::string code_list(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names)
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name);
  return text;
}

/// What training.keep_best may be depends on the kind.
std::string metrics_by_kind() {
  std::string text;
  for (const Task* task : tasks()) {
    std::vector<std::string_view> names;
    for (const ValidationMetric& metric : task->metrics()) names.push_back(metric.key);
    text += fmt::format("{}{} of {}", text.empty() ? "" : "; ", code_list(names), task->kind());
  }
  return text;
}

std::string allowed(const ConfigKey& key) {
  if (key.name == "training.keep_best") return metrics_by_kind();
  if (key.name == "model.kind") {
    std::vector<std::string_view> kinds;
    for (const Task* task : tasks()) kinds.push_back(task->kind());
    return code_list(kinds);
  }
  const KeyLimits* limits = find_limits(key.name);
  if (limits == nullptr) return "";
  return limits->choices.empty() ? limits->range() : code_list(limits->choices);
}

std::string_view when_resumed(ResumeRule rule) {
  switch (rule) {
    case ResumeRule::kMustMatch:
      return "";
    case ResumeRule::kMayMatter:
      return "may change (bits may differ)";
    case ResumeRule::kMayChange:
      return "may change";
    case ResumeRule::kAtStart:
      break;
  }
  return "fresh runs";
}

std::string entry(const ConfigKey& key) {
  const std::string value = key.value_of(TrainConfig());
  std::string facts =
      fmt::format("{}, {}", key.type(),
                  value == "\"\"" ? "empty by default" : fmt::format("default `{}`", value));
  const auto add = [&](std::string_view mark, std::string_view text) {
    if (!text.empty()) facts += fmt::format(" · {}{}", mark, text);
  };
  add("", allowed(key));
  const auto kinds = kinds_using(key.name);
  add("*of* ", fmt::format("{}", fmt::join(kinds, ", ")));
  const std::string_view resumed = when_resumed(key.rule);
  if (!resumed.empty()) add("", fmt::format("*{}*", resumed));
  return fmt::format("### {}\n\n{}\n\n{}\n\n", key.name, facts, linked(key.help));
}

/// A line for each section with links to its keys.
std::string contents() {
  std::string text = "| section | keys |\n|---|---|\n";
  std::string_view section;
  for (const ConfigKey& key : config_keys()) {
    if (key.section() != section) {
      text += fmt::format("{}| [{}](#{}) | ", section.empty() ? "" : " |\n", key.section(),
                          key.section());
    } else {
      text += ", ";
    }
    section = key.section();
    text += fmt::format("[{}](#{})", key.key(), anchor(key.name));
  }
  return text + " |\n\n";
}

}  // namespace

std::string config_page() {
  std::string page = std::string(kHead) + contents();
  std::string_view section;
  for (const ConfigKey& key : config_keys()) {
    if (key.section() != section) {
      section = key.section();
      page += fmt::format("## {}\n\n{}\n\n", section, about(section));
    }
    page += entry(key);
  }
  page.pop_back();
  return page;
}

}  // namespace sluice::training
