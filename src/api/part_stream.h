#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decoding/stream_state.h"
#include "models/sequence_stream.h"

namespace sluice::api {

/// One sequence that comes in parts of any length, through a model that is given them as its
/// source; its state can be saved and gone on with elsewhere. Takes memory with the first part.
class PartStream {
 public:
  /// `stack` is the architecture of the model's, `weights` are its packed ones; all must outlive
  /// this. `whole` is what comes in parts ("a sentence"), and `refusal` why this model's can't, or
  /// nothing.
  PartStream(const runtime::Context& context, const models::Model& model,
             const kernels::recurrent::Descriptor& stack, runtime::PackedWeights& weights,
             std::string whole, std::string refusal)
      : context_(context),
        model_(model),
        stack_(stack),
        weights_(weights),
        whole_(std::move(whole)),
        refusal_(std::move(refusal)) {}

  const std::string& refusal() const { return refusal_; }
  /// Throws ErrorCode::kInvalidArgument with the reason if there is one, as do run, save and load.
  void require_parts() const;

  /// Tokens. Calls `take` with what the model says of them (models::PartPlan), a piece at a time.
  void run(std::span<const std::int32_t> tokens,
           const std::function<void(const runtime::Tensor&)>& take);
  /// Frames of so many numbers.
  void run(std::span<const float> frames, std::int64_t width,
           const std::function<void(const runtime::Tensor&)>& take);
  /// The next part begins a new sequence.
  void begin();

  /// Writes where the sequence stands (decoding::save_sequence), with the answer to all so far, if
  /// there is one.
  void save(const std::string& path, const std::vector<float>& answer = {});
  /// The next part goes on from there. Returns the answer that was saved, of `answers` numbers or
  /// none. Throws as decoding::load_sequence, and ErrorCode::kFormat for a state or an answer that
  /// doesn't fit; then the sequence stands where it did.
  std::vector<float> load(const std::string& path, std::size_t answers = 0);
  /// The same by the bytes of that file.
  std::string bytes(const std::vector<float>& answer = {});
  std::vector<float> set_bytes(std::string_view bytes, std::size_t answers = 0);

 private:
  /// Of the model, whose weights stay as they are: made once.
  const std::string& identity();
  decoding::SequenceState standing(const std::vector<float>& answer);
  /// `load` of what `origin`, for messages, held.
  std::vector<float> go_on(decoding::SequenceState state, const std::string& origin,
                           std::size_t answers);
  template <typename T>
  void run_pieces(std::span<const T> values, std::int64_t width,
                  const std::function<void(const runtime::Tensor&)>& take);
  /// A stream for parts of `time` steps or for as many as one may have, which stands where the one
  /// before did.
  models::SequenceStream& stream_of(std::int64_t time);

  const runtime::Context& context_;
  const models::Model& model_;
  const kernels::recurrent::Descriptor& stack_;
  runtime::PackedWeights& weights_;
  std::string whole_, refusal_, identity_;
  std::optional<models::SequenceStream> stream_;
  runtime::Buffer piece_;  ///< the source at work
};

}  // namespace sluice::api
