#include "kernels/recurrent/cuda/cudnn_library.h"

#include "base/check.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/libraries.h"

namespace sluice::kernels::recurrent::cuda {
CudnnLibrary::CudnnLibrary() : library(runtime::open_vendor(runtime::cuda::kCudnn)) {
  const auto load = [&](auto*& function, const char* name) {
    function = library.function<std::remove_reference_t<decltype(*function)>>(name);
  };
  load(create, "cudnnCreate");
  load(destroy, "cudnnDestroy");
  load(set_stream, "cudnnSetStream");
  load(error_string, "cudnnGetErrorString");
  load(tensor_create, "cudnnCreateTensorDescriptor");
  load(tensor_destroy, "cudnnDestroyTensorDescriptor");
  load(tensor_set, "cudnnSetTensorNdDescriptor");
  load(dropout_create, "cudnnCreateDropoutDescriptor");
  load(dropout_destroy, "cudnnDestroyDropoutDescriptor");
  load(dropout_set, "cudnnSetDropoutDescriptor");
  load(rnn_create, "cudnnCreateRNNDescriptor");
  load(rnn_destroy, "cudnnDestroyRNNDescriptor");
  load(rnn_set, "cudnnSetRNNDescriptor_v8");
  load(rnn_build_dynamic, "cudnnBuildRNNDynamic");
  load(data_create, "cudnnCreateRNNDataDescriptor");
  load(data_destroy, "cudnnDestroyRNNDataDescriptor");
  load(data_set, "cudnnSetRNNDataDescriptor");
  load(temp_sizes, "cudnnGetRNNTempSpaceSizes");
  load(weight_size, "cudnnGetRNNWeightSpaceSize");
  load(weight_params, "cudnnGetRNNWeightParams");
  load(forward, "cudnnRNNForward");
  load(backward_data, "cudnnRNNBackwardData_v8");
  load(backward_weights, "cudnnRNNBackwardWeights_v8");
}

void CudnnLibrary::check(cudnnStatus_t status, std::string_view what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  runtime::cuda::check_not_lost(cudaDeviceSynchronize(), what);
  constexpr int kCategory = 1000;  // of all ways in which something is not supported
  const bool unsupported = static_cast<int>(status) / kCategory ==
                           static_cast<int>(CUDNN_STATUS_NOT_SUPPORTED) / kCategory;
  base::fail(unsupported ? ErrorCode::kUnsupported : ErrorCode::kDevice,
             "could not {}: cuDNN says \"{}\"", what, error_string(status));
}

}  // namespace sluice::kernels::recurrent::cuda
