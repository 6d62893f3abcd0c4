#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>

#include "commands.h"
#include "sluice/convert.h"

namespace sluice::app {
namespace {

void add_vocabulary_options(CLI::App& command, ConvertRequest& request) {
  command.add_option("--words", request.words,
                     "A file with the text of each id a line, in their order; without it, texts "
                     "are ids as numbers");
  command.add_option("--labels", request.labels,
                     "A file with the name of each label a line, in their order");
  command.add_option("--target-words", request.target_words,
                     "The same as --words of what an encoder-decoder writes");
  command.add_option("--pad", request.pad, "The id of the source that means padding");
  command.add_option("--unknown", request.unknown, "The id that means an unknown word");
  command.add_option("--begin", request.begin, "The id that begins a text that is written");
  command.add_option("--end", request.end, "The id that ends a text that is written");
}

}  // namespace

void add_convert(CLI::App& program) {
  const auto request = std::make_shared<ConvertRequest>();
  CLI::App* command = program.add_subcommand(
      "convert", "Bring a model from another program, or take one there, and prove the result");
  command
      ->add_option("source", request->source,
                   "The model: a file, a folder, or the prefix of a checkpoint of TensorFlow; its "
                   "content tells the format")
      ->required();
  command->add_option("-o,--output", request->target,
                      "What to make: a checkpoint folder, or the target's file, folder or prefix; "
                      "without it, nothing is written");
  command->add_option("--to", request->to, "The format to write")
      ->check(
          CLI::IsMember({"sluice", "torch", "keras", "tf1", "pb", "savedmodel", "onnx", "cudnn"}))
      ->capture_default_str();
  command->add_flag("--verify", request->verify,
                    "Compare all layers with the source's own equations in double precision, on "
                    "random input, and what was written with what was read");
  command
      ->add_option("--verify-with", request->verify_with,
                   "Have the source's own program run it, too, through Sluice's Python package: "
                   "torch (TorchScript), keras, tensorflow (SavedModels) or onnxruntime; "
                   "SLUICE_PYTHON names another interpreter than python3")
      ->check(CLI::IsMember({"torch", "keras", "tensorflow", "onnxruntime"}));
  command->add_option("--seed", request->seed, "Seed of that input")->capture_default_str();
  command
      ->add_option("--set", request->answers,
                   "KEY=VALUE: what the source does not say; the message that asks for it "
                   "names the key")
      ->take_all();
  command
      ->add_option("--kind", request->kind, "Kind of model to make, where the layers leave it open")
      ->check(CLI::IsMember({"features", "language_model", "tagger", "classifier", "seq2seq"}));
  command->add_option(
      "--subgraph", request->subgraph,
      "Take only this recurrent layer, module or node (A,B: these layers), and in ONNX and Paddle "
      "those that directly follow it, as a model of features; of a model of Sluice: stack, "
      "recurrent or encoder, by its kind");
  command->add_option("--map", request->map,
                      "A file (TOML) that says what the arrays of an .npz or .npy file or a "
                      "pickle are");
  command
      ->add_option("--device", request->device,
                   "cuda or cuda:N: cuDNN on that GPU says how its packed buffer of weights is "
                   "laid out; cpu: its documented layout")
      ->capture_default_str();
  add_vocabulary_options(*command, *request);
  command->footer(
      "Reads PyTorch (.pt, .safetensors), Keras (.keras, .h5), TensorFlow (checkpoints, frozen\n"
      "graphs, SavedModels), ONNX, Paddle 1 (a folder with __model__) and NumPy, without any of\n"
      "these programs. Each conversion prints what it found and where, what it assumed, and what\n"
      "it left out.\n\n"
      "  sluice convert tagger.pt -o runs/tagger --verify\n"
      "  sluice convert old.h5 -o runs/old --verify --labels labels.txt\n"
      "  sluice convert runs/de/best -o model.onnx --to onnx --verify");
  command->callback([request] {
    const ConvertReport report = convert(*request);
    std::printf("%s", to_text(report).c_str());
    if (request->target.empty()) {
      std::printf("Nothing is written: there is no -o.\n");
    } else {
      std::printf("%s: written\n", fmt::format("{}", fmt::join(report.files, ", ")).c_str());
    }
  });
}

}  // namespace sluice::app
