#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sluice/error.h"
#include "sluice/state_files.h"
#include "sluice/text.h"

namespace sluice::app {

/// For an option that names a state's file: an empty name would be taken for none.
inline std::string refuse_no_name(const std::string& path) {
  return path.empty() ? "the name of the file is empty" : std::string();
}

/// Throws ErrorCode::kInvalidArgument if a state would be written over the answers.
inline void require_two_files(const std::string& output, const std::string& state) {
  if (output.empty() || state.empty()) return;
  if (!is_same_output(output, state)) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      "'" + state + "' is to hold the answers and the state; give --save-state another file");
}

/// --state and --save-state of commands whose input may be a part of one `sequence`.
inline void add_state_options(CLI::App& command, StateFiles& files, const std::string& sequence) {
  command
      .add_option("--state", files.from,
                  "The input continues the " + sequence +
                      " whose state --save-state wrote to this file, on any device")
      ->check(refuse_no_name, "");
  command
      .add_option("--save-state", files.to,
                  "The input is a part of one " + sequence +
                      ": write the state to this file, to continue from")
      ->check(refuse_no_name, "");
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
