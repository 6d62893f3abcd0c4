#include <gtest/gtest.h>

#include <fstream>

#include "interchange/arrays/named_arrays.h"
#include "interchange/cudnn/cudnn_writer.h"
#include "interchange/read_source.h"
#include "io/npy.h"
#include "kernels/recurrent/recurrent.h"
#include "unit/interchange/random_chain.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::interchange {
namespace {

namespace recurrent = kernels::recurrent;
using recurrent::CellType;

/// Buffers that cuDNN's API packs and lays out, on a GPU.
class CudnnConversions : public testing::OnDevice {
 protected:
  /// Skips a test, with the reason, if there is no cuDNN here.
  void SetUp() override {
    if (device_->runs_host_kernels()) GTEST_SKIP() << "this is a test of GPUs";
    recurrent::Descriptor d;
    d.input = d.hidden = d.time = d.rows = 4;
    for (const recurrent::Candidate& candidate : recurrent::candidates(*device_)) {
      if (candidate.name != "cudnn-standard") continue;
      const auto reason = recurrent::refusal(candidate, d, *device_);
      if (reason) GTEST_SKIP() << "cudnn-standard declines: " << *reason;
    }
  }

  /// The buffer of a chain's recurrent layers, which are alike, packed by cuDNN's own plan.
  std::vector<float> packed_by_cudnn(const SourceModel& chain, CellType type) {
    recurrent::Descriptor d;
    d.cell = type;
    d.layers = static_cast<std::int64_t>(chain.layers.size());
    d.time = d.rows = 1;
    std::vector<recurrent::LayerWeights> weights;
    const auto put_tensor = [&](const SourceCell& cell, const char* name) {
      const io::HostTensor* tensor = cell.find(name);
      if (tensor == nullptr) return runtime::Tensor();
      const auto values = tensor->values<float>();
      return put(std::vector<float>(values.begin(), values.end()), tensor->shape);
    };
    for (const SourceLayer& layer : chain.layers) {
      const auto& both = std::get<RecurrentLayer>(layer);
      d.directions = both.backward ? 2 : 1;
      for (const std::optional<SourceCell>* cell : {&both.forward, &both.backward}) {
        if (!*cell) continue;
        if (weights.empty()) d.input = (*cell)->input;
        d.hidden = (*cell)->hidden;
        if ((*cell)->find("weight_hr") != nullptr) d.projections = {(*cell)->output};
        weights.push_back({put_tensor(**cell, "weight_ih"), put_tensor(**cell, "weight_hh"),
                           put_tensor(**cell, "bias_ih"), put_tensor(**cell, "bias_hh"),
                           put_tensor(**cell, "weight_hr")});
      }
    }
    const auto plan = recurrent::make_plan(context_, d, "cudnn-standard").plan;
    const auto count = [](std::size_t bytes) { return static_cast<std::int64_t>(bytes / 4); };
    const runtime::Tensor packed = poisoned(base::DType::kFloat32, {count(plan->packed_bytes())});
    const auto scratch = [&](std::size_t bytes) {
      return poisoned(base::DType::kFloat32, {count(bytes) + 1}).data();
    };
    plan->pack(context_, weights,
               {packed.data(), scratch(plan->workspace_bytes()), scratch(plan->reserve_bytes())});
    return get<float>(packed);
  }

  testing::TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(, CudnnConversions, testing::devices(), testing::device_name);

TEST_P(CudnnConversions, ReadAndWriteWhatCudnnPacks) {
  std::uint64_t seed = 1;
  for (const CellType type : {CellType::kLstm, CellType::kGru, CellType::kRnnTanh}) {
    for (const char* directions : {"forward", "both"}) {
      for (int layers = 1; layers <= 3; ++layers) {
        ChainForm form{.type = type, .directions = directions, .layers = layers};
        form.has_embedding = form.has_output = false;
        form.same_width = true;
        form.projects = type == CellType::kLstm && layers == 2;
        const SourceModel chain = random_chain(++seed, form);
        SCOPED_TRACE(seed);
        const std::vector<float> wanted = packed_by_cudnn(chain, type);
        const auto path = folder_.path() / "model.npz";
        write_cudnn(chain, path, device_.get());
        const std::string map = path.native() + ".toml";

        ReadOptions options;
        options.map = map;
        options.set_device(device_.get());
        const io::HostTensor written = open_npz_arrays(path).read("weights");
        const auto values = written.values<float>();
        EXPECT_EQ(std::vector<float>(values.begin(), values.end()), wanted);

        const std::vector<std::int64_t> sizes{static_cast<std::int64_t>(wanted.size())};
        const auto array = folder_.path() / "weights.npy";
        std::ofstream(array, std::ios::binary)
            << io::npy_header(sizes)
            << std::string_view(reinterpret_cast<const char*>(wanted.data()),
                                wanted.size() * sizeof(float));
        const SourceModel read = read_source(array, SourceFormat::kNpy, options);
        ASSERT_EQ(read.layers.size(), chain.layers.size());
        for (std::size_t at = 0; at < chain.layers.size(); ++at) {
          const auto& one = std::get<RecurrentLayer>(chain.layers[at]);
          const auto& other = std::get<RecurrentLayer>(read.layers[at]);
          for (const auto& [name, tensor] : one.forward->tensors) {
            EXPECT_EQ(other.forward->get(name).data, tensor.data) << name;
          }
          ASSERT_EQ(other.backward.has_value(), one.backward.has_value());
          if (!one.backward) continue;
          for (const auto& [name, tensor] : one.backward->tensors) {
            EXPECT_EQ(other.backward->get(name).data, tensor.data) << name;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::interchange
