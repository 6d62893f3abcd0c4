// The ops that TensorFlow learns when it loads the library: their inputs, outputs and shapes.
#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>

#include "stack.h"

namespace sluice::tensorflow {
namespace {

using tf::shape_inference::DimensionHandle;
using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

/// A state's shape for a number of rows that may be unknown. `of_one`: its shape for one row.
ShapeHandle state_shape(InferenceContext* context, const tf::TensorShape& of_one,
                        DimensionHandle rows) {
  if (of_one.dims() == 3) {
    return context->MakeShape(
        {context->MakeDim(of_one.dim_size(0)), rows, context->MakeDim(of_one.dim_size(2))});
  }
  if (of_one.num_elements() == 0) return context->Vector(0);  // c of a cell without c
  DimensionHandle elements;
  if (!context->Multiply(rows, of_one.dim_size(0), &elements).ok()) {
    elements = context->UnknownDim();
  }
  return context->Vector(elements);
}

absl::Status forward_shapes(InferenceContext* context) {
  Stack stack;
  TF_RETURN_IF_ERROR(read_stack(*context, &stack));
  ShapeHandle x, y;
  TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 3, &x));
  TF_RETURN_IF_ERROR(context->ReplaceDim(x, 2, context->MakeDim(stack.y_width()), &y));
  const DimensionHandle rows = context->Dim(x, stack.batch_first ? 0 : 1);
  tf::TensorShape h, c;
  TF_RETURN_IF_ERROR(stack.h_shape(1, &h));
  TF_RETURN_IF_ERROR(stack.c_shape(1, &c));
  context->set_output(0, y);
  context->set_output(1, state_shape(context, h, rows));
  context->set_output(2, state_shape(context, c, rows));
  context->set_output(3, context->Vector(InferenceContext::kUnknownDim));
  context->set_output(4, context->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

/// Gradients have the shapes of the inputs that they belong to.
absl::Status gradient_shapes(InferenceContext* context) {
  bool need_x = true, need_weights = true;
  TF_RETURN_IF_ERROR(context->GetAttr("need_x", &need_x));
  TF_RETURN_IF_ERROR(context->GetAttr("need_weights", &need_weights));
  context->set_output(0, need_x ? context->input(0) : context->Vector(0));
  for (const auto& [input, output, wanted] : {std::tuple{"weights", "dweights", need_weights},
                                              {"h0", "dh0", true},
                                              {"c0", "dc0", true}}) {
    std::vector<ShapeHandle> shapes;
    TF_RETURN_IF_ERROR(context->input(input, &shapes));
    if (!wanted) shapes.assign(shapes.size(), context->Vector(0));
    TF_RETURN_IF_ERROR(context->set_output(output, shapes));
  }
  return absl::OkStatus();
}

using Builder = tf::register_op::OpDefBuilderWrapper;

/// The attributes and inputs of both ops. `weights` go layer by layer, in a layer direction by
/// direction. `h0` to `resets` have one tensor or none.
Builder op(const char* name) {
  return Builder(name)
      .Attr("T: {float, double, bfloat16}")
      .Attr("W: {float, double, bfloat16}")
      .Attr("weight_count: int >= 2")
      .Attr("h0_count: int >= 0")
      .Attr("c0_count: int >= 0")
      .Attr("lengths_count: int >= 0")
      .Attr("resets_count: int >= 0")
      .Attr("cell: {'lstm', 'gru', 'gru_reset_before', 'rnn_tanh', 'rnn_relu'}")
      .Attr("hidden: list(int) >= 1")
      .Attr("projection: list(int)")
      .Attr("directions: int")
      .Attr("weight_kinds: list(string) >= 2")
      .Attr("batch_first: bool")
      .Attr("training: bool")
      .Attr("dropout: float = 0")
      .Attr("zoneout_h: float = 0")
      .Attr("zoneout_c: float = 0")
      .Attr("recurrent_dropout: float = 0")
      .Attr("hard_sigmoid: bool = false")
      .Attr("implementation: string = 'auto'")
      .Input("x: T")
      .Input("weights: weight_count * W")
      .Input("h0: h0_count * T")
      .Input("c0: c0_count * T")
      .Input("lengths: lengths_count * int32")
      .Input("resets: resets_count * int32")
      .Input("seed: int64");
}

// As REGISTER_OP, which takes no function.
[[maybe_unused]] const tf::InitOnStartupMarker forward = tf::InitOnStartupMarker{}
                                                         << op("SluiceRecurrent")
                                                                .Output("y: T")
                                                                .Output("hn: T")
                                                                .Output("cn: T")
                                                                .Output("packed: uint8")
                                                                .Output("reserve: uint8")
                                                                .SetShapeFn(forward_shapes)
                                                                .Doc(R"doc(
A stack of recurrent layers.

x: [time, rows, input], or [rows, time, input] with batch_first.
weights: of each layer and direction, as weight_kinds names them.
h0: none, or one of [layers*directions, rows, width]; one after the other where widths differ.
c0: as h0, of an LSTM.
lengths: none, or one [rows] with values from 0 to time.
resets: none, or one [time, rows]: not 0 where a new sequence begins.
seed: a number for dropout and zoneout.
y: as x, with directions*width features.
hn: as h0.
cn: as c0; [0] of other cells.
packed: the weights as the gradient reads them; [0] without training.
reserve: what else the gradient needs; [0] without training.
)doc");

[[maybe_unused]] const tf::InitOnStartupMarker gradient =
    tf::InitOnStartupMarker{} << op("SluiceRecurrentGrad")
                                     .Attr("need_x: bool = true")
                                     .Attr("need_weights: bool = true")
                                     .Input("y: T")
                                     .Input("hn: T")
                                     .Input("cn: T")
                                     .Input("packed: uint8")
                                     .Input("reserve: uint8")
                                     .Input("dy: T")
                                     .Input("dhn: T")
                                     .Input("dcn: T")
                                     .Output("dx: T")
                                     .Output("dweights: weight_count * W")
                                     .Output("dh0: h0_count * T")
                                     .Output("dc0: c0_count * T")
                                     .SetShapeFn(gradient_shapes)
                                     .Doc(R"doc(
The gradient of SluiceRecurrent. Runs forward again if `reserve` is empty.

dx: as x; [0] without need_x.
dweights: as weights; each [0] without need_weights.
)doc");

}  // namespace
}  // namespace sluice::tensorflow
