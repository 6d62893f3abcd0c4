/* Recurrent layers on your own tensors: LSTM, GRU and plain RNN stacks, forward and backward, on
 * the CPU and on NVIDIA GPUs, from C99 and everything that calls C. docs/embedding.md shows a
 * program. A C++ face is in sluice/recurrent.h.
 *
 * Order of calls: open a device, get a stream, make a plan for the largest batch, ask it for the
 * sizes of its three memories, take them wherever you like, pack the weights, run. Runs allocate
 * nothing and only queue work; they can be captured in a CUDA graph from the second run of an
 * extent on.
 *
 * Rules for all functions:
 *  - They return SLUICE_OK or what went wrong. `error` gets one sentence and may be NULL. Nothing
 * throws or aborts.
 *  - A struct begins with its own size, set by the caller: SLUICE_INIT(struct_name) clears the
 * rest. Members that stay 0 have their defaults. Programs compiled with an older, shorter struct
 * go on running.
 *  - Objects belong to one thread at a time. Different streams, and the plans used with them, may
 * run at the same time.
 *  - The caller's current GPU (cudaSetDevice) is left as it was. */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_VERSION_MAJOR 0
#define SLUICE_VERSION_MINOR 1

/* A struct whose `size` is set and whose other members are zero. (In C++ a list of fewer values
 * than members is a warning of -Wextra.) */
#ifdef __cplusplus
#define SLUICE_INIT(type)                  \
  [] {                                     \
    type sluice_init_value = type();       \
    sluice_init_value.size = sizeof(type); \
    return sluice_init_value;              \
  }()
#else
#define SLUICE_INIT(type) \
  (type) { .size = sizeof(type) }
#endif

typedef enum sluice_status {
  SLUICE_OK = 0,
  SLUICE_INVALID_ARGUMENT = 1, /* a value, shape or pointer that the call cannot accept */
  SLUICE_NOT_FOUND = 2,        /* a file that is not there */
  SLUICE_IO = 3,               /* the operating system refused to read or write */
  SLUICE_FORMAT = 4,           /* a file is damaged or of a newer revision */
  SLUICE_UNSUPPORTED = 5,      /* valid, but nothing here can do it */
  SLUICE_OUT_OF_MEMORY = 6,    /* the process stays usable */
  SLUICE_DEVICE = 7,           /* a device, driver or library is missing or failed */
  SLUICE_NUMERIC = 8,          /* NaN or infinity where numbers are needed */
  SLUICE_INTERNAL = 9,         /* a bug of Sluice */
  SLUICE_DEVICE_LOST = 10      /* the GPU failed for good: restart the process */
} sluice_status;

typedef struct sluice_error {
  size_t size;
  sluice_status status;
  char message[1000]; /* one sentence, ends with a zero; cut off if it is longer */
} sluice_error;

/* "0.1.0". */
const char* sluice_version(void);

typedef enum sluice_dtype {
  SLUICE_FLOAT64 = 1,
  SLUICE_FLOAT32 = 2,
  SLUICE_BFLOAT16 = 3,
  SLUICE_FLOAT16 = 4
} sluice_dtype;

/* ---- Devices and streams
 * -------------------------------------------------------------------------------------------- */

typedef struct sluice_device sluice_device;
typedef struct sluice_stream sluice_stream;

/* "cpu", "cuda" or "cuda:N". SLUICE_DEVICE says why there is none. */
sluice_status sluice_device_open(const char* name, sluice_device** device, sluice_error* error);
/* After its streams and plans. NULL is allowed, here and in all functions that destroy. */
void sluice_device_close(sluice_device* device);

/* Memory of the device for callers that have no allocator of their own, aligned to 64 bytes; on a
 * GPU to 256. */
sluice_status sluice_device_allocate(sluice_device* device, size_t bytes, void** memory,
                                     sluice_error* error);
void sluice_device_free(sluice_device* device, void* memory, size_t bytes);

/* Where a wrapped stream takes its scratch memory: 32 MiB for itself and for each stream that it
 * forks work to. */
typedef struct sluice_allocator {
  size_t size;
  void* user; /* passed to both */
  void* (*allocate)(void* user,
                    size_t bytes); /* device memory aligned to 256 bytes; NULL: none is left */
  void (*release)(void* user, void* memory, size_t bytes);
} sluice_allocator;

/* A stream of its own: of the CPU one that does its work before a call returns. */
sluice_status sluice_stream_create(sluice_device* device, sluice_stream** stream,
                                   sluice_error* error);
/* Queues on a CUDA stream of the caller's (a cudaStream_t; NULL is CUDA's default stream), which
 * must outlive it. It has its own streams to fork to, events and scratch memory; nothing is shared
 * with other streams. `allocator` may be NULL: then cudaMalloc. The first plan for the stream takes
 * all it needs, so later runs can be captured. */
sluice_status sluice_stream_wrap(sluice_device* device, void* cuda_stream,
                                 const sluice_allocator* allocator, sluice_stream** stream,
                                 sluice_error* error);
void sluice_stream_destroy(sluice_stream* stream);
/* Waits until all that was queued is done. */
sluice_status sluice_stream_synchronize(sluice_stream* stream, sluice_error* error);
/* Copies between host and device, either way. Waits. */
sluice_status sluice_stream_upload(sluice_stream* stream, void* device_memory, const void* host,
                                   size_t bytes, sluice_error* error);
sluice_status sluice_stream_download(sluice_stream* stream, void* host, const void* device_memory,
                                     size_t bytes, sluice_error* error);

/* ---- Recurrent stacks
 * -----------------------------------------------------------------------------------------------
 */

typedef enum sluice_cell {
  SLUICE_LSTM = 1,
  SLUICE_GRU = 2,              /* resets after the product, as torch, cuDNN and Keras by default */
  SLUICE_GRU_RESET_BEFORE = 3, /* Keras with reset_after=False */
  SLUICE_RNN_TANH = 4,
  SLUICE_RNN_RELU = 5
} sluice_cell;

/* What a plan is made for. Equations and gate order: docs/equations.md (i, f, g, o and r, z, n, as
 * torch).
 * Weights and cell states whose dtype is 0 are float32, or float64 where `dtype` is. */
typedef struct sluice_recurrent_options {
  size_t size;
  int32_t cell; /* sluice_cell */
  int64_t layers;
  int64_t directions;        /* 1, or 2: forward and backward, outputs side by side */
  int64_t input;             /* features of x */
  const int64_t* hidden;     /* [layers]: units of each layer */
  const int64_t* projection; /* [layers]: projected width of each layer, LSTM only; NULL: none */
  int64_t time, rows;        /* the largest number of time steps and rows; a run may have fewer */
  int32_t dtype;             /* sluice_dtype of x, y, h0, hn and their gradients */
  int32_t weight_dtype;      /* the same of weights and their gradients; 0: see above */
  int32_t cell_dtype;        /* the same of c0, cn and their gradients; 0: see above */
  int tf32;                  /* not 0: products of float32 may round their factors to TF32 */
  int training;              /* not 0: backward will be called */
  int strided;      /* not 0: x, y, dy and dx may have strides other than [time, rows, features] */
  double dropout;   /* rate between layers, when training */
  int resets;       /* not 0: runs may be given resets */
  int peepholes;    /* LSTM only */
  int layer_norm;   /* LSTM only, without projection and peepholes */
  double zoneout_h; /* rate at which units keep their h; in inference its expectation */
  double zoneout_c; /* the same of c, LSTM only */
  double recurrent_dropout;   /* rate of h in the recurrent product, when training */
  const char* implementation; /* NULL or "auto"; or a name that sluice_recurrent_explain says */
  int hard_sigmoid;           /* LSTM and GRUs: gates are clip(0.2 a + 0.5, 0, 1) */
} sluice_recurrent_options;

typedef struct sluice_recurrent sluice_recurrent;

/* Bytes of the memories that each call is passed, aligned to 128 bytes (64 on the CPU). */
typedef struct sluice_recurrent_sizes {
  size_t size;
  size_t packed;    /* weights in the plan's own layout; filled by pack */
  size_t workspace; /* scratch: free between calls, and plans of one stream may share it */
  size_t reserve;   /* what backward needs of its forward; 0 without training */
} sluice_recurrent_sizes;

typedef struct sluice_recurrent_memory {
  size_t size;
  void* packed;
  void* workspace;
  void* reserve;
} sluice_recurrent_memory;

/* Weights of one layer and direction, contiguous, in torch's order, of a GPU aligned to 16 bytes;
 * or their gradients, of which NULL is not computed. G is 4 for LSTMs, 3 for GRUs, 1 for plain
 * RNNs; O is the projected width or H. */
typedef struct sluice_recurrent_weights {
  size_t size;
  void* weight_ih;       /* [G*H, width of the layer's input] */
  void* weight_hh;       /* [G*H, O] */
  void* bias_ih;         /* [G*H]; NULL: zero */
  void* bias_hh;         /* [G*H]; NULL: zero */
  void* weight_hr;       /* [O, H], with a projection */
  void* weight_peephole; /* [3, H] of i, f, o, with peepholes */
  void* gain_ih;         /* layer norm: [4*H] of the input product */
  void* gain_hh;         /* [4*H] of the recurrent product */
  void* gain_c;          /* [H] of c on its way to h */
  void* shift_c;         /* [H] added to that */
} sluice_recurrent_weights;

/* Tensors of a run, in the device's memory; on a GPU they begin at multiples of 16 bytes. Optional
 * ones are NULL. A state's index is layer * directions + direction. If layers differ in H, their
 * states lie one after the other, each [rows, H of that layer]. */
typedef struct sluice_recurrent_forward_args {
  size_t size;
  int64_t time, rows;     /* of this run, at most those of the plan */
  const void* x;          /* [time, rows, input]; past a row's end anything finite */
  const int32_t* lengths; /* [rows], each 0 to time, in any order; NULL: all `time` */
  const int32_t* resets; /* [time, rows]: not 0 where a new sequence begins, so that no state passes
                            from the step before */
  const void* h0;        /* [layers*directions, rows, O]; NULL: zero */
  const void* c0;        /* [layers*directions, rows, H]; NULL: zero */
  void* y;               /* out [time, rows, directions*O], zero past a row's end */
  void* hn;              /* out as h0; optional */
  void* cn;              /* out as c0; optional */
  void* c_sequence; /* out [layers*directions, time, rows, H], float32 (float64 where dtype is);
                       optional */
  /* Elements from one time step to the next and from one row to the next, of plans with `strided`;
   * 0: contiguous. */
  int64_t x_time_stride, x_row_stride, y_time_stride, y_row_stride;
  const int32_t* row_ids; /* [rows]: numbers of rows for dropout; NULL: 0, 1, .. */
  uint64_t seed;          /* of dropout, zoneout and recurrent dropout */
  const int32_t* step;    /* one number on the device that changes what is drawn; NULL: 0 */
} sluice_recurrent_forward_args;

typedef struct sluice_recurrent_backward_args {
  size_t size;
  const void* dy;                            /* as y; NULL: zero. Ignored past a row's end */
  const void* dhn;                           /* as hn; NULL: zero */
  const void* dcn;                           /* as cn; NULL: zero */
  void* dx;                                  /* out as x; optional */
  void* dh0;                                 /* out as h0; optional */
  void* dc0;                                 /* out as c0; optional */
  const sluice_recurrent_weights* gradients; /* out [layers*directions], or NULL */
  int accumulate;                            /* not 0: gradients are added to what is there */
  int64_t dx_time_stride, dx_row_stride, dy_time_stride, dy_row_stride; /* as in the run */
} sluice_recurrent_backward_args;

/* Chooses an implementation. The plan belongs to the stream. */
sluice_status sluice_recurrent_create(sluice_stream* stream,
                                      const sluice_recurrent_options* options,
                                      sluice_recurrent** plan, sluice_error* error);
void sluice_recurrent_destroy(sluice_recurrent* plan);
sluice_status sluice_recurrent_get_sizes(const sluice_recurrent* plan,
                                         sluice_recurrent_sizes* sizes, sluice_error* error);
/* "persistent-cluster"; valid as long as the plan. */
const char* sluice_recurrent_implementation(const sluice_recurrent* plan);
/* A line for each implementation that was asked before the chosen one and declined, "name: reason".
 * Valid as long as the plan. */
const char* sluice_recurrent_explain(const sluice_recurrent* plan);
/* Names the layout that pack writes. Plans of one device whose options differ in time, rows,
 * dropout and resets alone, and whose names are equal, may run on what another of them packed. ""
 * if only plans with equal options may. Valid as long as the plan. */
const char* sluice_recurrent_packed_layout(const sluice_recurrent* plan);

/* Lays out the weights [layers*directions] for the implementation. To be called again when they
 * change. */
sluice_status sluice_recurrent_pack(sluice_recurrent* plan, const sluice_recurrent_weights* weights,
                                    int64_t count, const sluice_recurrent_memory* memory,
                                    sluice_error* error);
sluice_status sluice_recurrent_forward(sluice_recurrent* plan,
                                       const sluice_recurrent_forward_args* args,
                                       const sluice_recurrent_memory* memory, sluice_error* error);
/* `args` as forward was given them, outputs as it left them. Uses the reserve up: once for each
 * forward. */
sluice_status sluice_recurrent_backward(sluice_recurrent* plan,
                                        const sluice_recurrent_forward_args* args,
                                        const sluice_recurrent_backward_args* backward,
                                        const sluice_recurrent_memory* memory, sluice_error* error);

#ifdef __cplusplus
}
#endif

#endif
