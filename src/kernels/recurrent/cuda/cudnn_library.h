#pragma once

#include <cudnn.h>

#include <string_view>

#include "runtime/vendor_library.h"

namespace sluice::kernels::recurrent::cuda {

/// The functions of cuDNN that its recurrent layer takes. Opened when it is first asked for.
struct CudnnLibrary {
  /// Throws ErrorCode::kDevice with one sentence if there is no cuDNN of the version that this was
  /// built for.
  CudnnLibrary();

  /// Throws ErrorCode::kUnsupported for what cuDNN says it lacks, else kDevice, with its own words,
  /// unless `status` is success. `what` completes "could not ...".
  void check(cudnnStatus_t status, std::string_view what) const;

  runtime::VendorLibrary library;
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnCreateTensorDescriptor) tensor_create;
  decltype(&cudnnDestroyTensorDescriptor) tensor_destroy;
  decltype(&cudnnSetTensorNdDescriptor) tensor_set;
  decltype(&cudnnCreateDropoutDescriptor) dropout_create;
  decltype(&cudnnDestroyDropoutDescriptor) dropout_destroy;
  decltype(&cudnnSetDropoutDescriptor) dropout_set;
  decltype(&cudnnCreateRNNDescriptor) rnn_create;
  decltype(&cudnnDestroyRNNDescriptor) rnn_destroy;
  decltype(&cudnnSetRNNDescriptor_v8) rnn_set;
  decltype(&cudnnBuildRNNDynamic) rnn_build_dynamic;
  decltype(&cudnnCreateRNNDataDescriptor) data_create;
  decltype(&cudnnDestroyRNNDataDescriptor) data_destroy;
  decltype(&cudnnSetRNNDataDescriptor) data_set;
  decltype(&cudnnGetRNNTempSpaceSizes) temp_sizes;
  decltype(&cudnnGetRNNWeightSpaceSize) weight_size;
  decltype(&cudnnGetRNNWeightParams) weight_params;
  decltype(&cudnnRNNForward) forward;
  decltype(&cudnnRNNBackwardData_v8) backward_data;
  decltype(&cudnnRNNBackwardWeights_v8) backward_weights;
};

}  // namespace sluice::kernels::recurrent::cuda
