/* Trained models from C: load a checkpoint, give it sequences or texts, whole or in parts. In
 * libsluice_core.so; the rules of sluice.h hold. docs/embedding.md shows a program. C++ has more:
 * sluice/feature_model.h and its neighbours. */
#ifndef SLUICE_MODELS_H
#define SLUICE_MODELS_H

#include <sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sluice_model sluice_model;
typedef struct sluice_model_state sluice_model_state;

typedef struct sluice_model_options {
  size_t size;
  const char* device;    /* "cpu", "cuda" or "cuda:N"; NULL: "cpu" */
  const char* precision; /* as `sluice run --precision`; NULL: "auto" */
} sluice_model_options;

/* Opens a checkpoint folder, its model.safetensors or the folder of a training run, of any kind.
 * `options` may be NULL. */
sluice_status sluice_model_load(const char* path, const sluice_model_options* options,
                                sluice_model** model, sluice_error* error);
/* After its states. */
void sluice_model_destroy(sluice_model* model);
/* "features", "seq2seq", "language_model", "tagger" or "classifier"; valid as long as the model. */
const char* sluice_model_kind(const sluice_model* model);

/* ---- Models on features
 * ---------------------------------------------------------------------------------------------- */

/* Numbers of a frame and of an answer; 0 of other kinds. */
int64_t sluice_model_features(const sluice_model* model);
int64_t sluice_model_outputs(const sluice_model* model);
/* Whether each frame has an answer; else a whole sequence has one. */
int sluice_model_answers_each_frame(const sluice_model* model);

/* A whole sequence: frames [time, features] on the host, answers [time, outputs], or [outputs] if
 * the model answers whole sequences. `answers_count` is the number of floats that `answers` has
 * room for. */
sluice_status sluice_model_run(sluice_model* model, const float* frames, int64_t time,
                               float* answers, int64_t answers_count, sluice_error* error);

/* ---- Sequences in parts
 * ---------------------------------------------------------------------------------------------- */

/* Where one sequence stands: at its beginning. A model takes turns with any number of states; the
 * one that came last is kept in place, so going on with it costs nothing. SLUICE_INVALID_ARGUMENT
 * says why a model can't take parts. */
sluice_status sluice_model_state_create(sluice_model* model, sluice_model_state** state,
                                        sluice_error* error);
void sluice_model_state_destroy(sluice_model_state* state);
/* Back to the beginning. */
sluice_status sluice_model_state_reset(sluice_model_state* state, sluice_error* error);
/* Files, for this model on any device to go on from. */
sluice_status sluice_model_state_save(sluice_model_state* state, const char* path,
                                      sluice_error* error);
sluice_status sluice_model_state_load(sluice_model_state* state, const char* path,
                                      sluice_error* error);

/* The next `time` frames of the sequence, of a model on features: sizes as in sluice_model_run.
 * What all parts give together is what the whole sequence would. On the CPU it takes no memory once
 * a part as long has been given. */
sluice_status sluice_model_step(sluice_model_state* state, const float* frames, int64_t time,
                                float* answers, int64_t answers_count, sluice_error* error);

/* ---- Models on texts
 * -------------------------------------------------------------------------------------------------
 */

typedef struct sluice_text_options {
  size_t size;
  int64_t beam;  /* seq2seq: beam of the search; language model: search with it instead of drawing.
                    0: default */
  int64_t nbest; /* hypotheses given for an input; 0: 1 */
  int64_t max_length; /* tokens of an answer; 0: 256 */
  int sample; /* seq2seq: not 0: draw answers. A language model draws unless `beam` is set */
  double temperature;        /* of drawing; 0: 1 */
  int64_t top_k;             /* 0: all tokens */
  double top_p;              /* 0: 1 */
  uint64_t seed;             /* 0: 1 */
  int without_replacement;   /* not 0: no answer is drawn twice; without top_k and top_p */
  const char* const* banned; /* UTF-8: words and phrases that no answer holds */
  int64_t banned_count;
  const char* const* forced; /* of a search: those that every answer holds, up to 64 */
  int64_t forced_count;
  int64_t no_repeat;       /* no answer holds so many tokens in a row twice; 0: it may */
  double coverage_penalty; /* seq2seq: of the search; 0: none */
  int64_t groups;          /* of a search's beams, which they share evenly; 0: 1 */
  double diversity;        /* between groups; 0: 0.5 */
} sluice_text_options;

/* One input (UTF-8), one line of JSON as the program prints it with --json: `decode` for seq2seq,
 * `tag` (tokens with spaces between), `classify`, and `generate` for a language model, whose input
 * is what texts begin with. `options` may be NULL. The line is given back by sluice_text_free. */
sluice_status sluice_model_text(sluice_model* model, const char* input,
                                const sluice_text_options* options, char** json,
                                sluice_error* error);
void sluice_text_free(char* text);

#ifdef __cplusplus
}
#endif

#endif
