#pragma once

#include "api/answer_search.h"
#include "api/kept_plans.h"
#include "api/tokenize.h"
#include "data/length_buckets.h"
#include "model_files/loaded_model.h"
#include "models/seq2seq.h"

namespace sluice::api {

/// Answers the inputs of one call of SequenceModel::decode, longest first in batches.
class SequenceDecoder {
 public:
  /// All must outlive it.
  SequenceDecoder(const runtime::Context& context, const model_files::LoadedModel& loaded,
                  KeptPlans& kept, const DecodeOptions& options);

  std::vector<Decoded> decode(std::span<const std::string> inputs);

 private:
  /// Of the inputs that aren't empty: the answer to sources[i] goes to results[place[i]].
  struct Work {
    TokenIds sources, prefixes;
    std::vector<decoding::TokenSequences> forced;
    std::vector<std::int64_t> lengths;
    std::vector<std::size_t> place;
    std::vector<Decoded> results;
  };

  struct Plan;

  Work work_of(std::span<const std::string> inputs) const;
  /// Token phrases that answers of input `i` must hold.
  decoding::TokenSequences forced_of(std::size_t i, const std::vector<std::int32_t>& source,
                                     const std::vector<std::int32_t>& prefix) const;
  void decode(const data::LengthBucket& bucket, Work& work);
  void decode(const data::BatchRows& rows, Plan& plan, Work& work);
  Plan& plan_for(const decoding::SearchCapacity& capacity);
  /// What is planned to decode so many rows of a bucket at once.
  static decoding::SearchCapacity capacity_for(std::int64_t rows, const data::LengthBucket& bucket,
                                               const Work& work);
  /// Bytes of the device that decoding takes with this many rows of a bucket at once.
  std::size_t bytes(std::int64_t rows, const data::LengthBucket& bucket, const Work& work) const;
  /// Says why a bucket doesn't fit and, if that is known, how many of its rows would.
  [[noreturn]] void refuse(const data::LengthBucket& bucket, const Work& work,
                           const Error& error) const;

  const runtime::Context& context_;
  const model_files::LoadedModel& loaded_;
  const models::Seq2Seq& model_;
  KeptPlans& kept_;
  const DecodeOptions& options_;
  std::int64_t batch_;
  decoding::Constraints constraints_;
  AnswerOptions answers_;
  std::int64_t batches_ = 0;  ///< over all buckets
};

}  // namespace sluice::api
