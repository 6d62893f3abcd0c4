/* A trained model on features, one frame at a time. usage: model CHECKPOINT [cpu|cuda:N] <frames
 * >answers Frames come as lines of numbers with spaces between; each answer is such a line. */
#include <sluice_models.h>
#include <stdio.h>
#include <stdlib.h>

static sluice_error error = {.size = sizeof error};

static void check(sluice_status status) {
  if (status == SLUICE_OK) return;
  fprintf(stderr, "model: %s\n", error.message);
  exit(1);
}

int main(int count, char** arguments) {
  if (count < 2) {
    fprintf(stderr, "usage: model CHECKPOINT [cpu|cuda:N] <frames >answers\n");
    return 2;
  }
  const sluice_model_options options = {.size = sizeof options,
                                        .device = count > 2 ? arguments[2] : "cpu"};
  sluice_model* model;
  check(sluice_model_load(arguments[1], &options, &model, &error));

  /* Where one sequence stands. Any number of sequences can take turns on a model. */
  sluice_model_state* state;
  check(sluice_model_state_create(model, &state, &error));

  const int64_t features = sluice_model_features(model), outputs = sluice_model_outputs(model);
  float* frame = malloc(features * sizeof(float));
  float* answer = malloc(outputs * sizeof(float));
  int64_t read = 0;
  while (scanf("%f", &frame[read]) == 1) {
    if (++read < features) continue;
    read = 0;
    check(sluice_model_step(state, frame, 1, answer, outputs, &error));
    for (int64_t i = 0; i < outputs; ++i) printf("%g%c", answer[i], i + 1 < outputs ? ' ' : '\n');
  }

  free(answer);
  free(frame);
  sluice_model_state_destroy(state);
  sluice_model_destroy(model);
  return 0;
}
