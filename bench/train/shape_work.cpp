#include "bench/train/shape_work.h"

#include "base/check.h"
#include "bench/train/token_batches.h"
#include "models/seq2seq.h"

namespace sluice::bench::train {

TrainWork work_of(const TrainShape& shape, const TrainBenchOptions& options, const Rank& rank) {
  TrainWork work{.name = shape.name,
                 .device = shape.device,
                 .dtype = shape.dtype,
                 .seed = shape.seed,
                 .ranks = rank.ranks,
                 .exchange = options.exchange,
                 .threads = rank.threads};
  work.make_model = [shape](const runtime::Context& context) {
    auto model = std::make_unique<models::Seq2Seq>(shape.config());
    model->parameters().allocate(context, base::DType::kFloat32, true);
    model->parameters().initialize(context, shape.seed);
    return model;
  };
  TrainShape whole = shape;
  whole.batch *= rank.count();
  work.make_batches = [whole] { return std::make_unique<TokenBatches>(whole); };
  return work;
}

std::vector<TrainShape> shapes_of(const TrainBenchOptions& options, const Rank& rank) {
  const std::string& device = rank.device.empty() ? options.device : rank.device;
  std::vector<TrainShape> shapes = read_shapes(options.shapes, options.dtype, device);
  for (TrainShape& shape : shapes) {
    if (!options.whole_batch) break;
    SLUICE_CHECK(shape.batch % rank.count() == 0,
                 "{}: a batch of {} can't be dealt to {} devices evenly", shape.name, shape.batch,
                 rank.count());
    shape.batch /= rank.count();
  }
  return shapes;
}

}  // namespace sluice::bench::train
