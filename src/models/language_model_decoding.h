#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/language_model.h"
#include "models/step_model.h"
#include "runtime/arena.h"

namespace sluice::models {

/// Steps a language model over any rows. An input is what a row goes on from: start states and a
/// prompt.
class LanguageModelDecoding final : public StepModel {
 public:
  struct Capacity {
    std::int64_t inputs = 0;
    std::int64_t rows = 0;         ///< that are stepped, e.g. inputs x beams
    std::int64_t prompt_time = 0;  ///< most tokens of a prompt, bos counted
  };

  /// Where inputs start. States are those given, else made of the features, else zero.
  struct Inputs {
    std::int64_t count = 0;
    Tensor features;         ///< float32 [count, config().features]; of a model with features
    RecurrentStates states;  ///< h_shape(count) and c_shape(count): as state() gave them
    /// Tokens of each input to go on from, bos first; empty: the search's own, bos, is all.
    std::span<const std::vector<std::int32_t>> prompts;
  };

  /// Owns its memory; weights are packed once, now, so the parameters must not change while it
  /// lives.
  LanguageModelDecoding(const Context& context, const LanguageModel& model,
                        const Capacity& capacity);
  /// The same with the memory that `planner` books, which must lie in `arena` whenever it is used
  /// (runtime::PlanStore). To be packed before each use.
  LanguageModelDecoding(const Context& context, const LanguageModel& model,
                        const Capacity& capacity, runtime::ArenaPlanner& planner,
                        const runtime::Arena& arena);
  /// Packs the weights that aren't packed yet.
  void pack(const Context& context);
  /// Bytes that it takes of the device.
  static std::size_t bytes(const Context& context, const LanguageModel& model,
                           const Capacity& capacity);
  ~LanguageModelDecoding() override;

  /// Reads the prompts, all but their last tokens, in one run of the stack. To be called before
  /// `start`. Throws ErrorCode::kInvalidArgument for inputs beyond the capacity, or that lack
  /// features which the model needs.
  void encode(const Context& context, const Inputs& inputs);

  std::int64_t vocabulary() const override;
  std::int64_t max_rows() const override;
  /// 0: nothing is attended to, so `step` takes no attention.
  std::int64_t source_time() const override { return 0; }
  void start(const Context& context, const Tensor& input_of_row, std::int64_t rows) override;
  /// If there are prompts, the first step feeds each row the last token of its input's prompt in
  /// place of the one given (a search's bos): the logits are of what comes after the prompt.
  void step(const Context& context, const Tensor& tokens, const Tensor& logits,
            const Tensor& attention) override;
  void reorder(const Context& context, const Tensor& parents) override;
  void step_from(const Context& context, const Tensor& parents, const Tensor& tokens,
                 const Tensor& logits, const Tensor& attention) override;
  std::optional<runtime::GraphKey> steps_key() const override;
  /// "h" and, if the cell has one, "c".
  std::vector<StateTensor> state() const override;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace sluice::models
