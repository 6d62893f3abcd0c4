#include "run.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace sluice::tensorflow {
namespace {

sluice_dtype dtype_of(tf::DataType dtype) {
  switch (dtype) {
    case tf::DT_DOUBLE:
      return SLUICE_FLOAT64;
    case tf::DT_BFLOAT16:
      return SLUICE_BFLOAT16;
    default:
      return SLUICE_FLOAT32;  // The ops are registered for no other.
  }
}

template <typename... Parts>
absl::Status invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status check_shape(const char* name, const tf::Tensor& tensor, const tf::TensorShape& shape) {
  if (tensor.shape() == shape) return absl::OkStatus();
  return invalid(name, " has shape ", tensor.shape().DebugString(), ", not ", shape.DebugString());
}

/// Checks a list that has one tensor or none.
absl::Status check_optional(const char* name, const tf::OpInputList& list,
                            const tf::TensorShape& shape) {
  if (list.size() > 1) return invalid(name, " has ", list.size(), " tensors, not one or none");
  return list.size() == 0 ? absl::OkStatus() : check_shape(name, list[0], shape);
}

const void* optional(const tf::OpInputList& list) {
  return list.size() == 0 ? nullptr : list[0].data();
}

const std::int32_t* optional_integers(const tf::OpInputList& list) {
  return static_cast<const std::int32_t*>(optional(list));
}

}  // namespace

absl::Status Run::read(tf::OpKernelContext* context, const Stack& stack, bool training) {
  context_ = context;
  stack_ = &stack;
  training_ = training;
  TF_RETURN_IF_ERROR(context->input("x", &x_));
  TF_RETURN_IF_ERROR(context->input("seed", &seed_));
  TF_RETURN_IF_ERROR(context->input_list("weights", &weights_));
  TF_RETURN_IF_ERROR(context->input_list("h0", &h0_));
  TF_RETURN_IF_ERROR(context->input_list("c0", &c0_));
  TF_RETURN_IF_ERROR(context->input_list("lengths", &lengths_));
  TF_RETURN_IF_ERROR(context->input_list("resets", &resets_));
  if (x_->dims() != 3) {
    return invalid("x has shape ", x_->shape().DebugString(), "; it must have 3 dimensions");
  }
  args_.time = x_->dim_size(stack.batch_first ? 1 : 0);
  args_.rows = x_->dim_size(stack.batch_first ? 0 : 1);
  y_shape_ = x_->shape();
  TF_RETURN_IF_ERROR(y_shape_.SetDimWithStatus(2, stack.y_width()));
  TF_RETURN_IF_ERROR(stack.h_shape(rows(), &h_shape_));
  TF_RETURN_IF_ERROR(stack.c_shape(rows(), &c_shape_));
  TF_RETURN_IF_ERROR(check());
  args_.x = x_->data();
  args_.h0 = optional(h0_);
  args_.c0 = optional(c0_);
  args_.lengths = optional_integers(lengths_);
  args_.resets = optional_integers(resets_);
  args_.seed = static_cast<std::uint64_t>(seed_->scalar<std::int64_t>()());
  if (stack.batch_first) {
    args_.x_row_stride = time() * x_->dim_size(2);
    args_.x_time_stride = x_->dim_size(2);
    args_.y_row_stride = time() * stack.y_width();
    args_.y_time_stride = stack.y_width();
  }
  return absl::OkStatus();
}

absl::Status Run::check() const {
  const std::int64_t input = x_->dim_size(2);
  if (time() == 0 || input == 0) {
    return invalid("x has shape ", x_->shape().DebugString(),
                   "; it needs at least one time step and one feature");
  }
  if (static_cast<std::size_t>(weights_.size()) != stack_->weights.size()) {
    return invalid("weights has ", weights_.size(), " tensors and weight_kinds ",
                   stack_->weights.size(), " names");
  }
  for (int i = 0; i < weights_.size(); ++i) {
    const auto place = static_cast<std::size_t>(i);
    std::vector<std::int64_t> shape = stack_->weights[place].shape;
    std::replace(shape.begin(), shape.end(), kInputWidth, input);
    tf::TensorShape expected;
    TF_RETURN_IF_ERROR(tf::TensorShape::BuildTensorShape(shape, &expected));
    TF_RETURN_IF_ERROR(check_shape(stack_->weight_kinds[place].c_str(), weights_[i], expected));
  }
  TF_RETURN_IF_ERROR(check_optional("h0", h0_, h_shape()));
  TF_RETURN_IF_ERROR(check_optional("c0", c0_, c_shape()));
  TF_RETURN_IF_ERROR(check_optional("lengths", lengths_, tf::TensorShape({rows()})));
  TF_RETURN_IF_ERROR(check_optional("resets", resets_, tf::TensorShape({time(), rows()})));
  TF_RETURN_IF_ERROR(check_shape("seed", *seed_, tf::TensorShape({})));
  const std::int32_t* lengths = optional_integers(lengths_);
  for (std::int64_t row = 0; lengths != nullptr && row < rows(); ++row) {
    if (lengths[row] < 0 || lengths[row] > time()) {
      return invalid("lengths has ", lengths[row], "; with ", time(), " time steps they are 0 to ",
                     time());
    }
  }
  return absl::OkStatus();
}

absl::Status Run::prepare() {
  TF_RETURN_IF_ERROR(stream_.borrow(context_));
  sluice_recurrent_options options = stack_->options();
  options.training = training_ ? 1 : 0;
  options.input = x_->dim_size(2);
  options.time = time();
  options.rows = rows();
  options.dtype = dtype_of(x_->dtype());
  options.weight_dtype = dtype_of(weights_[0].dtype());
  options.cell_dtype = options.dtype;
  options.resets = resets_.size();
  TF_RETURN_IF_ERROR(stream_->plan(options, &plan_));
  return stream_->workspace(*plan_, &memory_.workspace);
}

template <typename Tensors>
std::vector<sluice_recurrent_weights> Run::addresses(const Tensors& tensors) const {
  std::vector<sluice_recurrent_weights> all(static_cast<std::size_t>(stack_->states()),
                                            SLUICE_INIT(sluice_recurrent_weights));
  int number = 0;
  for (const WeightPlace& place : stack_->weights) {
    all[place.index].*place.member = tensors(number++);
  }
  return all;
}

void Run::set_outputs(const tf::Tensor& y, const tf::Tensor& hn, const tf::Tensor& cn) {
  args_.y = y.data();
  args_.hn = hn.data();
  args_.cn = stack_->is_lstm() ? cn.data() : nullptr;
}

absl::Status Run::forward(tf::Tensor* y, tf::Tensor* hn, tf::Tensor* cn, tf::Tensor* packed,
                          tf::Tensor* reserve) {
  const auto weights = addresses([&](int number) { return weights_[number].data(); });
  set_outputs(*y, *hn, *cn);
  memory_.packed = packed->data();
  memory_.reserve = reserve == nullptr ? nullptr : reserve->data();
  auto error = SLUICE_INIT(sluice_error);
  TF_RETURN_IF_ERROR(status_of(
      sluice_recurrent_pack(plan_->plan.get(), weights.data(), stack_->states(), &memory_, &error),
      error));
  return status_of(sluice_recurrent_forward(plan_->plan.get(), &args_, &memory_, &error), error);
}

absl::Status Run::backward(sluice_recurrent_backward_args backward,
                           const std::vector<tf::Tensor*>& gradients, const tf::Tensor& y,
                           const tf::Tensor& hn, const tf::Tensor& cn, const tf::Tensor& packed,
                           tf::Tensor* reserve) {
  std::vector<sluice_recurrent_weights> weights;
  if (!gradients.empty()) {
    weights =
        addresses([&](int number) { return gradients[static_cast<std::size_t>(number)]->data(); });
    backward.gradients = weights.data();
  }
  set_outputs(y, hn, cn);
  backward.dx_time_stride = args_.x_time_stride;
  backward.dx_row_stride = args_.x_row_stride;
  backward.dy_time_stride = args_.y_time_stride;
  backward.dy_row_stride = args_.y_row_stride;
  memory_.packed = packed.data();
  memory_.reserve = reserve->data();
  auto error = SLUICE_INIT(sluice_error);
  return status_of(
      sluice_recurrent_backward(plan_->plan.get(), &args_, &backward, &memory_, &error), error);
}

}  // namespace sluice::tensorflow
