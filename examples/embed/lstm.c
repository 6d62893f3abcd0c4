/* An LSTM layer on arrays of your own, forward and backward. usage: lstm [cpu|cuda:N] */
#include <sluice.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIME = 5, ROWS = 3, INPUT = 4, HIDDEN = 8, GATES = 4 * HIDDEN };

static sluice_device* device;
static sluice_stream* stream;
static sluice_error error = {.size = sizeof error};

static void check(sluice_status status) {
  if (status == SLUICE_OK) return;
  fprintf(stderr, "lstm: %s\n", error.message);
  exit(1);
}

/* Memory of the device, which goes with the process; sluice_device_free gives it back earlier. */
static void* allocate(size_t bytes) {
  void* memory = NULL;
  check(sluice_device_allocate(device, bytes, &memory, &error));
  return memory;
}

/* Numbers from -0.5 to 0.5 on the device, others for each seed. */
static float* numbers(int count, int seed) {
  const size_t bytes = count * sizeof(float);
  float *host = malloc(bytes), *memory = allocate(bytes);
  for (int i = 0; i < count; ++i) host[i] = (float)((i * 37 + seed * 11) % 101) / 100 - 0.5f;
  check(sluice_stream_upload(stream, memory, host, bytes, &error));
  free(host);
  return memory;
}

static void print(const char* name, const float* memory) {
  float v[4];
  check(sluice_stream_download(stream, v, memory, sizeof v, &error));
  printf("%-10s %9.6f %9.6f %9.6f %9.6f\n", name, v[0], v[1], v[2], v[3]);
}

int main(int count, char** arguments) {
  check(sluice_device_open(count > 1 ? arguments[1] : "cpu", &device, &error));
  check(sluice_stream_create(device, &stream, &error));

  /* A plan for the largest batch. Members that are not named have their defaults. */
  const int64_t hidden = HIDDEN;
  const sluice_recurrent_options options = {.size = sizeof options,
                                            .cell = SLUICE_LSTM,
                                            .layers = 1,
                                            .directions = 1,
                                            .input = INPUT,
                                            .hidden = &hidden,
                                            .time = TIME,
                                            .rows = ROWS,
                                            .dtype = SLUICE_FLOAT32,
                                            .training = 1};
  sluice_recurrent* plan;
  check(sluice_recurrent_create(stream, &options, &plan, &error));

  /* The plan says how much memory it needs. */
  sluice_recurrent_sizes sizes = SLUICE_INIT(sluice_recurrent_sizes);
  check(sluice_recurrent_get_sizes(plan, &sizes, &error));
  const sluice_recurrent_memory memory = {sizeof memory, allocate(sizes.packed),
                                          allocate(sizes.workspace), allocate(sizes.reserve)};

  /* Weights are in torch's order: gates i, f, g, o. */
  const sluice_recurrent_weights weights = {.size = sizeof weights,
                                            .weight_ih = numbers(GATES * INPUT, 1),
                                            .weight_hh = numbers(GATES * HIDDEN, 2),
                                            .bias_ih = numbers(GATES, 3)};
  check(sluice_recurrent_pack(plan, &weights, 1, &memory, &error));

  float* y = allocate(TIME * ROWS * HIDDEN * sizeof(float));
  const sluice_recurrent_forward_args forward = {.size = sizeof forward,
                                                 .time = TIME,
                                                 .rows = ROWS,
                                                 .x = numbers(TIME * ROWS * INPUT, 4),
                                                 .y = y};
  check(sluice_recurrent_forward(plan, &forward, &memory, &error));
  print("y", y + (TIME * ROWS - 1) * HIDDEN);

  /* From the gradient of y to those of x and of weights. */
  const sluice_recurrent_weights gradients = {
      .size = sizeof gradients, .weight_hh = allocate(GATES * HIDDEN * sizeof(float))};
  float* dx = allocate(TIME * ROWS * INPUT * sizeof(float));
  const sluice_recurrent_backward_args backward = {.size = sizeof backward,
                                                   .dy = numbers(TIME * ROWS * HIDDEN, 5),
                                                   .dx = dx,
                                                   .gradients = &gradients};
  check(sluice_recurrent_backward(plan, &forward, &backward, &memory, &error));
  print("dx", dx);
  print("dweight_hh", gradients.weight_hh);

  sluice_recurrent_destroy(plan);
  sluice_stream_destroy(stream);
  sluice_device_close(device);
  return 0;
}
