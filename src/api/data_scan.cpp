#include "api/data_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/counted.h"
#include "data/corpus.h"
#include "data/frames.h"
#include "data/line_reader.h"
#include "data/smiles_tokenizer.h"
#include "data/table.h"
#include "io/name_of_input.h"

namespace sluice::api {
namespace {

constexpr std::size_t kBadLines = 100;
constexpr std::size_t kShapes = 1000;

data::OnBadLine noting(const std::string& path, PartStatistics& part) {
  part.files.push_back(path);
  return [path, &part](std::int64_t line, const Error& error) {
    ++part.bad_lines;
    if (part.bad.size() < kBadLines) part.bad.push_back({path, line, error.what()});
  };
}

std::string joined(const std::vector<std::string>& tokens) {
  return fmt::format("{}", fmt::join(tokens, " "));
}

/// Sums of numbers, of which some may not be finite.
struct Moments {
  void add(double value, ArrayStatistics& arrays) {
    if (std::isnan(value)) {
      ++arrays.nan;
    } else if (std::isinf(value)) {
      ++arrays.infinite;
    } else {
      arrays.least = count == 0 ? value : std::min(arrays.least, value);
      arrays.most = count == 0 ? value : std::max(arrays.most, value);
      // Welford's sums, which numbers far from zero don't spoil.
      ++count;
      const double before = value - arrays.mean;
      arrays.mean += before / static_cast<double>(count);
      squares += before * (value - arrays.mean);
    }
  }

  std::int64_t count = 0;
  double squares = 0;
};

}  // namespace

ScannedTexts ScannedTexts::select(const std::vector<std::int64_t>& indices) const {
  ScannedTexts some{side_names, {}, {}};
  for (const auto& side : sides) {
    some.sides.push_back(data::select<std::string>(side, indices));
  }
  if (!labels.empty()) some.labels = data::select<std::vector<std::string>>(labels, indices);
  return some;
}

ScannedTexts scan_pairs(const std::string& path, PartStatistics& part) {
  ScannedTexts texts{{"source", "target"}, std::vector<std::vector<std::string>>(2), {}};
  for (data::TextPair& pair : data::read_tsv_pairs(path, noting(path, part))) {
    texts.sides[0].push_back(std::move(pair.source));
    texts.sides[1].push_back(std::move(pair.target));
  }
  return texts;
}

// A bad line counts as an empty one, so that the others stay side by side.
ScannedTexts scan_aligned(const std::string& source, const std::string& target,
                          PartStatistics& part) {
  ScannedTexts texts{{"source", "target"}, {}, {}};
  texts.sides.push_back(data::read_lines(source, noting(source, part)));
  texts.sides.push_back(data::read_lines(target, noting(target, part)));
  const std::size_t common = std::min(texts.sides[0].size(), texts.sides[1].size());
  for (std::size_t side = 0; side < 2; ++side) {
    const std::size_t surplus = texts.sides[side].size() - common;
    if (surplus > 0) {
      part.bad_lines += static_cast<std::int64_t>(surplus);
      if (part.bad.size() == kBadLines) part.bad.pop_back();
      part.bad.push_back(
          {part.files[side], static_cast<std::int64_t>(common) + 1,
           fmt::format("{} has {} more than {}, from line {} on",
                       io::name_of_input(part.files[side]), base::counted(surplus, "line"),
                       io::name_of_input(part.files[1 - side]), common + 1)});
    }
    texts.sides[side].resize(common);
  }
  return texts;
}

ScannedTexts scan_texts(const std::string& path, bool smiles, PartStatistics& part) {
  const data::OnBadLine on_bad = noting(path, part);
  data::LineReader reader(path);
  ScannedTexts texts{{"text"}, std::vector<std::vector<std::string>>(1), {}};
  read_lines_of(reader, on_bad, [&] {
    const auto line = reader.next();
    if (!line) return false;
    if (smiles) {
      data::require_smiles(
          *line, fmt::format("{}, line {},", io::name_of_input(path), reader.line_number()));
    }
    texts.sides[0].emplace_back(*line);
    return true;
  });
  return texts;
}

ScannedTexts scan_table(const std::string& path, const std::string& text_column,
                        const std::string& label_column, PartStatistics& part) {
  const data::OnBadLine on_bad = noting(path, part);
  const data::Table table = data::read_table(path, on_bad);
  const std::size_t text = table.column(text_column), label = table.column(label_column);
  ScannedTexts texts{{"text"}, std::vector<std::vector<std::string>>(1), {}};
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (table.rows[row][label].empty()) {
      on_bad(table.lines[row],
             Error(ErrorCode::kFormat,
                   fmt::format("{}: the column '{}' is empty", table.where(row), label_column)));
      continue;
    }
    texts.sides[0].push_back(table.rows[row][text]);
    texts.labels.push_back({table.rows[row][label]});
  }
  return texts;
}

ScannedTexts scan_conll(const std::string& path, const data::ConllOptions& options,
                        PartStatistics& part) {
  ScannedTexts texts{{"tokens"}, std::vector<std::vector<std::string>>(1), {}};
  for (data::TaggedSentence& sentence : data::read_conll(path, options, noting(path, part))) {
    texts.sides[0].push_back(joined(sentence.tokens));
    texts.labels.push_back(std::move(sentence.labels));
  }
  return texts;
}

ScannedTexts scan_configured(const training::TrainConfig& config, const ConfiguredFiles& files,
                             PartStatistics& part) {
  const training::DataConfig& data = config.data;
  if (!files.tsv.empty()) return scan_pairs(files.tsv, part);
  if (!files.source.empty()) return scan_aligned(files.source, files.target, part);
  if (!files.table.empty()) {
    return scan_table(files.table, data.text_column, data.label_column, part);
  }
  if (!files.conll.empty()) {
    return scan_conll(
        files.conll,
        {data.token_column, data.tag_column, data::parse_label_scheme(data.label_scheme)}, part);
  }
  if (!files.text.empty()) return scan_texts(files.text, config.tokenizer.kind == "smiles", part);
  return {};
}

ScannedArrays scan_arrays(const std::string& name, const std::string& path, PartStatistics& part) {
  part.files.push_back(path);
  ScannedArrays scanned;
  ArrayStatistics& result = scanned.statistics;
  std::vector<std::int64_t>& lengths = scanned.lengths;
  result.name = name;
  Moments moments;
  data::for_each_array(
      path, [&](const std::string&, const std::string&, const io::NpyArray& array) {
        const auto& shape = array.shape;
        const bool many = shape.size() == 3 || (array.is_integer && shape.size() == 2);
        const std::int64_t sequences = many ? shape[0] : 1;
        const std::int64_t frames = shape.empty() ? 1 : shape[many ? 1 : 0];
        const bool has_width = !array.is_integer && shape.size() > 1;
        const std::int64_t width = has_width ? shape.back() : 1;
        if (result.arrays++ == 0) result.width = width;
        if (result.width != width) result.width = 0;
        result.integers = result.integers || array.is_integer;
        // An array without numbers has no sequences, whatever its header says.
        if (array.element_count() > 0 || !many) {
          lengths.insert(lengths.end(), static_cast<std::size_t>(sequences), frames);
          result.sequences += sequences;
          result.frames += sequences * frames;
        }
        const std::string spelled = io::to_string(shape);
        if (result.shapes.size() < kShapes || result.shapes.contains(spelled))
          ++result.shapes[spelled];
        for (const float value : array.floats) moments.add(static_cast<double>(value), result);
        for (const std::int64_t value : array.integers)
          moments.add(static_cast<double>(value), result);
      });
  if (moments.count > 0) {
    result.deviation = std::sqrt(moments.squares / static_cast<double>(moments.count));
  }
  result.lengths = length_statistics(lengths);
  return scanned;
}

LengthStatistics length_statistics(std::vector<std::int64_t> lengths) {
  LengthStatistics result;
  if (lengths.empty()) return result;
  std::sort(lengths.begin(), lengths.end());
  result.shortest = lengths.front();
  result.longest = lengths.back();
  double sum = 0;
  for (const std::int64_t length : lengths) sum += static_cast<double>(length);
  result.mean = sum / static_cast<double>(lengths.size());
  for (const int percent : {1, 5, 25, 50, 75, 95, 99}) {
    // The smallest length that so many percent don't exceed.
    const std::size_t rank = (lengths.size() * static_cast<std::size_t>(percent) + 99) / 100;
    result.percentiles.emplace_back(percent, lengths[std::max<std::size_t>(rank, 1) - 1]);
  }
  auto from = lengths.begin();
  for (std::int64_t most = 1; from != lengths.end(); most *= 2) {
    const auto to = std::upper_bound(from, lengths.end(), most);
    if (to != from) result.histogram.emplace_back(most, to - from);
    from = to;
  }
  return result;
}

}  // namespace sluice::api
