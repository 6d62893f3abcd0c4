// Which values a configuration may have.
#include "training/key_limits.h"

#include <gtest/gtest.h>

#include <string>

#include "training/config_keys.h"
#include "training/train_config.h"
#include "unit/training/config_errors.h"

namespace sluice::training {
namespace {

// The table of limits is what the reference page shows, so each of them must be checked, and every
// default must be within.
TEST(TrainConfig, EveryLimitIsChecked) {
  for (const KeyLimits& limits : all_limits()) {
    SCOPED_TRACE(limits.name);
    const ConfigKey* key = find_key(limits.name);
    ASSERT_NE(key, nullptr);
    EXPECT_EQ(key->type() == "string", !limits.choices.empty());
    EXPECT_NO_THROW(check_limits(TrainConfig()));
    const auto refuse = [&](const std::string& value, const std::string& said) {
      TrainConfig config;
      apply_override(config, std::string(limits.name) + "=" + value);
      expect_contains(error_of(ErrorCode::kInvalidArgument, [&] { config.validate(); }),
                      std::string(limits.name) + said);
    };
    if (!limits.choices.empty()) {
      refuse("no such thing", " is 'no such thing'; use one of: ");
      continue;
    }
    const std::string allowed = "; it must be " + limits.range();
    if (key->type() == "number") refuse("nan", " is nan" + allowed);
    if (limits.least > -1e30) {
      const auto below = static_cast<std::int64_t>(limits.least) - 1;
      refuse(std::to_string(below), " is " + std::to_string(below) + allowed);
    }
    if (limits.most < 1e30) {
      const auto above = static_cast<std::int64_t>(limits.most) + 1;
      refuse(std::to_string(above), " is " + std::to_string(above) + allowed);
    }
  }
  EXPECT_EQ(find_limits("training.beta1")->range(), "at least 0 and less than 1");
  EXPECT_EQ(find_limits("tokenizer.character_coverage")->range(), "more than 0 and at most 1");
  EXPECT_EQ(find_limits("training.max_steps")->range(), "at least 0 and at most 4294967295");
  EXPECT_EQ(find_limits("training.clip_norm")->range(), "at least 0 and finite");
  EXPECT_EQ(find_limits("training.pool")->range(), "at least 1");
  EXPECT_EQ(find_limits("model.forget_bias")->range(), "at least -100 and at most 100");
  EXPECT_EQ(find_limits("data.tsv"), nullptr);
}

TEST(TrainConfig, RefusesImpossibleValues) {
  TrainConfig().validate();
  const auto refuse = [](std::string_view assignment, std::string_view named) {
    TrainConfig config;
    apply_override(config, assignment);
    const std::string message = error_of(ErrorCode::kInvalidArgument, [&] { config.validate(); });
    expect_contains(message, std::string(named));
  };
  refuse("training.optimizer=adamw", "training.optimizer is 'adamw'; use one of: adam, sgd");
  refuse("training.beta2=1", "training.beta2 is 1");
  refuse("training.learning_rate=-1", "training.learning_rate");
  refuse("training.learning_rate=nan", "training.learning_rate");
  refuse("training.schedule=linear", "constant, plateau, inverse_sqrt, cosine, step");
  refuse("training.schedule=cosine", "training.schedule is cosine, which needs");
  refuse("training.schedule=step", "set training.decay_steps");
  refuse("training.decay_steps=-1", "training.decay_steps is -1");
  refuse("training.decay_factor=1", "training.decay_factor is 1");
  refuse("training.ema_decay=1", "training.ema_decay is 1; it must be at least 0 and less than");
  refuse("training.accumulate=0", "training.accumulate is 0; it must be at least 1");
  refuse("training.label_smoothing=1", "training.label_smoothing");
  refuse("training.max_epochs=0", "would never end");
  refuse("model.hidden=3", "model.hidden");
  TrainConfig rising;
  rising.learning_rate = {.schedule = "cosine", .decay_steps = 10, .min_learning_rate = 0.5};
  expect_contains(error_of(ErrorCode::kInvalidArgument, [&] { rising.validate(); }),
                  "training.min_learning_rate is 0.5");
  refuse("model.cell=rnn", "model.cell is 'rnn'");
  refuse("model.initializer=xavier",
         "model.initializer is 'xavier'; use one of: uniform, xavier_uniform, xavier_normal, "
         "orthogonal");
  refuse("model.recurrent_initializer=glorot", "model.recurrent_initializer is 'glorot'");
  TrainConfig forgetful;
  forgetful.model.cell = "gru";
  forgetful.initial.forget_bias = 1;
  expect_contains(error_of(ErrorCode::kInvalidArgument, [&] { forgetful.validate(); }),
                  "model.forget_bias is 1, but only an lstm has a forget gate");
  refuse("model.gate_bias=f", "model.gate_bias has 'f'; write GATE=NUMBER");
  refuse("model.gate_bias=f=1x", "model.gate_bias has 'f=1x'");
  refuse("model.gate_bias=f=inf", "model.gate_bias has 'f=inf'");
  refuse("model.gate_bias=f=nan", "model.gate_bias has 'f=nan'");
  refuse("model.gate_bias=i=1, f=1e30", "'f=1e30'; its numbers must be at least -100 and at most");
  refuse("model.gate_bias=f=-100.5", "model.gate_bias has 'f=-100.5'; its numbers must be at");
  refuse("model.forget_bias=1e30",
         "model.forget_bias is 1e+30; it must be at least -100 and at most 100");
  refuse("model.forget_bias=nan", "model.forget_bias is nan");
  refuse("model.gate_bias=f=1,,i=1", "model.gate_bias has ''");
  refuse("model.gate_bias=f=1,", "model.gate_bias has ''");
  refuse("model.gate_bias=,f=1", "model.gate_bias has ''");
  refuse("model.gate_bias=f=1, f=2", "model.gate_bias has the gate f twice");
  refuse("model.gate_bias=z=1", "model.gate_bias has 'z=1', but the gates of lstm are i, f, g, o");
  TrainConfig gated;
  gated.initial.gate_bias = "f=1";
  gated.initial.forget_bias = 2;
  expect_contains(error_of(ErrorCode::kInvalidArgument, [&] { gated.validate(); }), "set one");
  gated.initial.forget_bias = 0;
  gated.model.cell = "rnn_tanh";
  expect_contains(error_of(ErrorCode::kInvalidArgument, [&] { gated.validate(); }),
                  "rnn_tanh has no gates");
  gated.model.cell = "gru_reset_before";
  for (const char* most : {" z = 2 , r=-1", "z=100,r=-100"}) {
    gated.initial.gate_bias = most;
    EXPECT_NO_THROW(gated.validate()) << most;
  }
  refuse("tokenizer.kind=letters", "tokenizer.kind");
  refuse("training.keep_best=f1",
         "training.keep_best is 'f1'; use one of: loss, perplexity, accuracy, exact_match, bleu, "
         "chrf");
  refuse("model.kind=tree", "model.kind is 'tree'; use one of: seq2seq");
  refuse("training.bleu_tokenizer=intl",
         "training.bleu_tokenizer is 'intl'; use one of: 13a, zh, char, none");
}

TEST(TrainConfig, ScheduledSamplingWantsItsStepsAndAModelThatPredictsTokens) {
  TrainConfig config;
  config.sampling.draw = true;
  expect_contains(error_of(ErrorCode::kInvalidArgument, [&] { config.validate(); }),
                  "training.sampling_draw is true, but training.scheduled_sampling is none");
  config.sampling.schedule = "linear";
  expect_contains(error_of(ErrorCode::kInvalidArgument, [&] { config.validate(); }),
                  "training.scheduled_sampling is linear, which needs to know over how many steps: "
                  "set training.sampling_steps");
  config.sampling.steps = 10;
  EXPECT_NO_THROW(config.validate());
  config.model.kind = "language_model";
  EXPECT_NO_THROW(config.validate());
  config.model.kind = "tagger";
  expect_contains(error_of(ErrorCode::kInvalidArgument, [&] { config.validate(); }),
                  "training.scheduled_sampling");
  config.model.kind = "seq2seq";
  config.sampling.schedule = "sigmoid";
  expect_contains(error_of(ErrorCode::kInvalidArgument, [&] { config.validate(); }),
                  "use one of: none, linear, exponential, inverse_sigmoid");
}

}  // namespace
}  // namespace sluice::training
