#include "unit/training/reversal_task.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <string_view>

#include "data/shuffle.h"
#include "io/checkpoint.h"
#include "runtime/device.h"

namespace sluice::training {

TextData reversal_text(std::uint64_t seed, int examples) {
  data::SplitMix random(seed);
  TextData text;
  for (int i = 0; i < examples; ++i) {
    data::TextPair pair;
    const std::uint64_t length = 1 + random.below(4);
    for (std::uint64_t k = 0; k < length; ++k) {
      pair.source += static_cast<char>('0' + random.below(6));
    }
    pair.target.assign(pair.source.rbegin(), pair.source.rend());
    (i % 5 == 0 ? text.validation : text.train).push_back(pair);
  }
  return text;
}

TrainConfig reversal_config(const std::filesystem::path& output) {
  TrainConfig config;
  config.tokenizer.kind = "characters";
  config.model.embedding = 12;
  config.model.hidden = 16;
  config.model.dropout = 0.1;
  config.learning_rate.learning_rate = 6e-2;  // so high that validation stalls now and then
  config.learning_rate.schedule = "plateau";
  config.learning_rate.plateau_patience = 1;
  config.learning_rate.warmup_steps = 4;
  config.loop.max_tokens = 200;
  config.loop.pool = 64;
  config.loop.max_epochs = 0;
  config.loop.max_steps = 21;  // ends with a validation off the schedule
  config.loop.validate_every = 2;
  config.loop.checkpoint_every = 1;
  config.loop.label_smoothing = 0.1;
  config.output.directory = output.native();
  config.output.log_every = 2;
  config.threads = 1;
  return config;
}

Seq2SeqData reversal_pairs(const TrainConfig& config, std::uint64_t seed) {
  return make_seq2seq_data(config, reversal_text(seed));
}

TrainData reversal_data(const TrainConfig& config, std::uint64_t seed) {
  return make_train_data(config, reversal_text(seed));
}

Outcome outcome_of(const std::filesystem::path& output, bool with_best) {
  Outcome outcome;
  const io::Container last = io::read_model(output / "last");
  const io::Container best = with_best ? io::read_model(output / "best") : io::Container();
  const io::Container state = io::read_state(output / "last");
  for (const io::Container* container : {&last, &best, &state}) {
    for (const auto& [name, tensor] : container->tensors) {
      outcome.tensor_names.push_back(name);
      outcome.tensors.push_back(tensor.data);
    }
  }
  outcome.state = state.text;
  return outcome;
}

int spawn_training(const std::filesystem::path& output, const std::string& device,
                   const DeathInWriting& death) {
  const std::string steps = std::to_string(death.after_steps);
  const std::string bytes = std::to_string(death.bytes);
  const int child = ::fork();
  if (child != 0) return child;
  // Nothing but exec: the parent may have threads.
  ::execl("/proc/self/exe", "training_test", "--train", output.c_str(), device.c_str(),
          steps.c_str(), bytes.c_str(), nullptr);
  ::_exit(127);
}

namespace {

// The kernel signals a process that writes beyond the limit, once the file has so many bytes.
void die_at_file_size(std::int64_t bytes) {
  ::signal(SIGXFSZ, [](int) { ::kill(::getpid(), SIGKILL); });
  const rlimit limit{static_cast<rlim_t>(bytes), RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

int train(const char* output, const char* device_name, const DeathInWriting& death) {
  const auto device = runtime::open_device(device_name);
  const Context context(*device);
  const TrainConfig config = reversal_config(output);
  Trainer trainer(context, config, reversal_data(config), Start::kResume);
  TrainHooks hooks;
  std::int64_t steps = 0;
  hooks.on_step = [&](const StepReport&) {
    // A step is told of before the checkpoint after it is written.
    if (++steps == death.after_steps) die_at_file_size(death.bytes);
  };
  trainer.run(hooks);
  return 0;
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::optional<int> run_spawned_training(int count, char** arguments) {
  if (count != 6 || std::string_view(arguments[1]) != "--train") return std::nullopt;
  try {
    return train(arguments[2], arguments[3], {number(arguments[4]), number(arguments[5])});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "training failed: %s\n", error.what());
    return 1;
  }
}

}  // namespace sluice::training
