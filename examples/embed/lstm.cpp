// What lstm.c does, in C++20. usage: lstm [cpu|cuda:N]
#include <sluice.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

constexpr int kTime = 5, kRows = 3, kInput = 4, kHidden = 8, kGates = 4 * kHidden;

/// Owns what a C function destroys.
template <auto destroy>
struct Destroy {
  void operator()(auto* object) const { destroy(object); }
};
template <typename Object, auto destroy>
using Owned = std::unique_ptr<Object, Destroy<destroy>>;

/// Calls a C function with `arguments` and an error; throws what the error says.
template <typename... Parameters, typename... Arguments>
void call(sluice_status (*function)(Parameters...), Arguments... arguments) {
  sluice_error error = SLUICE_INIT(sluice_error);
  if (function(arguments..., &error) != SLUICE_OK) throw std::runtime_error(error.message);
}

/// What a C function makes from `arguments`: `call` with the place for the result behind them.
template <typename Object, typename... Parameters, typename... Arguments>
Object* make(sluice_status (*function)(Parameters...), Arguments... arguments) {
  Object* object = nullptr;
  call(function, arguments..., &object);
  return object;
}

sluice_recurrent_options options(const int64_t& hidden) {
  auto options = SLUICE_INIT(sluice_recurrent_options);
  options.cell = SLUICE_LSTM;
  options.layers = options.directions = 1;
  options.input = kInput;
  options.hidden = &hidden;
  options.time = kTime;
  options.rows = kRows;
  options.dtype = SLUICE_FLOAT32;
  options.training = 1;
  return options;
}

void run(const char* name) {
  const Owned<sluice_device, sluice_device_close> device(
      make<sluice_device>(sluice_device_open, name));
  const Owned<sluice_stream, sluice_stream_destroy> stream(
      make<sluice_stream>(sluice_stream_create, device.get()));
  const int64_t hidden = kHidden;
  const sluice_recurrent_options chosen = options(hidden);
  const Owned<sluice_recurrent, sluice_recurrent_destroy> plan(
      make<sluice_recurrent>(sluice_recurrent_create, stream.get(), &chosen));

  // Memory of the device, which goes with the process; sluice_device_free gives it back earlier.
  const auto allocate = [&](std::size_t bytes) {
    return static_cast<float*>(make<void>(sluice_device_allocate, device.get(), bytes));
  };
  const auto numbers = [&](int count, int seed) {
    std::vector<float> host;
    for (int i = 0; i < count; ++i) {
      host.push_back(static_cast<float>((i * 37 + seed * 11) % 101) / 100 - 0.5F);
    }
    const std::size_t bytes = host.size() * sizeof(float);
    float* memory = allocate(bytes);
    call(sluice_stream_upload, stream.get(), memory, host.data(), bytes);
    return memory;
  };
  const auto print = [&](const char* what, const float* memory) {
    float v[4];
    call(sluice_stream_download, stream.get(), v, memory, sizeof v);
    std::printf("%-10s %9.6f %9.6f %9.6f %9.6f\n", what, v[0], v[1], v[2], v[3]);
  };

  auto sizes = SLUICE_INIT(sluice_recurrent_sizes);
  call(sluice_recurrent_get_sizes, plan.get(), &sizes);
  const sluice_recurrent_memory memory{sizeof memory, allocate(sizes.packed),
                                       allocate(sizes.workspace), allocate(sizes.reserve)};
  auto weights = SLUICE_INIT(sluice_recurrent_weights);
  weights.weight_ih = numbers(kGates * kInput, 1);
  weights.weight_hh = numbers(kGates * kHidden, 2);
  weights.bias_ih = numbers(kGates, 3);
  call(sluice_recurrent_pack, plan.get(), &weights, 1, &memory);

  float* y = allocate(kTime * kRows * kHidden * sizeof(float));
  auto forward = SLUICE_INIT(sluice_recurrent_forward_args);
  forward.time = kTime;
  forward.rows = kRows;
  forward.x = numbers(kTime * kRows * kInput, 4);
  forward.y = y;
  call(sluice_recurrent_forward, plan.get(), &forward, &memory);
  print("y", y + (kTime * kRows - 1) * kHidden);

  auto gradients = SLUICE_INIT(sluice_recurrent_weights);
  float* dweight_hh = allocate(kGates * kHidden * sizeof(float));
  gradients.weight_hh = dweight_hh;
  float* dx = allocate(kTime * kRows * kInput * sizeof(float));
  auto backward = SLUICE_INIT(sluice_recurrent_backward_args);
  backward.dy = numbers(kTime * kRows * kHidden, 5);
  backward.dx = dx;
  backward.gradients = &gradients;
  call(sluice_recurrent_backward, plan.get(), &forward, &backward, &memory);
  print("dx", dx);
  print("dweight_hh", dweight_hh);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(count > 1 ? arguments[1] : "cpu");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lstm: %s\n", error.what());
    return 1;
  }
}
