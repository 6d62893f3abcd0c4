#pragma once

#include <string>
#include <vector>

#include "data/conll.h"
#include "io/npy.h"
#include "sluice/data_statistics.h"
#include "training/train_config.h"

namespace sluice::api {

/// Examples of text as they stand in files, without the lines that can't be read.
struct ScannedTexts {
  std::vector<std::string> side_names;           ///< "source", "target"
  std::vector<std::vector<std::string>> sides;   ///< [side][example]
  std::vector<std::vector<std::string>> labels;  ///< of each example; empty: there are none

  std::size_t size() const { return sides.front().size(); }
  ScannedTexts select(const std::vector<std::int64_t>& indices) const;
};

/// Those of each format; bad lines are added to `part`, and files.
ScannedTexts scan_pairs(const std::string& path, PartStatistics& part);
ScannedTexts scan_aligned(const std::string& source, const std::string& target,
                          PartStatistics& part);
/// With `smiles`, lines that spell no molecule are bad.
ScannedTexts scan_texts(const std::string& path, bool smiles, PartStatistics& part);
ScannedTexts scan_table(const std::string& path, const std::string& text_column,
                        const std::string& label_column, PartStatistics& part);
ScannedTexts scan_conll(const std::string& path, const data::ConllOptions& options,
                        PartStatistics& part);

/// What configured files of a kind of model hold; nothing if none is named.
struct ConfiguredFiles {
  std::string tsv, source, target, text, table, conll;
};
ScannedTexts scan_configured(const training::TrainConfig& config, const ConfiguredFiles& files,
                             PartStatistics& part);

/// The numbers of the arrays of a file or folder.
struct ScannedArrays {
  ArrayStatistics statistics;
  std::vector<std::int64_t> lengths;  ///< frames of each sequence
};
ScannedArrays scan_arrays(const std::string& name, const std::string& path, PartStatistics& part);

LengthStatistics length_statistics(std::vector<std::int64_t> lengths);

}  // namespace sluice::api
