#pragma once

#include "interchange/arrays/named_arrays.h"
#include "interchange/read_options.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// A model of plain arrays, by a file (TOML, ReadOptions::map) that says what each is:
///
///   [embedding]
///   table = "enc_emb"               # [ids, width]
///
///   [[layer]]                       # one table a recurrent layer, in their order
///   cell = "gru"                    # lstm, gru, gru_reset_before, rnn_tanh or rnn_relu
///   gates = "rzn"                   # the order of the gates: i f g o, r z n; a plain RNN has n
///   weight_ih = "enc_w_ih"          # [gates * units, inputs]
///   weight_hh = "enc_w_hh"          # [gates * units, units]
///   bias_ih = "enc_b_ih"            # [gates * units]; may be left out, as bias_hh
///   bias_hh = "enc_b_hh"
///   [layer.backward]                # the names of the backward direction, if there is one
///   weight_ih = "..."
///
///   [pooling]
///   kind = "last"                   # or mean, max
///
///   [output]
///   weight = "fc_w"                 # [outputs, width]
///   bias = "fc_b"                   # may be left out
///   activation = "softmax"          # or linear, the default
///
///   [decoder.embedding]             # of an encoder-decoder without attention, with also
///   table = "dec_emb"               # [[decoder.layer]] and [decoder.output]
///
/// Layer l of a decoder starts from the last states of [[layer]] l; a map with a decoder has no
/// [pooling] and no [output].
///
/// A layer may be one or more that cuDNN has packed into one buffer (cudnn_layout.h):
///
///   [[layer]]
///   cudnn_buffer = "weights"        # one axis
///   cell = "lstm"                   # gru, rnn_tanh or rnn_relu
///   input = 40
///   hidden = 512
///   layers = 2                      # 1 if left out, as are directions
///   directions = 2
///   projection = 128                # none if left out
///   biases = "both"                 # the default; or none, input, recurrent
///
/// A list of names in place of a name joins arrays along the first axis, one a gate. With
/// `transposed = true`, matrices have their inputs first. A layer may have `forget_bias` (a number
/// added to f), `hard_sigmoid = 0.2` (its slope), `keeps_by_complement = true` (h' = (1 - z) h + z
/// n), `weight_peephole` [3 * units] (i f o) and `weight_hr` [outputs, units]. Throws
/// ErrorCode::kInvalidArgument, with line, for keys and values that make no sense.
SourceModel read_mapped(const NamedArrays& arrays, const ReadOptions& options);

}  // namespace sluice::interchange
