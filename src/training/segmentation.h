#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::training {

/// Each text as the segmenter `command` writes it (data/segmenter.h); as it is if the command is
/// empty. Errors begin with `what`: "data.text".
void segment_texts(const std::string& command, std::string_view what,
                   std::vector<std::string>& texts);

/// The same of one string of each item.
template <typename Item>
void segment_field(const std::string& command, std::string_view what, std::vector<Item>& items,
                   std::string Item::*field) {
  if (command.empty()) return;
  std::vector<std::string> texts;
  texts.reserve(items.size());
  for (const Item& item : items) texts.push_back(item.*field);
  segment_texts(command, what, texts);
  for (std::size_t i = 0; i < items.size(); ++i) items[i].*field = std::move(texts[i]);
}

}  // namespace sluice::training
