#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/segmenter.h"
#include "sluice/segmenters.h"
#include "training/train_config.h"

namespace sluice::api {

/// Segments texts as those that a model was trained on, by the commands that the user chose.
class TextSegmentation {
 public:
  /// `path` is that of the model, for errors. No command is run yet.
  TextSegmentation(std::string path, const training::TrainConfig& config,
                   const SegmenterChoice& choice);

  /// Throws ErrorCode::kInvalidArgument, with the command and what to say, if the model needs one
  /// that the user didn't say a word about.
  void require_source() const { source_.require(path_); }

  /// The commands that the user chose, empty for none; errors likewise.
  std::string source_command() const { return source_.command(path_); }
  std::string target_command() const { return target_.command(path_); }

  /// Errors as require_source() and data::Segmenter.
  std::vector<std::string> source(std::span<const std::string> texts) const {
    return source_.apply(path_, texts);
  }
  std::vector<std::string> target(std::span<const std::string> texts) const {
    return target_.apply(path_, texts);
  }

 private:
  struct Side {
    const char* name;
    std::string refused;  ///< the command that the user has to say something about
    std::shared_ptr<data::Segmenter> segmenter;  ///< null: texts stay as they are

    void require(const std::string& path) const;
    std::string command(const std::string& path) const;
    std::vector<std::string> apply(const std::string& path,
                                   std::span<const std::string> texts) const;
  };
  static Side side_of(const char* name, const std::string& trained,
                      const std::optional<std::string>& chosen, bool trust);

  std::string path_;
  Side source_;
  Side target_;
};

}  // namespace sluice::api
