#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/watch.h"
#include "model_files/tokenizers.h"
#include "training/example_sample.h"
#include "training/example_store.h"
#include "training/preparing.h"
#include "training/train_config.h"

namespace sluice::training {

using model_files::Tokenizers;

/// Whether this one of the examples to train on is held out to validate on.
bool is_held_out(const DataConfig& data, std::int64_t index);
/// data::require_split(), if any are held out.
void require_split_of(const DataConfig& data, std::int64_t count);

/// Refuses standard input, which can't be read twice.
void require_files(const std::vector<std::string>& paths);

/// What of the examples of a stream is needed in memory.
template <typename Example>
struct FirstReading {
  std::vector<Example> sample;    ///< of those to train on, for vocabularies
  std::vector<Example> held_out;  ///< to validate on
};

/// Reads all that next() gives (nothing at the end), if anything of it is wanted: those that are
/// held out, with `wants_sample` some of the others, at most data.stream_vocabulary_lines, and with
/// it see(example) for each of all.
template <typename Example, typename MakeReader, typename See>
FirstReading<Example> read_first(const TrainConfig& config, bool wants_sample,
                                 const std::string& path, const MakeReader& make_reader,
                                 const base::Watch& watch, const See& see) {
  FirstReading<Example> result;
  if (!wants_sample && !holds_out(config.data)) return result;
  require_files({path});
  tell_reading(watch, path);
  ExampleSample<Example> sample(config.data.stream_vocabulary_lines,
                                static_cast<std::uint64_t>(config.loop.seed));
  auto reader = make_reader();
  std::int64_t count = 0;
  for (; std::optional<Example> example = reader.next(); ++count) {
    if (wants_sample) see(*example);
    if (is_held_out(config.data, count)) {
      result.held_out.push_back(*std::move(example));
    } else if (wants_sample) {
      sample.add(*std::move(example));
    }
  }
  require_split_of(config.data, count);
  result.sample = sample.take();
  return result;
}

/// Examples that are in memory together while they become ids.
constexpr std::int64_t kChunk = 16384;

/// Calls write(chunk) with those of reader.next() that are not held out, some at a time, and tells
/// `watch` now and then. Returns how many examples there are, with those held out.
template <typename Example, typename Reader, typename Write>
std::int64_t for_each_chunk(const DataConfig& data, Reader reader, const base::Watch& watch,
                            const Write& write) {
  std::vector<Example> chunk;
  std::int64_t index = 0;
  for (; std::optional<Example> example = reader.next(); ++index) {
    if (is_held_out(data, index)) continue;
    if (watch && index % kChunk == 0 && index > 0) {
      watch("token ids of the training examples", base::kNobodyKnows);
    }
    chunk.push_back(*std::move(example));
    if (std::ssize(chunk) < kChunk) continue;
    write(chunk);
    chunk.clear();
  }
  write(chunk);
  return index;
}

/// Writes all examples to train on and counts them; returns how many were read.
using FillStore = std::function<std::int64_t(ExampleStoreWriter&, data::CorpusReport&)>;

/// The store in `<output.directory>/prepared/`, filled if there is none that was made from `files`
/// (a folder stands for its .npy files) as they are, these settings and vocabularies. Throws
/// ErrorCode::kInvalidArgument if no example is left, kIo for what the disk refuses, and as `fill`.
std::shared_ptr<const ExampleStore> prepared_store(const TrainConfig& config,
                                                   const Tokenizers& tokenizers,
                                                   const std::vector<std::string>& files,
                                                   const FillStore& fill);

}  // namespace sluice::training
