#pragma once

#include <string_view>

#include "io/formats/pickle/pickle.h"
#include "io/host_tensor.h"

namespace sluice::io::formats {

/// Whether a value is an array of NumPy as pickles of NumPy 1 and 2 write it, protocols 0 to 5.
bool is_numpy_array(const PickleValue& value);
/// Whether it is a single number of NumPy, such as numpy.float64(3).
bool is_numpy_scalar(const PickleValue& value);

/// The numbers of an array, or of a single number (rank 0), dense and row-major; dtypes as
/// dtype_for. Throws ErrorCode::kFormat if size, dtype and bytes disagree, kUnsupported for other
/// element types than bool, integers and floats; the sentence begins with `where`.
HostTensor tensor_of_numpy(const PickleValue& value, std::string_view where);

}  // namespace sluice::io::formats
