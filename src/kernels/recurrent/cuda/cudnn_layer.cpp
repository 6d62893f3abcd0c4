#include "kernels/recurrent/cuda/cudnn_layer.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/cuda/cuda_device.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

cudnnDataType_t cudnn_type(DType dtype) {
  if (dtype == DType::kFloat32) return CUDNN_DATA_FLOAT;
  return dtype == DType::kBFloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

cudnnRNNMode_t cudnn_mode(CellType cell) {
  if (cell == CellType::kLstm) return CUDNN_LSTM;
  if (cell == CellType::kRnnTanh) return CUDNN_RNN_TANH;
  if (cell == CellType::kRnnRelu) return CUDNN_RNN_RELU;
  SLUICE_ASSERT(cell == CellType::kGru);
  return CUDNN_GRU;
}

}  // namespace

CudnnLayer::CudnnLayer(const Descriptor& descriptor, cudnnRNNAlgo_t algorithm,
                       cudnnRNNBiasMode_t biases)
    : descriptor_(descriptor),
      algorithm_(algorithm),
      biases_(biases),
      handle_(cudnn_, cudnn_.create, cudnn_.destroy),
      dropout_(cudnn_, cudnn_.dropout_create, cudnn_.dropout_destroy),
      rnn_(cudnn_, cudnn_.rnn_create, cudnn_.rnn_destroy),
      tf32_rnn_(cudnn_, cudnn_.rnn_create, cudnn_.rnn_destroy),
      x_(cudnn_, cudnn_.data_create, cudnn_.data_destroy),
      y_(cudnn_, cudnn_.data_create, cudnn_.data_destroy),
      h_(cudnn_, cudnn_.tensor_create, cudnn_.tensor_destroy),
      c_(cudnn_, cudnn_.tensor_create, cudnn_.tensor_destroy),
      matrix_(cudnn_, cudnn_.tensor_create, cudnn_.tensor_destroy),
      bias_(cudnn_, cudnn_.tensor_create, cudnn_.tensor_destroy) {
  // Without a rate it keeps no state.
  cudnn_.check(cudnn_.dropout_set(dropout_.get(), handle(), 0, nullptr, 0, 0),
               "describe cuDNN's dropout");
  const bool single = descriptor.dtype == DType::kFloat32;
  describe(rnn_.get(), single ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH);
  describe(tf32_rnn_.get(), single ? CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION : CUDNN_TENSOR_OP_MATH);
  set_extent(descriptor.time, descriptor.rows);
  measure(rnn_.get());
  measure(tf32_rnn_.get());
}

void CudnnLayer::describe(cudnnRNNDescriptor_t rnn, cudnnMathType_t math) const {
  const Descriptor& d = descriptor_;
  cudnn_.check(
      cudnn_.rnn_set(rnn, algorithm_, cudnn_mode(d.cell), biases_,
                     d.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
                     CUDNN_LINEAR_INPUT, cudnn_type(d.dtype), CUDNN_DATA_FLOAT, math,
                     static_cast<std::int32_t>(d.input), static_cast<std::int32_t>(d.hidden),
                     static_cast<std::int32_t>(d.output_of(0)), static_cast<std::int32_t>(d.layers),
                     dropout_.get(), CUDNN_RNN_PADDED_IO_DISABLED),
      "describe a recurrent stack to cuDNN");
}

void CudnnLayer::set_extent(std::int64_t time, std::int64_t rows) {
  if (time == time_ && rows == rows_) return;
  const Descriptor& d = descriptor_;
  const auto n = static_cast<int>(rows), steps = static_cast<int>(time);
  const cudnnDataType_t type = cudnn_type(d.dtype);
  const std::vector<int> lengths(static_cast<std::size_t>(rows), steps);
  const auto data = [&](cudnnRNNDataDescriptor_t target, std::int64_t width) {
    cudnn_.check(cudnn_.data_set(target, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, steps, n,
                                 static_cast<int>(width), lengths.data(), nullptr),
                 "describe sequences to cuDNN");
  };
  data(x_.get(), d.input);
  data(y_.get(), d.directions * d.output_of(0));
  const auto state = [&](cudnnTensorDescriptor_t target, std::int64_t features) {
    const auto width = static_cast<int>(features);
    const int extents[] = {static_cast<int>(d.layers * d.directions), n, width};
    const int strides[] = {n * width, width, 1};
    cudnn_.check(cudnn_.tensor_set(target, type, 3, extents, strides),
                 "describe a recurrent state to cuDNN");
  };
  state(h_.get(), d.output_of(0));
  state(c_.get(), d.hidden);
  if (rows != rows_ && algorithm_ == CUDNN_RNN_ALGO_PERSIST_DYNAMIC) {
    for (const cudnnRNNDescriptor_t rnn : {rnn_.get(), tf32_rnn_.get()}) {
      cudnn_.check(cudnn_.rnn_build_dynamic(handle(), rnn, n), "build cuDNN's dynamic kernel");
    }
  }
  time_ = time;
  rows_ = rows;
}

void CudnnLayer::measure(cudnnRNNDescriptor_t rnn) {
  std::size_t weights = 0, workspace = 0, reserve = 0;
  cudnn_.check(cudnn_.weight_size(handle(), rnn, &weights), "ask cuDNN for the size of weights");
  const cudnnForwardMode_t mode =
      descriptor_.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  cudnn_.check(cudnn_.temp_sizes(handle(), rnn, mode, x_.get(), &workspace, &reserve),
               "ask cuDNN for its workspace");
  weight_bytes_ = std::max(weight_bytes_, weights);
  workspace_bytes_ = std::max(workspace_bytes_, workspace);
  reserve_bytes_ = std::max(reserve_bytes_, reserve);
}

void CudnnLayer::begin(const Context& context, std::int64_t time, std::int64_t rows) {
  const cudaStream_t stream = runtime::cuda::handle_of(context.stream());
  if (stream != stream_) cudnn_.check(cudnn_.set_stream(handle(), stream), "give cuDNN a stream");
  stream_ = stream;
  tf32_ = context.tf32();
  // Seen with cuDNN 9.14 by compute-sanitizer's memcheck: its kernel writes past the buffers.
  if (tf32_ && descriptor_.dtype == DType::kFloat32 && descriptor_.projects() &&
      !descriptor_.training) {
    base::fail(ErrorCode::kUnsupported,
               "cuDNN writes past its buffers in TF32 inference with projections");
  }
  set_extent(time, rows);
}

CudnnLayer::Place CudnnLayer::place_of(std::int64_t layer_and_direction, std::int64_t index,
                                       void* weights) const {
  void *matrix = nullptr, *bias = nullptr;
  cudnn_.check(cudnn_.weight_params(handle(), rnn(), static_cast<std::int32_t>(layer_and_direction),
                                    weight_bytes_, weights, static_cast<std::int32_t>(index),
                                    matrix_.get(), &matrix, bias_.get(), &bias),
               "ask cuDNN for the place of a weight");
  return {static_cast<std::byte*>(matrix), static_cast<std::byte*>(bias)};
}

}  // namespace sluice::kernels::recurrent::cuda
