#include "kernels/beam_search/cuda/beam_search.h"

namespace sluice::kernels::beam_search::cuda {

const Leaves kLeaves{start, advance, advance_extras, record, trace_back};

}  // namespace sluice::kernels::beam_search::cuda
