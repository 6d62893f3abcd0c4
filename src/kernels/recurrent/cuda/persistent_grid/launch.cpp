#include "kernels/recurrent/cuda/persistent_grid/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/recurrent/cuda/cluster_launch.h"
#include "kernels/recurrent/cuda/persistent/launch.h"
#include "kernels/recurrent/cuda/persistent_grid/arguments.h"
#include "kernels/recurrent/cuda/persistent_grid/kernels.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda::persistent_grid {
namespace {

using runtime::cuda::check;

/// Selects a pass's members of Form and Kernels.
struct Way {
  PassForm Form::*form;
  Pass Kernels::*kernel;
};
constexpr Way kForward{&Form::forward, &Kernels::forward};
constexpr Way kBackward{&Form::backward, &Kernels::backward};

/// Blocks that run at once in clusters of `cluster` blocks.
constexpr int blocks_at_once(int cluster) { return clusters_at_once(cluster) * cluster; }

constexpr int divided_up(std::int64_t a, std::int64_t b) {
  return static_cast<int>((a + b - 1) / b);
}

int blocks_of(const PassForm& pass, std::int64_t hidden) {
  return divided_up(octets_of(hidden) * kOctet, pass.units * pass.cluster) * pass.cluster;
}

/// Groups that the GPU runs at once.
std::int64_t groups_of(const PassForm& pass, std::int64_t hidden) {
  return blocks_at_once(pass.cluster) / blocks_of(pass, hidden);
}

/// Spreads rows over as many groups as run at once, so that each has few. Nothing if there are too
/// many rows.
std::optional<Spread> spread_of(const PassForm& pass, std::int64_t hidden, std::int64_t directions,
                                std::int64_t rows) {
  const std::int64_t most = groups_of(pass, hidden) / directions;
  if (rows > most * kGroupRows) return std::nullopt;
  const std::int64_t each = (rows + most - 1) / most;
  return Spread{divided_up(rows, each), static_cast<std::int32_t>(each)};
}

/// The first form that accepts all rows; null if none does.
const Form* form_of(const Descriptor& descriptor, const Way& way) {
  for (const Form& form : kForms) {
    if (descriptor.dtype == DType::kFloat32 && &form != &kForms.front()) break;
    const PassForm& pass = form.*way.form;
    if (descriptor.hidden > form.most_hidden || pass.units == 0) continue;
    if (spread_of(pass, descriptor.hidden, descriptor.directions, descriptor.rows)) return &form;
  }
  return nullptr;
}

CellKind kind_of(const Descriptor& descriptor) { return {descriptor.cell, descriptor.dtype}; }

/// Bytes of the exchange of so many groups with `values` values per unit.
std::int64_t exchange_bytes(const Descriptor& descriptor, std::int64_t groups,
                            std::int64_t values) {
  const int octets = static_cast<int>(values) * octets_of(descriptor.hidden);
  const int bytes = descriptor.dtype == DType::kFloat32
                        ? BufferLayout<4>{kGroupRows, octets}.bytes()
                        : BufferLayout<2>{kGroupRows, octets}.bytes();
  return groups * kBuffers * bytes;
}

/// Enough for all runs of the plan: runs of fewer rows may be spread over more groups.
std::int64_t most_exchange_bytes(const Descriptor& descriptor, const Way& way,
                                 std::int64_t values) {
  const PassForm& pass = form_of(descriptor, way)->*way.form;
  return exchange_bytes(descriptor, groups_of(pass, descriptor.hidden), values);
}

using Attributes = std::array<cudaLaunchAttribute, 3>;

/// A launch whose blocks all run at once or not at all; `attributes` must outlive it.
cudaLaunchConfig_t configuration(int cluster, int blocks, int bytes, Attributes& attributes) {
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = static_cast<std::size_t>(bytes);
  config.attrs = attributes.data();
  // Single blocks go without the cluster attribute, with which they take longer: .120 instead of
  // .111 ms for one row of 1024 units and 100 steps.
  config.numAttrs = cluster > 1 ? 2 : 1;
  return config;
}

void allow(const Pass& pass) {
  check(cudaFuncSetAttribute(pass.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, pass.bytes),
        "allow a recurrent kernel its shared memory");
}

/// Blocks of the kernel that this GPU runs at once.
int blocks_on_gpu(const Pass& pass, int cluster) {
  allow(pass);
  Attributes attributes{};
  cudaLaunchConfig_t config = configuration(cluster, cluster, pass.bytes, attributes);
  config.attrs = &attributes[1];
  config.numAttrs = 1;
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, pass.kernel, &config),
        "ask how many clusters of a recurrent kernel run at once");
  return clusters * cluster;
}

/// `values` of each unit are multiplied, each with `rows` rows of weights.
Residence residence_of(const Descriptor& descriptor, const PassForm& pass, int values, int rows,
                       int most_loads) {
  return {pass.units,
          blocks_of(pass, descriptor.hidden),
          pass.cluster,
          divided_up(rows, band_rows(base::size_of(descriptor.dtype))),
          divided_up(values * octets_of(descriptor.hidden), 4 * kWarps * pass.cluster),
          most_loads};
}

template <typename Args>
void launch_layer(const LaunchQueue& queue, const Descriptor& descriptor, const Way& way,
                  const Args& args, const Residence& residence, std::int64_t values,
                  void* exchange) {
  const Form& form = *form_of(descriptor, way);
  const persistent::Extent& extent = args.extent;
  const Spread spread =
      spread_of(form.*way.form, extent.hidden, extent.directions, extent.rows).value();
  const Pass& pass = kernels_of(kind_of(descriptor), form).*way.kernel;
  const std::int64_t groups = std::int64_t{spread.clusters} * extent.directions;
  const auto bytes = static_cast<std::size_t>(exchange_bytes(descriptor, groups, values));
  check(cudaMemsetAsync(exchange, 0xFF, bytes, queue.stream),
        "clear the exchange of a recurrent layer");
  allow(pass);
  Attributes attributes{};
  cudaLaunchConfig_t config = configuration(
      residence.cluster, static_cast<int>(groups) * residence.blocks, pass.bytes, attributes);
  config.numAttrs = queue.add_event(attributes.data(), config.numAttrs);
  config.stream = queue.stream;
  Args copy = args;
  Grid grid{spread, residence.blocks, residence.loads, static_cast<std::byte*>(exchange)};
  void* arguments[]{&copy, &grid};
  check(cudaLaunchKernelExC(&config, pass.kernel, arguments),
        "queue the kernel of a recurrent layer");
}

}  // namespace

std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device) {
  if (!device.gpu().code.hopper) {
    return "it needs a GPU of compute capability 9.0 that runs kernels compiled for it";
  }
  if (descriptor.dtype == DType::kFloat64) return "it computes float32, bfloat16 and float16";
  if (descriptor.projects()) return "it has no projection";
  constexpr int kMostLayers = 2;
  if (descriptor.layers > kMostLayers) {
    return fmt::format("it runs layer after layer, and more than {} are faster side by side",
                       kMostLayers);
  }
  if (auto reason = persistent::refuse_size(descriptor)) return reason;
  const runtime::cuda::CurrentDevice current(device.gpu().ordinal);
  for (const Way& way : {kForward, kBackward}) {
    if (way.form == kBackward.form && !descriptor.training) continue;
    const Form* form = form_of(descriptor, way);
    if (form == nullptr) {
      return fmt::format(
          "the GPU's processors don't hold the recurrent weights of {} units in {} directions for "
          "{} rows",
          descriptor.hidden, descriptor.directions, descriptor.rows);
    }
    const PassForm& pass = form->*way.form;
    // Measured (docs/performance/float32-and-tf32.md).
    constexpr int kMostRowsInTf32 = 4;
    if (descriptor.tf32 &&
        spread_of(pass, descriptor.hidden, descriptor.directions, descriptor.rows)->rows >
            kMostRowsInTf32) {
      return "it computes products of float32 row by row, of which TF32 on tensor cores is faster "
             "for many";
    }
    // A run of fewer rows than the capacity may take more groups.
    const std::int64_t each = groups_of(pass, descriptor.hidden) / descriptor.directions;
    const auto groups = static_cast<int>(std::min(each, descriptor.rows) * descriptor.directions);
    const int blocks = groups * blocks_of(pass, descriptor.hidden);
    if (blocks_on_gpu(kernels_of(kind_of(descriptor), *form).*way.kernel, pass.cluster) < blocks) {
      return fmt::format("this GPU can't run {} blocks at once", blocks);
    }
  }
  return std::nullopt;
}

bool beats_cluster(const Descriptor& descriptor) {
  // Measured: docs/performance/float32-and-tf32.md.
  constexpr std::int64_t kMostHiddenOfCluster = 256, kMostRows = 4;
  return descriptor.dtype == DType::kFloat32 && !descriptor.tf32 &&
         descriptor.hidden > kMostHiddenOfCluster &&
         descriptor.rows * descriptor.directions <= kMostRows;
}

Residence forward_residence(const Descriptor& descriptor) {
  const Form& form = *form_of(descriptor, kForward);
  const int gates = static_cast<int>(descriptor.gates());
  return residence_of(descriptor, form.forward, 1, form.forward_rows(gates), form.forward_loads());
}

Residence backward_residence(const Descriptor& descriptor) {
  const Form& form = *form_of(descriptor, kBackward);
  const int gates = static_cast<int>(descriptor.gates());
  return residence_of(descriptor, form.backward, gates, form.backward_rows(),
                      form.backward_loads(gates));
}

std::int64_t forward_exchange_bytes(const Descriptor& descriptor) {
  return most_exchange_bytes(descriptor, kForward, 1);
}
std::int64_t backward_exchange_bytes(const Descriptor& descriptor) {
  return most_exchange_bytes(descriptor, kBackward, descriptor.gates());
}

void launch(const LaunchQueue& queue, const Descriptor& descriptor,
            const persistent::LayerForward& args, void* exchange) {
  launch_layer(queue, descriptor, kForward, args, forward_residence(descriptor), 1, exchange);
}

void launch(const LaunchQueue& queue, const Descriptor& descriptor,
            const persistent::LayerBackward& args, void* exchange) {
  launch_layer(queue, descriptor, kBackward, args, backward_residence(descriptor),
               descriptor.gates(), exchange);
}

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
