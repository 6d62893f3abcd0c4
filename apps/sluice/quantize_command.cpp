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
      ->add_option("--data", request->data,
                   "Examples to calibrate and to judge by, as validation files are: pairs (TSV), "
                   "text, CoNLL columns, a table, or features")
      ->required();
  command->add_option("--targets", request->targets,
                      "The second file, where sources and targets or features and targets are two, "
                      "or a language model's features");
  command->add_option("--resets", request->resets,
                      "Where episodes begin within the sequences of features, as data.resets");
  add_segmenter_options(*command, request->segmenters, true, true);
  command->add_option("-o,--output", request->output, "Checkpoint folder to make")->required();
  command->add_option("--dtype", request->dtype, "int8 or bfloat16")
      ->check(CLI::IsMember({"int8", "bfloat16"}))
      ->capture_default_str();
  command->add_option("--metric", request->metric,
                      "What to judge by instead of BLEU (seq2seq), F1 (tagger), accuracy "
                      "(classifier), perplexity (language model) or loss (features)");
  command
      ->add_option("--max-loss", *percent,
                   "Percent of that metric that may be lost; if it is more, nothing is written")
      ->check(
          [](const std::string& value) {
            return value.starts_with('-') ? value + " is less than 0" : std::string();
          },
          "")
      ->capture_default_str();
  command->add_flag(
      "!--no-calibration", request->calibrate,
      "int8: spread 8 bits over the whole range of each row, whatever is nearest to float32");
  command->footer(
      "Matrices become integers with a scale a row; a CPU multiplies them as such, a GPU expands\n"
      "them. Every command takes the new checkpoint as it takes the old one. Examples should not "
      "be\n"
      "those that the model was trained on.\n\n"
      "  sluice quantize runs/de/best --data valid.tsv -o runs/de/int8\n"
      "  sluice quantize runs/ner/best --data test.conll -o runs/ner/bf16 --dtype bfloat16");
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
