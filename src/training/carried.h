#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "models/model.h"

namespace sluice::training {

/// One of Model::carried_tensors on the host, in float32, which holds what 16 bits hold: a run may
/// go on in another precision.
struct CarriedTensor {
  std::string name;
  runtime::Shape shape;  ///< [layers, 1 + rows, width]
  std::vector<float> values;
};

/// Returns Model::carried_tensors. Waits for the device.
std::vector<CarriedTensor> download_carried(const runtime::Context& context,
                                            const models::Model& model);
/// Tensors of the same names and shapes take its place.
void upload_carried(const runtime::Context& context, const models::Model& model,
                    const std::vector<CarriedTensor>& carried);

/// Returns, on all ranks, the tensors that one rank with all rows (dealt_rows.h) would carry.
std::vector<CarriedTensor> gather_carried(const runtime::Context& context,
                                          const models::Model& model,
                                          distributed::Communicator& ranks);
/// Gives each rank its rows of the tensors of rank 0.
void scatter_carried(const runtime::Context& context, const models::Model& model,
                     distributed::Communicator& ranks);

}  // namespace sluice::training
