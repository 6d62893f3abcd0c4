#include "interchange/cudnn/cudnn_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "interchange/cudnn/cudnn_writer.h"
#include "interchange/read_source.h"
#include "interchange/tensorflow/checkpoint_reader.h"
#include "io/formats/tensorflow/tensorflow_checkpoint.h"
#include "io/npy.h"
#include "unit/interchange/random_chain.h"
#include "unit/interchange/tensorflow_fixture.h"
#include "unit/support/message_of.h"
#include "unit/support/temporary_folder.h"

namespace sluice::interchange {
namespace {

using kernels::recurrent::CellType;
using kernels::recurrent::CudnnBiases;
using testing::message_of;

class CudnnBuffer : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  void save(const std::string& name, const io::HostTensor& tensor) const {
    const std::vector<std::int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
    std::ofstream(path(name), std::ios::binary)
        << io::npy_header(sizes)
        << std::string_view(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }

  /// Reads "weights.npy" by a map with these lines of its only layer.
  SourceModel read(const std::string& lines) const {
    std::ofstream(path("map.toml")) << "[[layer]]\ncudnn_buffer = \"weights\"\n" << lines;
    ReadOptions options;
    options.map = path("map.toml").native();
    return read_source(path("weights.npy"), recognize(path("weights.npy")), options);
  }

  /// The model after it was written and read.
  SourceModel there_and_back(const SourceModel& model) const {
    write_cudnn(model, path("model.npz"), nullptr);
    ReadOptions options;
    options.map = path("model.npz.toml").native();
    return read_source(path("model.npz"), SourceFormat::kNpz, options);
  }

  testing::TemporaryFolder folder_;
};

Sequence output_of(const SourceModel& model, const ChainForm& form, std::uint64_t seed) {
  RandomNumbers random(seed);
  return form.has_embedding ? evaluate(model, random.ids(7, 9)).back().value
                            : evaluate(model, random.frames(7, 3)).back().value;
}

TEST_F(CudnnBuffer, ComesBackAsItWasWritten) {
  std::uint64_t seed = 1;
  for (const CellType type :
       {CellType::kLstm, CellType::kGru, CellType::kRnnTanh, CellType::kRnnRelu}) {
    for (const char* directions : {"forward", "both"}) {
      for (int layers = 1; layers <= 3; ++layers) {
        for (const bool same_width : {true, false}) {
          ChainForm form{.type = type, .directions = directions, .layers = layers};
          form.same_width = same_width;
          form.has_embedding = layers > 1;
          form.has_output = layers < 3;
          form.projects = type == CellType::kLstm && layers != 2;
          const SourceModel model = random_chain(++seed, form);
          const SourceModel back = there_and_back(model);
          EXPECT_LT(largest_difference(output_of(model, form, seed), output_of(back, form, seed)),
                    1e-12)
              << "seed " << seed;
          const auto buffers =
              std::ranges::count_if(back.account.found, [](const std::string& line) {
                return line.find("as the sizes say") != std::string::npos;
              });
          EXPECT_EQ(buffers, same_width ? 1 : layers);
        }
      }
    }
  }
}

TEST_F(CudnnBuffer, KeepsPoolingAndActivation) {
  SourceModel model = random_chain(5, {.layers = 1, .has_embedding = false, .has_output = false});
  RandomNumbers random(6);
  model.layers.emplace_back(PoolingLayer{.name = "pooling", .kind = "mean"});
  model.layers.emplace_back(
      LinearLayer{.name = "output", .weight = random.tensor({2, 4}), .activation = {"softmax"}});
  const SourceModel back = there_and_back(model);
  ASSERT_EQ(back.layers.size(), 3U);
  EXPECT_EQ(std::get<PoolingLayer>(back.layers[1]).kind, "mean");
  EXPECT_TRUE(std::get<LinearLayer>(back.layers[2]).activation.is("softmax"));
}

// The matrices of all cells stand before the biases of all cells.
TEST_F(CudnnBuffer, HasTheDocumentedOrder) {
  RandomNumbers random(3);
  const ChainForm form{.layers = 2, .projects = true};
  std::vector<CanonicalCell> cells;
  for (const std::int64_t input : {3, 3, 8, 8}) {
    cells.push_back(to_canonical(random_cell(random, form, input, 5), "cell"));
  }
  std::vector<float> wanted;
  const auto append = [&](const std::vector<float>& numbers) {
    wanted.insert(wanted.end(), numbers.begin(), numbers.end());
  };
  for (const CanonicalCell& cell : cells) {
    append(cell.weight_ih);
    append(cell.weight_hh);
    append(cell.weight_hr);
  }
  for (const CanonicalCell& cell : cells) {
    append(cell.bias_ih);
    append(cell.bias_hh);
  }
  const CudnnStack stack{.layers = 2, .directions = 2, .input = 3, .hidden = 5, .projection = 4};
  const io::HostTensor buffer = cudnn_buffer_of({&cells[0], &cells[1], &cells[2], &cells[3]}, stack,
                                                cudnn_layout_for(stack, nullptr));
  const auto got = buffer.values<float>();
  EXPECT_EQ(std::vector<float>(got.begin(), got.end()), wanted);
}

TEST_F(CudnnBuffer, IsThatOfTensorflow) {
  const auto file = tensorflow_fixture("opaque_lstm");
  const ReadOptions answers =
      options_of({"opaque_layers=2", "opaque_directions=2", "opaque_hidden=4", "opaque_input=3"});
  const SourceModel wanted = read_tensorflow_checkpoint(file, answers);
  auto checkpoint = io::formats::TensorflowCheckpoint::open(file);
  for (const auto& entry : checkpoint.tensors()) {
    if (entry.name.find("opaque_kernel") != std::string::npos) {
      save("weights.npy", checkpoint.read(entry.name));
    }
  }
  const SourceModel got =
      read("cell = \"lstm\"\nlayers = 2\ndirections = 2\nhidden = 4\ninput = 3\n");
  RandomNumbers random(1);
  const Sequence frames = random.frames(6, 3);
  EXPECT_EQ(evaluate(got, frames).back().value.values,
            evaluate(wanted, frames).back().value.values);
}

TEST_F(CudnnBuffer, MayHaveFewerBiases) {
  RandomNumbers random(4);
  const std::int64_t matrices = 3 * 5 * (2 + 5), biases = 3 * 5;
  const std::string sizes = "cell = \"gru\"\ninput = 2\nhidden = 5\n";
  const auto tensors = [](const SourceModel& model) {
    std::string names;
    for (const auto& [name, tensor] : std::get<RecurrentLayer>(model.layers[0]).forward->tensors) {
      names += name + " ";
    }
    return names;
  };
  save("weights.npy", random.tensor({matrices}));
  EXPECT_EQ(tensors(read(sizes + "biases = \"none\"\n")), "weight_hh weight_ih ");
  save("weights.npy", random.tensor({matrices + biases}));
  EXPECT_EQ(tensors(read(sizes + "biases = \"input\"\n")), "bias_ih weight_hh weight_ih ");
  EXPECT_EQ(tensors(read(sizes + "biases = \"recurrent\"\n")), "bias_hh weight_hh weight_ih ");
  save("weights.npy", random.tensor({matrices + 2 * biases}));
  EXPECT_EQ(tensors(read(sizes)), "bias_hh bias_ih weight_hh weight_ih ");
}

TEST_F(CudnnBuffer, RefusesWhatDoesNotFit) {
  RandomNumbers random(4);
  save("weights.npy", random.tensor({100}));
  const auto refusal = [&](const std::string& lines) { return message_of([&] { read(lines); }); };
  const auto expect = [&](const std::string& lines, const std::string& part) {
    EXPECT_NE(refusal(lines).find(part), std::string::npos) << refusal(lines);
  };
  EXPECT_EQ(refusal("cell = \"gru\"\ninput = 2\nhidden = 5\n"),
            "'weights' has 100 numbers, but a GRU with these sizes has 135; check cell, layers, "
            "directions, input, hidden, projection and biases in '" +
                path("map.toml").native() + "'");
  expect("cell = \"gru\"\ninput = 0\nhidden = 5\n", "input = 0; it must be from 1 to 1048576");
  expect("cell = \"gru\"\ninput = 2\nhidden = 5\nlayers = 9000\n", "layers = 9000");
  expect("cell = \"gru\"\nhidden = 5\n", "line 1: 'input' is missing here");
  expect("cell = \"gru\"\ninput = 5\n", "line 1: 'hidden' is missing here");
  expect("cell = \"gru_reset_before\"\ninput = 2\nhidden = 5\n", "cuDNN's GRU resets after");
  expect("cell = \"tanh\"\n", "line 1: cell is 'tanh'; use lstm");
  expect("cell = \"lstm\"\nbiases = \"two\"\n", "biases is 'two'; use both");
  expect("cell = \"lstm\"\ngates = \"ifgo\"\n", "there is no key 'gates'");
  expect("cell = \"lstm\"\ninput = 2\nhidden = 5\nprojection = 5\n",
         "cuDNN projects to fewer units only, not from 5 to 5");
  expect("cell = \"gru\"\ninput = 2\nhidden = 5\nprojection = 3\n", "the h of an LSTM only");
  save("weights.npy", random.tensor({15, 9}));
  expect("cell = \"gru\"\ninput = 2\nhidden = 5\n", "'weights' has 2 axes; cuDNN's buffer has one");
}

TEST_F(CudnnBuffer, RefusesWhatCudnnLacks) {
  const auto refusal = [&](const ChainForm& form) {
    const SourceModel model = random_chain(2, form);
    return message_of([&] { write_cudnn(model, path("x.npz"), nullptr); });
  };
  EXPECT_EQ(refusal({.directions = "backward"}),
            "layer 'layer0' has the backward direction alone, which cuDNN lacks");
  EXPECT_EQ(refusal({.peeps = true}), "layer 'layer0' has peepholes, which cuDNN lacks");
  EXPECT_EQ(refusal({.hard_sigmoid = true}), "layer 'layer0' has hard sigmoids, which cuDNN lacks");
  EXPECT_EQ(refusal({.type = CellType::kGruResetBefore}),
            "layer 'layer0' has a GRU that resets before the product, which cuDNN lacks");
  EXPECT_FALSE(std::filesystem::exists(path("x.npz")));
}

}  // namespace
}  // namespace sluice::interchange
