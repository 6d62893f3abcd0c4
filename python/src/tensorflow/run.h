#pragma once

#include "plans.h"

namespace sluice::tensorflow {

/// One call of an op: its inputs, checked, as sluice.h takes them.
class Run {
 public:
  /// Reads the inputs that both ops have. `training`: with a reserve.
  absl::Status read(tf::OpKernelContext* context, const Stack& stack, bool training);
  /// Checks the inputs against each other. Memory is never read or written past a tensor's end
  /// after this.
  absl::Status check() const;
  /// Borrows a stream and finds the plan.
  absl::Status prepare();

  std::int64_t time() const { return args_.time; }
  std::int64_t rows() const { return args_.rows; }
  const tf::Tensor& x() const { return *x_; }
  const tf::OpInputList& weights() const { return weights_; }
  const tf::OpInputList& h0() const { return h0_; }
  const tf::OpInputList& c0() const { return c0_; }
  const sluice_recurrent_sizes& sizes() const { return plan_->sizes; }
  const tf::TensorShape& y_shape() const { return y_shape_; }
  const tf::TensorShape& h_shape() const { return h_shape_; }
  const tf::TensorShape& c_shape() const { return c_shape_; }

  /// Packs the weights into `packed` and runs. `reserve` may be null without training.
  absl::Status forward(tf::Tensor* y, tf::Tensor* hn, tf::Tensor* cn, tf::Tensor* packed,
                       tf::Tensor* reserve);
  /// After forward, here or in another call with equal inputs. Overwrites `reserve`. Members of
  /// `backward` that are null are not computed; `gradients` has a tensor for each weight, or none.
  absl::Status backward(sluice_recurrent_backward_args backward,
                        const std::vector<tf::Tensor*>& gradients, const tf::Tensor& y,
                        const tf::Tensor& hn, const tf::Tensor& cn, const tf::Tensor& packed,
                        tf::Tensor* reserve);

 private:
  void set_outputs(const tf::Tensor& y, const tf::Tensor& hn, const tf::Tensor& cn);
  template <typename Tensors>
  std::vector<sluice_recurrent_weights> addresses(const Tensors& tensors) const;

  tf::OpKernelContext* context_ = nullptr;
  const Stack* stack_ = nullptr;
  bool training_ = false;
  const tf::Tensor* x_ = nullptr;
  const tf::Tensor* seed_ = nullptr;
  tf::OpInputList weights_, h0_, c0_, lengths_, resets_;
  tf::TensorShape y_shape_, h_shape_, c_shape_;
  sluice_recurrent_forward_args args_ = SLUICE_INIT(sluice_recurrent_forward_args);
  sluice_recurrent_memory memory_ = SLUICE_INIT(sluice_recurrent_memory);
  StreamLoan stream_;
  const Plan* plan_ = nullptr;
};

}  // namespace sluice::tensorflow
