#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sluice/model_info.h"

namespace sluice::app {

/// The argument of every command that uses a model.
inline CLI::Option* add_model_argument(CLI::App& command, std::string& model,
                                       const std::string& more = "") {
  return command.add_option("model", model,
                            "A checkpoint folder, its model.safetensors, or the folder of a "
                            "training run (best/, or last/ if there is no best/)" +
                                more);
}

/// The options of every command that runs a model.
inline void add_placement_options(CLI::App& command, Placement& placement) {
  command.add_option("--device", placement.device, "Where to run: cpu, cuda or cuda:N")
      ->capture_default_str();
  command
      .add_option(
          "--precision", placement.precision,
          "float32 anywhere; tf32, bfloat16 or float16 on a GPU (faster); int8 on a CPU; "
          "bfloat16 on a CPU with AMX or AVX512_BF16, except for seq2seq, whose decoders run in "
          "float32 there. auto: float32, or "
          "the precision that the model was quantized for")
      ->capture_default_str();
}

}  // namespace sluice::app
