#pragma once

#include <string_view>

#include "base/watch.h"
#include "data/train_tokenizer.h"

namespace sluice::training {

struct DataConfig;

/// Whether examples to validate on are held out of those to train on.
bool holds_out(const DataConfig& data);

/// Says that a file (or a folder) is being read, if it is large enough for that to take a while.
void tell_reading(const base::Watch& watch, std::string_view path);

/// data::train_tokenizer(), after saying which vocabulary is being made, if it is made of enough
/// texts for that to take a while. `side` is "source", "target" or "".
std::unique_ptr<data::Tokenizer> train_tokenizer(std::span<const std::string> texts,
                                                 const data::TokenizerOptions& options,
                                                 std::string_view side, const base::Watch& watch);

}  // namespace sluice::training
