#pragma once

#include <memory>
#include <vector>

#include "kernels/recurrent/cuda/cudnn_library.h"
#include "kernels/recurrent/recurrent.h"

/// cuDNN's objects for one stack, each destroyed with its owner.
namespace sluice::kernels::recurrent::cuda {

/// Owns one of cuDNN's opaque objects.
template <typename Object>
class CudnnObject {
 public:
  CudnnObject(const CudnnLibrary& cudnn, cudnnStatus_t (*create)(Object*),
              cudnnStatus_t (*destroy)(Object))
      : destroy_(destroy) {
    cudnn.check(create(&object_), "create an object of cuDNN's");
  }
  ~CudnnObject() {
    if (object_ != nullptr) destroy_(object_);
  }
  CudnnObject(const CudnnObject&) = delete;
  CudnnObject& operator=(const CudnnObject&) = delete;

  Object get() const { return object_; }

 private:
  Object object_ = nullptr;
  cudnnStatus_t (*destroy_)(Object);
};

/// The library, a handle, and descriptors of a stack and of the extent of its last run.
class CudnnLayer {
 public:
  CudnnLayer(const Descriptor& descriptor, cudnnRNNAlgo_t algorithm,
             cudnnRNNBiasMode_t biases = CUDNN_RNN_DOUBLE_BIAS);

  /// Prepares for a run.
  void begin(const Context& context, std::int64_t time, std::int64_t rows);

  const CudnnLibrary& cudnn() const { return cudnn_; }
  cudnnHandle_t handle() const { return handle_.get(); }
  /// Of the last run's choice of TF32.
  cudnnRNNDescriptor_t rnn() const { return (tf32_ ? tf32_rnn_ : rnn_).get(); }
  cudnnRNNDataDescriptor_t x() const { return x_.get(); }
  cudnnRNNDataDescriptor_t y() const { return y_.get(); }
  cudnnTensorDescriptor_t h() const { return h_.get(); }
  cudnnTensorDescriptor_t c() const { return c_.get(); }

  std::size_t weight_bytes() const { return weight_bytes_; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  std::size_t reserve_bytes() const { return reserve_bytes_; }

  /// Where the matrix and the bias of linear layer `index` are in the space of weights (cuDNN's
  /// numbers: the input's gates, then the recurrent gates, then the projection).
  struct Place {
    std::byte* matrix = nullptr;
    std::byte* bias = nullptr;
  };
  Place place_of(std::int64_t layer_and_direction, std::int64_t index, void* weights) const;

 private:
  void describe(cudnnRNNDescriptor_t rnn, cudnnMathType_t math) const;
  void set_extent(std::int64_t time, std::int64_t rows);
  void measure(cudnnRNNDescriptor_t rnn);

  Descriptor descriptor_;
  cudnnRNNAlgo_t algorithm_;
  cudnnRNNBiasMode_t biases_;
  CudnnLibrary cudnn_;
  CudnnObject<cudnnHandle_t> handle_;
  CudnnObject<cudnnDropoutDescriptor_t> dropout_;
  CudnnObject<cudnnRNNDescriptor_t> rnn_, tf32_rnn_;
  CudnnObject<cudnnRNNDataDescriptor_t> x_, y_;
  CudnnObject<cudnnTensorDescriptor_t> h_, c_, matrix_, bias_;
  cudaStream_t stream_ = nullptr;  ///< that the handle was given last
  bool tf32_ = false;
  std::int64_t time_ = 0, rows_ = 0;
  std::size_t weight_bytes_ = 0, workspace_bytes_ = 0, reserve_bytes_ = 0;
};

}  // namespace sluice::kernels::recurrent::cuda
