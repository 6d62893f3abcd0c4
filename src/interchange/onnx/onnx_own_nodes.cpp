#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"
#include "interchange/onnx/onnx_pooling.h"
#include "interchange/onnx/onnx_walk.h"

// The functions that Sluice writes.
namespace sluice::interchange::onnx {

using Kind = Axis::Kind;

void Walk::sluice_pooling(const Node& node) {
  const std::string_view kind = pooling_kind(node.op_type);
  const Data data = require_data(node, 0);
  const bool is_rows = node.op_type != "Attention";
  const std::size_t lengths = kind == "attention" ? 2 : 1;
  const Data* given = is_rows ? data_input(node, lengths) : nullptr;
  if (kind.empty() || data.axes.size() != 3 || (is_rows && given == nullptr)) {
    base::fail(ErrorCode::kUnsupported, "{} is not as Sluice writes it", describe(node));
  }
  require(node, data, 0, Kind::kTime);
  require(node, data, 1, Kind::kBatch);
  require(node, data, 2, Kind::kFeature);
  if (given != nullptr) note_input(given->pieces[0].step->name, "the lengths of rows");
  const StepPointer before = settle(data, describe(node));
  PoolingLayer layer{onnx::name_of(node), std::string(kind)};
  if (kind == "attention") {
    const std::optional<Constant> query = constant_input(node, 1);
    if (!query || sizes_of(*query) != std::vector<std::int64_t>{before->width.value_or(-1)}) {
      base::fail(ErrorCode::kFormat, "{} lacks a query as wide as its input", describe(node));
    }
    layer.query = load(node, *query);
  }
  put(node,
      output_of(append(before, std::move(layer), before->width), {data.axes[1], data.axes[2]}));
}

}  // namespace sluice::interchange::onnx
