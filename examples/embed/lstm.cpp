// An LSTM layer on arrays of your own, forward and backward. usage: lstm [cpu|cuda:N]
#include <sluice/recurrent.h>

#include <cstdio>
#include <vector>

namespace {

constexpr std::int64_t kTime = 5, kRows = 3, kInput = 4, kHidden = 8, kGates = 4 * kHidden;

/// Numbers from -0.5 to 0.5, others for each seed.
std::vector<float> numbers(std::int64_t count, int seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] =
        static_cast<float>((i * 37 + seed * 11) % 101) / 100 - 0.5f;
  }
  return values;
}

void print(const char* name, const std::vector<float>& values, std::size_t first = 0) {
  std::printf("%-10s", name);
  for (std::size_t i = first; i < first + 4; ++i) std::printf(" %9.6f", values[i]);
  std::printf("\n");
}

void run(const char* name) {
  const sluice::Device device(name);
  const sluice::Stream stream(device);
  const auto put = [&](std::int64_t count, int seed) {
    return sluice::DeviceMemory(device, stream, numbers(count, seed));
  };

  // A plan for the largest batch. Members that are not named have their defaults.
  const std::int64_t hidden = kHidden;
  auto options = SLUICE_INIT(sluice_recurrent_options);
  options.cell = SLUICE_LSTM;
  options.layers = options.directions = 1;
  options.input = kInput;
  options.hidden = &hidden;
  options.time = kTime;
  options.rows = kRows;
  options.dtype = SLUICE_FLOAT32;
  options.training = 1;
  const sluice::RecurrentPlan plan(stream, options);
  const sluice::PlanMemory memory(device, plan.sizes());

  // Weights are in torch's order: gates i, f, g, o.
  const auto weight_ih = put(kGates * kInput, 1), weight_hh = put(kGates * kHidden, 2),
             bias_ih = put(kGates, 3), x = put(kTime * kRows * kInput, 4),
             dy = put(kTime * kRows * kHidden, 5);
  auto weights = SLUICE_INIT(sluice_recurrent_weights);
  weights.weight_ih = weight_ih.get();
  weights.weight_hh = weight_hh.get();
  weights.bias_ih = bias_ih.get();
  plan.pack({&weights, 1}, memory.get());

  const sluice::DeviceMemory y(device, dy.bytes());
  auto forward = SLUICE_INIT(sluice_recurrent_forward_args);
  forward.time = kTime;
  forward.rows = kRows;
  forward.x = x.get();
  forward.y = y.get();
  plan.forward(forward, memory.get());
  print("y", y.download<float>(stream), (kTime * kRows - 1) * kHidden);

  // From the gradient of y to those of x and of weights.
  const sluice::DeviceMemory dx(device, x.bytes()), gradient(device, weight_hh.bytes());
  auto gradients = SLUICE_INIT(sluice_recurrent_weights);
  gradients.weight_hh = gradient.get();
  auto backward = SLUICE_INIT(sluice_recurrent_backward_args);
  backward.dy = dy.get();
  backward.dx = dx.get();
  backward.gradients = &gradients;
  plan.backward(forward, backward, memory.get());
  print("dx", dx.download<float>(stream));
  print("dweight_hh", gradient.download<float>(stream));
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(count > 1 ? arguments[1] : "cpu");
  } catch (const sluice::Error& error) {
    std::fprintf(stderr, "lstm: %s\n", error.what());
    return 1;
  }
}
