// The ops on the CPU.
#include <tensorflow/core/framework/op_kernel.h>

#include <cstring>

#include "run.h"

namespace sluice::tensorflow {
namespace {

class Recurrent : public tf::OpKernel {
 public:
  explicit Recurrent(tf::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, read_stack(*construction, &stack_));
  }

  void Compute(tf::OpKernelContext* context) override { OP_REQUIRES_OK(context, run(context)); }

 private:
  absl::Status run(tf::OpKernelContext* context) const {
    Run run;
    TF_RETURN_IF_ERROR(run.read(context, stack_, stack_.training));
    tf::Tensor *y = nullptr, *hn = nullptr, *cn = nullptr, *packed = nullptr, *reserve = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output("y", run.y_shape(), &y));
    TF_RETURN_IF_ERROR(context->allocate_output("hn", run.h_shape(), &hn));
    TF_RETURN_IF_ERROR(context->allocate_output("cn", run.c_shape(), &cn));
    const bool empty = run.rows() == 0;
    if (!empty) TF_RETURN_IF_ERROR(run.prepare());
    // Without training nobody reads them.
    const auto bytes = [&](std::size_t wanted) {
      return tf::TensorShape({stack_.training && !empty ? static_cast<std::int64_t>(wanted) : 0});
    };
    TF_RETURN_IF_ERROR(
        context->allocate_output("packed", bytes(empty ? 0 : run.sizes().packed), &packed));
    TF_RETURN_IF_ERROR(
        context->allocate_output("reserve", bytes(empty ? 0 : run.sizes().reserve), &reserve));
    if (empty) return absl::OkStatus();
    if (stack_.training) return run.forward(y, hn, cn, packed, reserve);
    tf::Tensor own;
    TF_RETURN_IF_ERROR(context->allocate_temp(
        tf::DT_UINT8, tf::TensorShape({static_cast<std::int64_t>(run.sizes().packed)}), &own));
    return run.forward(y, hn, cn, &own, nullptr);
  }

  Stack stack_;
};

/// Tensors that backward reads: as forward left them.
struct Forwarded {
  tf::Tensor y, hn, cn, packed, reserve;
};

class RecurrentGrad : public tf::OpKernel {
 public:
  explicit RecurrentGrad(tf::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, read_stack(*construction, &stack_));
    OP_REQUIRES_OK(construction, construction->GetAttr("need_x", &need_x_));
    OP_REQUIRES_OK(construction, construction->GetAttr("need_weights", &need_weights_));
  }

  void Compute(tf::OpKernelContext* context) override { OP_REQUIRES_OK(context, run(context)); }

 private:
  absl::Status run(tf::OpKernelContext* context) const {
    Run run;
    TF_RETURN_IF_ERROR(run.read(context, stack_, true));
    auto args = SLUICE_INIT(sluice_recurrent_backward_args);
    TF_RETURN_IF_ERROR(read(context, "dy", run.y_shape(), &args.dy));
    TF_RETURN_IF_ERROR(read(context, "dhn", run.h_shape(), &args.dhn));
    TF_RETURN_IF_ERROR(read(context, "dcn", run.c_shape(), &args.dcn));
    if (!stack_.is_lstm()) args.dcn = nullptr;
    std::vector<tf::Tensor*> gradients;
    TF_RETURN_IF_ERROR(allocate(context, run, &args, &gradients));
    if (run.rows() == 0) {
      for (tf::Tensor* gradient : gradients) {
        std::memset(gradient->data(), 0, gradient->TotalBytes());
      }
      return absl::OkStatus();
    }
    TF_RETURN_IF_ERROR(run.prepare());
    Forwarded forwarded;
    TF_RETURN_IF_ERROR(find(context, &run, &forwarded));
    return run.backward(args, gradients, forwarded.y, forwarded.hn, forwarded.cn, forwarded.packed,
                        &forwarded.reserve);
  }

  static absl::Status read(tf::OpKernelContext* context, const char* name,
                           const tf::TensorShape& shape, const void** data) {
    const tf::Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(context->input(name, &tensor));
    if (tensor->shape() != shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " has shape ", tensor->shape().DebugString(), ", not ", shape.DebugString()));
    }
    *data = tensor->data();
    return absl::OkStatus();
  }

  /// Allocates the gradients that somebody wants. In a graph that is known for each output.
  absl::Status allocate(tf::OpKernelContext* context, const Run& run,
                        sluice_recurrent_backward_args* args,
                        std::vector<tf::Tensor*>* gradients) const {
    tf::Tensor* dx = nullptr;
    const tf::TensorShape none({0});
    if (context->output_required(0)) {
      TF_RETURN_IF_ERROR(context->allocate_output(0, need_x_ ? run.x().shape() : none, &dx));
      if (need_x_) args->dx = dx->data();
    }
    tf::OpOutputList dweights, dh0, dc0;
    TF_RETURN_IF_ERROR(context->output_list("dweights", &dweights));
    TF_RETURN_IF_ERROR(context->output_list("dh0", &dh0));
    TF_RETURN_IF_ERROR(context->output_list("dc0", &dc0));
    for (int i = 0; i < dweights.size(); ++i) {
      tf::Tensor* gradient = nullptr;
      TF_RETURN_IF_ERROR(
          dweights.allocate(i, need_weights_ ? run.weights()[i].shape() : none, &gradient));
      if (need_weights_) gradients->push_back(gradient);
    }
    tf::Tensor* state = nullptr;
    if (dh0.size() == 1) {
      TF_RETURN_IF_ERROR(dh0.allocate(0, run.h_shape(), &state));
      args->dh0 = state->data();
    }
    if (dc0.size() == 1) {
      TF_RETURN_IF_ERROR(dc0.allocate(0, run.c_shape(), &state));
      args->dc0 = state->data();
    }
    return absl::OkStatus();
  }

  /// Takes what forward left. Runs forward again if that ran without training.
  absl::Status find(tf::OpKernelContext* context, Run* run, Forwarded* forwarded) const {
    const auto packed_bytes = static_cast<std::int64_t>(run->sizes().packed);
    const auto reserve_bytes = static_cast<std::int64_t>(run->sizes().reserve);
    const tf::Tensor* given = nullptr;
    TF_RETURN_IF_ERROR(context->input("reserve", &given));
    if (given->NumElements() == 0) return rerun(context, run, forwarded);
    forwarded->y = input(context, "y");
    forwarded->hn = input(context, "hn");
    forwarded->cn = input(context, "cn");
    forwarded->packed = input(context, "packed");
    if (given->NumElements() != reserve_bytes || forwarded->packed.NumElements() != packed_bytes ||
        forwarded->y.shape() != run->y_shape() || forwarded->hn.shape() != run->h_shape() ||
        forwarded->cn.shape() != run->c_shape()) {
      return absl::InvalidArgumentError(
          "y, hn, cn, packed and reserve must be those of a SluiceRecurrent with the same inputs");
    }
    // Backward uses it up, so it may only overwrite what nobody else can read: a tape may come a
    // second time.
    tf::Tensor& own = forwarded->reserve;
    TF_RETURN_IF_ERROR(context->forward_input_or_allocate_temp(
        {reserve_index(context)}, tf::DT_UINT8, tf::TensorShape({reserve_bytes}), &own));
    if (own.data() != given->data()) std::memcpy(own.data(), given->data(), given->TotalBytes());
    return absl::OkStatus();
  }

  static absl::Status rerun(tf::OpKernelContext* context, Run* run, Forwarded* forwarded) {
    const tf::DataType dtype = run->x().dtype();
    const auto bytes = [](std::size_t count) {
      return tf::TensorShape({static_cast<std::int64_t>(count)});
    };
    TF_RETURN_IF_ERROR(context->allocate_temp(dtype, run->y_shape(), &forwarded->y));
    TF_RETURN_IF_ERROR(context->allocate_temp(dtype, run->h_shape(), &forwarded->hn));
    TF_RETURN_IF_ERROR(context->allocate_temp(dtype, run->c_shape(), &forwarded->cn));
    TF_RETURN_IF_ERROR(
        context->allocate_temp(tf::DT_UINT8, bytes(run->sizes().packed), &forwarded->packed));
    TF_RETURN_IF_ERROR(
        context->allocate_temp(tf::DT_UINT8, bytes(run->sizes().reserve), &forwarded->reserve));
    return run->forward(&forwarded->y, &forwarded->hn, &forwarded->cn, &forwarded->packed,
                        &forwarded->reserve);
  }

  static tf::Tensor input(tf::OpKernelContext* context, const char* name) {
    const tf::Tensor* tensor = nullptr;
    return context->input(name, &tensor).ok() ? *tensor : tf::Tensor();
  }

  static int reserve_index(tf::OpKernelContext* context) {
    constexpr int kAfterIt = 3;  // dy, dhn, dcn
    return context->num_inputs() - kAfterIt - 1;
  }

  Stack stack_;
  bool need_x_ = true;
  bool need_weights_ = true;
};

REGISTER_KERNEL_BUILDER(Name("SluiceRecurrent").Device(tf::DEVICE_CPU), Recurrent);
REGISTER_KERNEL_BUILDER(Name("SluiceRecurrentGrad").Device(tf::DEVICE_CPU), RecurrentGrad);

}  // namespace
}  // namespace sluice::tensorflow
