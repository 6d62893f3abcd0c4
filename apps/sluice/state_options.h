#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sluice/state_files.h"

namespace sluice::app {

/// --state and --save-state of commands whose input may be a part of one `sequence`.
inline void add_state_options(CLI::App& command, StateFiles& files, const std::string& sequence) {
  command.add_option("--state", files.from,
                     "The input goes on with the " + sequence +
                         " whose state --save-state wrote to this file, on any device");
  command.add_option(
      "--save-state", files.to,
      "The input is a part of one " + sequence + ": write to this file how to go on with it");
}

/// Takes up the state, if there is one, before `answer`, and leaves it after. `answer` gives
/// `model` the parts and writes what it says of them: a state that went on without its answers
/// would lose them, as the part can't be given again.
template <typename Model, typename Answer>
void with_states(Model& model, const StateFiles& files, const Answer& answer) {
  if (!files.from.empty()) model.load_state(files.from);
  answer();
  if (!files.to.empty()) model.save_state(files.to);
}

}  // namespace sluice::app
