#include "interchange/keras/keras_writer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "interchange/keras/keras_reader.h"
#include "unit/interchange/keras_files.h"
#include "unit/support/message_of.h"

namespace sluice::interchange {
namespace {

using kernels::recurrent::CellType;
using testing::message_of;
using testing::TemporaryFolder;

constexpr double kTolerance = 2e-6;

/// Makes chains of random layers.
class Chain {
 public:
  explicit Chain(std::uint64_t seed, std::int64_t width) : random_(seed), width_(width) {}

  Chain& embed(std::int64_t count, std::int64_t width) {
    width_ = width;
    return add(EmbeddingLayer{"words", random_.tensor({count, width}), 0});
  }
  Chain& run(CellType type, std::int64_t hidden, std::string_view sides = "f", bool hard = false) {
    RecurrentLayer layer{.name = "layer"};
    if (sides.find('f') != std::string_view::npos) layer.forward = cell(type, hidden, hard);
    if (sides.find('b') != std::string_view::npos) layer.backward = cell(type, hidden, hard);
    width_ = layer.output();
    return add(std::move(layer));
  }
  Chain& pool(const std::string& kind) {
    return add(PoolingLayer{.name = "pooling", .kind = kind});
  }
  Chain& normalise() {
    return add(AffineLayer{"affine", random_.tensor({width_}), random_.tensor({width_})});
  }
  Chain& map(std::int64_t out, const std::string& activation) {
    LinearLayer layer{"linear", random_.tensor({out, width_})};
    layer.bias = random_.tensor({out});
    layer.activation = {activation};
    width_ = out;
    return add(std::move(layer));
  }
  SourceModel done() { return std::move(model_); }

 private:
  Chain& add(SourceLayer layer) {
    model_.layers.push_back(std::move(layer));
    return *this;
  }
  SourceCell cell(CellType type, std::int64_t hidden, bool hard) {
    CanonicalCell cell;
    cell.type = type;
    cell.hard_sigmoid = hard;
    cell.input = width_;
    cell.hidden = cell.output = hidden;
    const auto numbers = [&](std::int64_t count) {
      std::vector<float> result(static_cast<std::size_t>(count));
      for (float& value : result) value = static_cast<float>(random_.number());
      return result;
    };
    cell.weight_ih = numbers(cell.gates() * hidden * width_);
    cell.weight_hh = numbers(cell.gates() * hidden * hidden);
    cell.bias_ih = numbers(cell.gates() * hidden);
    cell.bias_hh = numbers(cell.gates() * hidden);
    return from_canonical(cell, Convention::kKeras, "layer");
  }

  RandomNumbers random_;
  std::int64_t width_;
  SourceModel model_;
};

/// Chains of all kinds by name; those named ids_* begin with an embedding, the others read three
/// features.
std::map<std::string, SourceModel> chains() {
  std::map<std::string, SourceModel> chains;
  chains["lstm"] = Chain(1, 3).run(CellType::kLstm, 4).done();
  chains["gru_after"] = Chain(2, 3).run(CellType::kGru, 4).done();
  chains["gru_before"] = Chain(3, 3).run(CellType::kGruResetBefore, 4).done();
  chains["rnn"] = Chain(4, 3).run(CellType::kRnnTanh, 4).run(CellType::kRnnRelu, 2).done();
  chains["both"] = Chain(5, 3).run(CellType::kLstm, 4, "fb").run(CellType::kGru, 3, "fb").done();
  chains["ids_classes"] = Chain(6, 0)
                              .embed(9, 5)
                              .run(CellType::kLstm, 7)
                              .run(CellType::kLstm, 4, "fb")
                              .pool("last")
                              .normalise()
                              .map(3, "softmax")
                              .done();
  chains["hard"] = Chain(7, 3)
                       .run(CellType::kLstm, 4, "f", true)
                       .run(CellType::kGru, 3, "fb", true)
                       .run(CellType::kGruResetBefore, 3, "f", true)
                       .done();
  chains["mean"] = Chain(8, 3).run(CellType::kGru, 4).pool("mean").map(2, "tanh").done();
  chains["max"] = Chain(9, 3).normalise().map(4, "relu").pool("max").done();
  chains["backward"] = Chain(10, 3).run(CellType::kLstm, 4, "b").pool("last").done();
  return chains;
}

Sequence run(const SourceModel& model, std::uint64_t seed, bool reads_ids) {
  RandomNumbers random(seed);
  return reads_ids ? evaluate(model, random.ids(6, 9)).back().value
                   : evaluate(model, random.frames(6, 3)).back().value;
}

void write_numbers(const std::filesystem::path& path, const auto& numbers) {
  std::ofstream file(path);
  file.precision(17);
  for (const auto number : numbers) file << number << '\n';
}

/// For Keras itself: the model, its input and its output, which fixtures/check_keras.py compares.
void leave_for_keras(const SourceModel& model, const std::string& path, bool reads_ids) {
  write_keras(model, path + ".keras");
  write_keras(model, path + ".h5");
  RandomNumbers random(3);
  if (reads_ids) {
    write_numbers(path + ".in.txt", random.ids(6, 9));
  } else {
    write_numbers(path + ".in.txt", random.frames(6, 3).values);
  }
  Sequence output = run(model, 3, reads_ids);
  finish_softmax(model, output);
  write_numbers(path + ".out.txt", output.values);
}

TEST(KerasWriter, WritesWhatTheReaderReads) {
  const TemporaryFolder folder;
  const char* const kept = std::getenv("SLUICE_KERAS_FOLDER");
  for (const auto& [name, model] : chains()) {
    const bool reads_ids = name.starts_with("ids");
    if (kept != nullptr) leave_for_keras(model, kept + ("/" + name), reads_ids);
    for (const char* const ending : {".keras", ".h5"}) {
      const std::filesystem::path path = folder / (name + ending);
      write_keras(model, path);
      const SourceModel back = read_keras(path, {});
      EXPECT_EQ(back.layers.size(), model.layers.size());
      EXPECT_LT(largest_difference(run(back, 3, reads_ids), run(model, 3, reads_ids)), kTolerance)
          << path;
    }
  }
}

TEST(KerasWriter, RefusesWhatKerasLacks) {
  const TemporaryFolder folder;
  const auto refusal_of = [&](const SourceModel& model) {
    return message_of([&] { write_keras(model, folder / "model.keras"); });
  };
  EXPECT_EQ(refusal_of(Chain(1, 3).run(CellType::kLstm, 2).pool("attention").done()),
            "layer 'pooling' is attention pooling, which Keras lacks; write the model without it");
  EXPECT_EQ(refusal_of(Chain(1, 3).run(CellType::kLstm, 2).normalise().pool("last").done()),
            "layer 'pooling' takes the last step of another layer than a recurrent one, which a "
            "chain of Keras cannot");
  EXPECT_EQ(refusal_of(Chain(1, 3).run(CellType::kLstm, 2, "b").done()),
            "layer 'layer' has a backward direction alone, whose steps Keras puts out in reverse "
            "order; write the model with both directions");
  EXPECT_EQ(folder.count(), 0);
}

}  // namespace
}  // namespace sluice::interchange
