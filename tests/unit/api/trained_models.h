#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/train.h"
#include "unit/support/npy_file.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice {

/// Tests of classes that open a checkpoint, on each device; suites train the models they need once,
/// on the cpu.
class TrainedModels : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { folder_.emplace(); }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string at(const std::string& name) { return (*folder_ / name).native(); }

  /// `config` as TOML but for the output folder, which gets this name.
  static void train(const std::string& name, const std::string& config) {
    folder_->write(name + ".toml", config + "[output]\ndirectory = \"" + at(name) + "\"\n");
    TrainRequest request;
    request.config_path = at(name + ".toml");
    request.quiet = true;
    sluice::train(request);
  }
  /// A small model on words, of a file in this format.
  static void train(const std::string& name, const std::string& data, const std::string& content,
                    const std::string& model) {
    folder_->write(name + ".data", content);
    train(name,
          "[tokenizer]\nkind = \"words\"\n[training]\nmax_steps = 30\nlearning_rate = 0.05\n"
          "[data]\n" +
              data + " = \"" + at(name + ".data") + "\"\n[model]\nhidden = 6\n" + model);
  }
  static std::string checkpoint(const std::string& name) { return at(name + "/last"); }

  /// Where the model runs; warnings are kept.
  Placement placement() {
    Placement placement;
    placement.device = GetParam();
    placement.warnings = [this](std::string_view warning) { warnings_.emplace_back(warning); };
    return placement;
  }

  static inline std::optional<testing::TemporaryFolder> folder_;
  std::vector<std::string> warnings_;
};

}  // namespace sluice
