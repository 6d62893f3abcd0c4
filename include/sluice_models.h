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
  int without_replacement;   /* of draws: not 0: none is drawn twice; without top_k, top_p */
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

/* ---- Beam search from states
 * -------------------------------------------------------------------------------------------------
 */

typedef struct sluice_beam sluice_beam;

/* Sizes of a language model's states: layers, the width of h, and the width of c, which is 0 of
 * cells without one. */
sluice_status sluice_model_state_shape(sluice_model* model, int64_t shape[3], sluice_error* error);

/* Where a search begins: a row for each input, or with `every_beam` one for each beam of each
 * input, where row i * beam + b is beam b of input i. */
typedef struct sluice_beam_start {
  size_t size;
  int64_t inputs; /* inputs * beam is at most 2^24 */
  int every_beam;
  const float* h;        /* [layers, rows, width]; NULL: zero */
  const float* c;        /* [layers, rows, hidden]; NULL: zero */
  const int32_t* tokens; /* [rows]: what each is fed first; NULL: the start mark */
  const double* scores;  /* [rows]: log p so far, minus infinity for no sequence; NULL: 0 */
  int states_on_device;  /* whether h and c lie in memory of the model's GPU, ready to be read */
} sluice_beam_start;

typedef struct sluice_beam_options {
  size_t size;
  int64_t steps; /* most tokens to add, up to 2^20 */
  int64_t beam;  /* sequences kept of each input, up to 4096; 0: 5 */
  int64_t nbest; /* finished ones kept of each input, at most `beam`; 0: `beam` */
  int64_t min_length;
  double length_penalty;  /* finished ones compete by score / ((5 + length) / 6)^penalty */
  int allow_unknown;      /* whether the unknown token may be chosen */
  const uint8_t* allowed; /* [mask_steps, mask_inputs, vocabulary]: not 0 where a token may be
                             chosen; NULL: all may */
  int64_t mask_steps;     /* 1 or `steps`; 0: 1 */
  int64_t mask_inputs;    /* 1 or the number of inputs; 0: 1 */
} sluice_beam_options;

/* Beam search of a language model that takes a number of steps and keeps what each of them chose.
 * Results stay on the device until they are asked for. */
sluice_status sluice_model_beam(sluice_model* model, const sluice_beam_start* start,
                                const sluice_beam_options* options, sluice_beam** beam,
                                sluice_error* error);
/* Before its model. */
void sluice_beam_destroy(sluice_beam* beam);
/* Steps that were taken: fewer than asked for if no sequence could get any better. */
int64_t sluice_beam_steps(const sluice_beam* beam);
/* Arrays [steps, inputs, beam] of `count` numbers: the token that each row took, the row of the
 * step before that it goes on from, and its log p. NULL leaves one out. Where there is no sequence,
 * tokens are 0 and scores minus infinity. */
sluice_status sluice_beam_choices(const sluice_beam* beam, int32_t* tokens, int32_t* parents,
                                  double* scores, int64_t count, sluice_error* error);
/* The same three in memory of the model's device, ready to be read, valid as long as the beam. */
sluice_status sluice_beam_device_choices(const sluice_beam* beam, const int32_t** tokens,
                                         const int32_t** parents, const double** scores,
                                         sluice_error* error);
/* Where the rows of the last step stand, to go on from with `every_beam`: h [layers, inputs * beam,
 * width], c (NULL of cells without) and the tokens to be fed. */
sluice_status sluice_beam_states(const sluice_beam* beam, float* h, int64_t h_count, float* c,
                                 int64_t c_count, int32_t* tokens, int64_t tokens_count,
                                 sluice_error* error);

/* A sequence that ended. Pointers are valid as long as the beam. */
typedef struct sluice_finished {
  size_t size;
  const int32_t* tokens; /* that the search added, without the end mark */
  int64_t length;
  const char* text;
  double score; /* log p, the start's score and the end mark counted */
  double normalised_score;
  int64_t row; /* of the start, that it goes on from */
} sluice_finished;

/* Sequences of an input that ended; -1 if there is no such input or they can't be fetched. */
int64_t sluice_beam_finished_count(sluice_beam* beam, int64_t input);
/* The one of that rank, 0 for the best. */
sluice_status sluice_beam_finished(sluice_beam* beam, int64_t input, int64_t rank,
                                   sluice_finished* finished, sluice_error* error);

#ifdef __cplusplus
}
#endif

#endif
