#include <cstdio>
#include <memory>

#include "commands.h"
#include "placement_options.h"
#include "segmenter_options.h"
#include "sluice/quantize.h"

namespace sluice::app {

void add_quantize(CLI::App& program) {
  const auto request = std::make_shared<QuantizeRequest>();
  const auto percent = std::make_shared<double>(2);
  CLI::App* command = program.add_subcommand(
      "quantize", "Store a model in 8 or 16 bits for CPUs, and print what that costs");
  add_model_argument(*command, request->model)->required();
  command
      ->add_option(
          "--data", request->data,
          "Examples to calibrate and to measure with, in the form of a validation file: pairs "
          "(TSV), text, CoNLL columns, a table, or features")
      ->required();
  command->add_option(
      "--targets", request->targets,
      "The second file: the targets, if --data holds only sources or features; or the "
      "features of a language model that was trained with data.features");
  command->add_option("--resets", request->resets,
                      "Where episodes begin within the sequences, in the form of data.resets");
  add_segmenter_options(*command, request->segmenters, true, true);
  command->add_option("-o,--output", request->output, "Checkpoint folder to make")->required();
  command->add_option("--dtype", request->dtype, "int8 or bfloat16")
      ->check(CLI::IsMember({"int8", "bfloat16"}))
      ->capture_default_str();
  command->add_option(
      "--metric", request->metric,
      "The metric that --max-loss limits (default: BLEU for seq2seq, F1 for a tagger, "
      "accuracy for a classifier, perplexity for a language model, loss for "
      "features)");
  command
      ->add_option("--max-loss", *percent,
                   "Percent of that metric that may be lost; if more is lost, nothing is written")
      ->check(
          [](const std::string& value) {
            return value.starts_with('-') ? value + " is less than 0" : std::string();
          },
          "")
      ->capture_default_str();
  command->add_flag(
      "!--no-calibration", request->calibrate,
      "int8: spread 8 bits over the whole range of each row, and skip the search for a "
      "share of it that comes closer to float32");
  command->footer(
      "Matrices become integers with one scale per row. A CPU multiplies the integers; a GPU\n"
      "expands them first. Every command accepts the new checkpoint like the old one. Use "
      "examples\n"
      "that the model was not trained on.\n\n"
      "  sluice quantize runs/de/best --data valid.tsv -o runs/de/int8\n"
      "  sluice quantize runs/ner/best --data dev.conll -o runs/ner/bf16 --dtype bfloat16");
  command->callback([request, percent] {
    request->most_lost = *percent / 100;
    const QuantizeReport report = quantize(*request);
    std::printf("%s", quantize_table(report).c_str());
    std::printf("%s: %lld matrices in %s", request->output.c_str(),
                static_cast<long long>(report.matrices), request->dtype.c_str());
    if (report.clipped > 0) {
      std::printf(", %lld of them on a calibrated part of their range",
                  static_cast<long long>(report.clipped));
    }
    std::printf("\n");
  });
}

}  // namespace sluice::app
