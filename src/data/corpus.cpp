#include "data/corpus.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/counted.h"
#include "data/shuffle.h"
#include "io/name_of_input.h"

namespace sluice::data {
namespace {

bool exceeds(std::span<const std::int32_t> ids, std::int64_t limit) {
  return limit > 0 && static_cast<std::int64_t>(ids.size()) > limit;
}

std::int64_t unknown_in(std::span<const std::int32_t> ids) {
  return std::count(ids.begin(), ids.end(), kUnknownId);
}

std::uint64_t absorb(std::uint64_t hash, std::span<const std::int32_t> ids) {
  hash = SplitMix::mix(hash + ids.size() + 1);
  for (const std::int32_t id : ids) {
    hash = SplitMix::mix(hash ^ (static_cast<std::uint64_t>(static_cast<std::uint32_t>(id)) + 1));
  }
  return hash;
}

}  // namespace

void require_lines(std::int64_t count, const std::filesystem::path& path) {
  if (count == 0) {
    base::fail(ErrorCode::kFormat, "{} is empty; a data set needs at least one line",
               io::name_of_input(path));
  }
}

std::optional<TextPair> next_tsv_pair(LineReader& reader) {
  const auto line = reader.next();
  if (!line) return std::nullopt;
  const auto tabs = std::count(line->begin(), line->end(), '\t');
  if (tabs != 1) {
    base::fail(ErrorCode::kFormat, "{} line {} has {}; each line must be source, one TAB, target",
               io::name_of_input(reader.path()), reader.line_number(),
               base::counted(tabs + 1, "column"));
  }
  const std::size_t tab = line->find('\t');
  return TextPair{std::string(line->substr(0, tab)), std::string(line->substr(tab + 1))};
}

std::vector<TextPair> read_tsv_pairs(const std::filesystem::path& path, const OnBadLine& on_bad) {
  LineReader reader(path);
  std::vector<TextPair> pairs;
  read_lines_of(reader, on_bad, [&] {
    auto pair = next_tsv_pair(reader);
    const bool more = pair.has_value();
    if (more) pairs.push_back(*std::move(pair));
    return more;
  });
  if (!on_bad) require_lines(std::ssize(pairs), path);
  return pairs;
}

std::vector<TextPair> read_aligned_pairs(const std::filesystem::path& source_path,
                                         const std::filesystem::path& target_path) {
  std::vector<std::string> sources = read_lines(source_path);
  std::vector<std::string> targets = read_lines(target_path);
  if (sources.size() != targets.size()) {
    base::fail(ErrorCode::kFormat,
               "{} has {} but {} has {}; line-aligned files need the same number",
               io::name_of_input(source_path), base::counted(sources.size(), "line"),
               io::name_of_input(target_path), targets.size());
  }
  require_lines(std::ssize(sources), source_path);
  std::vector<TextPair> pairs(sources.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = {std::move(sources[i]), std::move(targets[i])};
  }
  return pairs;
}

bool count_pair(std::span<const std::int32_t> source, std::span<const std::int32_t> target,
                const LengthLimits& limits, CorpusReport& report) {
  const bool empty = source.empty() || target.empty();
  const bool too_long = exceeds(source, limits.source) || exceeds(target, limits.target);
  if (empty || too_long) {
    ++(empty ? report.empty : report.too_long);
    return false;
  }
  ++report.kept;
  report.source_tokens += std::ssize(source);
  report.target_tokens += std::ssize(target);
  report.source_unknown += unknown_in(source);
  report.target_unknown += unknown_in(target);
  return true;
}

PairCorpus make_corpus(std::span<const TextPair> pairs, const Tokenizer& source_tokenizer,
                       const Tokenizer& target_tokenizer, const LengthLimits& limits,
                       std::string_view name, CorpusReport* report, const base::Watch& watch) {
  PairCorpus corpus;
  base::WatchedItems watched(watch, fmt::format("token ids of {}", name), std::ssize(pairs));
  CorpusReport counts;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    std::vector<std::int32_t> source = source_tokenizer.encode(pairs[i].source);
    std::vector<std::int32_t> target = target_tokenizer.encode(pairs[i].target);
    watched.one_done();
    if (!count_pair(source, target, limits, counts)) {
      counts.left_out.push_back(static_cast<std::int64_t>(i));
      continue;
    }
    corpus.source.push_back(std::move(source));
    corpus.target.push_back(std::move(target));
  }
  if (report != nullptr) *report = counts;
  SLUICE_CHECK(counts.kept > 0,
               "none of {} is left: of {}, {} were too long and {} had an empty side", name,
               pairs.size(), counts.too_long, counts.empty);
  return corpus;
}

std::vector<ExampleLengths> PairCorpus::lengths() const {
  std::vector<ExampleLengths> lengths(source.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = {std::ssize(source[i]), std::ssize(target[i]) + 1};
  }
  return lengths;
}

std::uint64_t begin_fingerprint(std::int64_t examples) {
  return SplitMix::mix(static_cast<std::uint64_t>(examples) + 1);
}

std::uint64_t absorb_pair(std::uint64_t hash, std::span<const std::int32_t> source,
                          std::span<const std::int32_t> target) {
  return absorb(absorb(hash, source), target);
}

std::uint64_t PairCorpus::fingerprint() const {
  std::uint64_t hash = begin_fingerprint(size());
  for (std::size_t i = 0; i < source.size(); ++i) hash = absorb_pair(hash, source[i], target[i]);
  return hash;
}

void require_split(std::int64_t count, std::int64_t run, std::int64_t every, std::int64_t which) {
  SLUICE_CHECK(count >= 0 && run > 0 && every > 1,
               "holding out runs of examples needs data.hold_out_run of 1 or more and "
               "data.hold_out_every of 2 or more, not {} and {}",
               run, every);
  SLUICE_CHECK(which >= 0 && which <= every,
               "of every {} runs the one to hold out must be in 0..{}, not {}", every, every,
               which);
  const std::int64_t runs = count / run + (count % run == 0 ? 0 : 1);
  SLUICE_CHECK(
      runs >= every,
      "{} make {} of {}, too few to hold out one of every {} runs; use shorter runs or hold "
      "out one of fewer",
      base::counted(count, "example"), base::counted(runs, "run"), run, every);
}

bool is_held_out(std::int64_t index, std::int64_t run, std::int64_t every, std::int64_t which) {
  return (index / run) % every == (which == 0 ? every : which) - 1;
}

IndexSplit split_by_runs(std::int64_t count, std::int64_t run, std::int64_t every,
                         std::int64_t which) {
  require_split(count, run, every, which);
  IndexSplit split;
  for (std::int64_t i = 0; i < count; ++i) {
    (is_held_out(i, run, every, which) ? split.held_out : split.train).push_back(i);
  }
  return split;
}

}  // namespace sluice::data
