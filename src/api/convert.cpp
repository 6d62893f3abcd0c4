#include "sluice/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <new>

#include "api/conversion.h"
#include "api/conversion_check.h"
#include "api/output_folder.h"
#include "api/program_check.h"
#include "api/staged_output.h"
#include "base/check.h"
#include "base/suggest.h"
#include "data/line_reader.h"
#include "data/tokenizer.h"
#include "interchange/assemble.h"
#include "interchange/model_chain.h"
#include "interchange/read_back.h"
#include "interchange/read_source.h"
#include "interchange/source_format.h"
#include "interchange/write_target.h"
#include "io/checkpoint.h"
#include "runtime/device.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using interchange::SourceFormat;

/// Endings of files that --to would name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kEndings{
    {{".onnx", "onnx"},
     {".pb", "pb"},
     {".keras", "keras"},
     {".h5", "keras"},
     {".pt", "torch"},
     {".pth", "torch"},
     {".safetensors", "torch"}}};
/// Endings of what an export has beside it.
constexpr std::array<std::string_view, 4> kBeside{".index", ".toml", ".words.txt", ".labels.txt"};
using interchange::SourceModel;

std::vector<std::string> lines_of(const std::string& path) {
  return path.empty() ? std::vector<std::string>() : data::read_lines(path);
}

/// The GPU whose cuDNN is asked; null: none.
std::unique_ptr<runtime::Device> open_gpu(const ConvertRequest& request) {
  if (request.device == "cpu") return nullptr;
  return runtime::open_device(request.device);
}

interchange::ReadOptions read_options(const ConvertRequest& request, runtime::Device* device) {
  interchange::ReadOptions options;
  options.set_device(device);
  options.subgraph = request.subgraph;
  options.map = request.map;
  for (const std::string& answer : request.answers) options.answer(answer);
  return options;
}

/// The vocabulary and the labels that an export has beside it. The first ids are special; those of
/// a decoder stand in no file.
void take_texts_beside(const ConvertRequest& request, const SourceModel& source,
                       interchange::AssembleOptions& options, interchange::Account& account) {
  if (!request.subgraph.empty()) return;
  const auto lines_beside = [&](const char* ending) {
    const std::string path = request.source + ending;
    if (!fs::exists(path)) return std::vector<std::string>();
    account.find(fmt::format("the texts in '{}'", path));
    return lines_of(path);
  };
  if (request.labels.empty() && source.decoder.empty()) {
    options.labels = lines_beside(".labels.txt");
  }
  const bool reads_ids = std::holds_alternative<interchange::EmbeddingLayer>(source.layers.front());
  if (!reads_ids || !request.words.empty()) return;
  const std::vector<std::string> words = lines_beside(".words.txt");
  if (words.empty()) return;
  options.words = words;
  const std::array<std::string_view, 4> special{"<pad>", "<unk>", "<s>", "</s>"};
  const bool is_ours =
      words.size() > special.size() && std::equal(special.begin(), special.end(), words.begin());
  if (!is_ours || options.pad || options.unknown || options.begin || options.end) return;
  options.pad = data::kPadId;
  options.unknown = data::kUnknownId;
  if (!source.decoder.empty()) return;
  options.begin = data::kBosId;
  options.end = data::kEosId;
}

interchange::AssembleOptions assemble_options(const ConvertRequest& request) {
  return {.kind = request.kind,
          .words = lines_of(request.words),
          .labels = lines_of(request.labels),
          .target_words = lines_of(request.target_words),
          .pad = request.pad,
          .unknown = request.unknown,
          .begin = request.begin,
          .end = request.end};
}

std::string describe(const interchange::SourceCell& cell) {
  std::string text =
      fmt::format("{} {} -> {}", interchange::name_of(cell.kind), cell.input, cell.hidden);
  if (cell.output != cell.hidden) text += fmt::format(" -> {}", cell.output);
  return text;
}

std::string describe(const interchange::SourceLayer& layer) {
  using namespace interchange;
  struct Describe {
    std::string operator()(const EmbeddingLayer& one) const {
      return fmt::format("embedding {} ids -> {}", one.table.shape[0], one.table.shape[1]);
    }
    std::string operator()(const RecurrentLayer& one) const {
      if (!one.forward) return sluice::describe(*one.backward) + ", backward";
      return sluice::describe(*one.forward) + (one.backward ? ", both directions" : "");
    }
    std::string operator()(const LinearLayer& one) const {
      const std::string activation = one.activation.is("linear") ? "" : ", " + one.activation.name;
      return fmt::format("linear {} -> {}{}", one.weight.shape[1], one.weight.shape[0], activation);
    }
    std::string operator()(const AffineLayer& one) const {
      return fmt::format("scale and shift {}", one.scale.shape[0]);
    }
    std::string operator()(const PoolingLayer& one) const { return "pooling by " + one.kind; }
    std::string operator()(const CrfLayer& one) const {
      return fmt::format("CRF of {} labels", one.start.shape[0]);
    }
  };
  return fmt::format("{}: {}", name_of(layer), std::visit(Describe{}, layer));
}

/// The source as a chain, and as a model of Sluice.
struct Read {
  SourceModel source;
  interchange::Assembled made;
  bool asked_for_device = false;
};

Read read(const ConvertRequest& request, SourceFormat format, runtime::Device* device) {
  Read result;
  if (format == SourceFormat::kSluice) {
    result.made.container = io::read_model(request.source);
    return result;
  }
  interchange::ReadOptions read_options = sluice::read_options(request, device);
  result.source = interchange::read_source(request.source, format, read_options);
  result.asked_for_device = read_options.asked_for_device();
  interchange::AssembleOptions options = assemble_options(request);
  take_texts_beside(request, result.source, options, result.source.account);
  result.made = interchange::assemble(result.source, options);
  return result;
}

void check(const ConvertRequest& request) {
  SLUICE_CHECK(!request.source.empty(), "there is no source to convert");
  static constexpr auto kTargets = interchange::kTargetNames;
  SLUICE_CHECK(std::ranges::find(kTargets, request.to) != kTargets.end(),
               "'{}' is no format to convert to; use one of {}{}", request.to,
               fmt::join(kTargets, ", "), base::did_you_mean(request.to, kTargets));
  if (request.target.empty()) return;
  const std::string ending = fs::path(request.target).extension().native();
  for (const auto& [known, format] : kEndings) {
    SLUICE_CHECK(
        ending != known || request.to != "sluice",
        "'{}' ends as a file of another program, but --to is sluice, which makes a folder; "
        "say --to {}, or another name",
        request.target, format);
  }
  const bool is_folder = request.to == "sluice" || request.to == "savedmodel";
  is_folder ? api::prepare_output_folder(request.target) : api::prepare_output_file(request.target);
  if (request.to == "sluice") return;
  for (const std::string_view beside : kBeside) {
    const bool is_written =
        (beside != ".index" || request.to == "tf1") && (beside != ".toml" || request.to == "cudnn");
    if (is_written) api::prepare_output_file(request.target + std::string(beside));
  }
}

/// --begin and --end mark texts that a model writes.
void refuse_ids_without_use(const ConvertRequest& request, std::string_view kind) {
  const bool writes_texts = kind == "language_model" || kind == "seq2seq";
  SLUICE_CHECK(writes_texts || (!request.begin && !request.end),
               "--begin and --end mark the texts that a model writes, and a {} writes none: leave "
               "them out, and the ids stay ordinary words",
               kind);
}

/// The source's own program runs the source, and Sluice's models have none.
void refuse_program(const ConvertRequest& request) {
  const bool runs_target = (request.verify_with == "onnxruntime" && request.to == "onnx") ||
                           (request.verify_with == "keras" && request.to == "keras") ||
                           (request.verify_with == "tensorflow" && request.to == "savedmodel");
  const std::string target = request.target.empty() ? "FILE" : request.target;
  base::fail(ErrorCode::kInvalidArgument,
             "--verify-with has the program run the source, and '{}' is a model of Sluice: {}",
             request.source,
             runs_target ? fmt::format("convert without it, then run: sluice convert {} "
                                       "--verify-with {}",
                                       target, request.verify_with)
                         : "use --verify");
}

/// A model of Sluice leaves nothing open.
void refuse_answers(const ConvertRequest& request) {
  const bool has_answers = !request.answers.empty() || !request.words.empty() ||
                           !request.labels.empty() || !request.target_words.empty() ||
                           !request.kind.empty() || !request.map.empty() || request.pad ||
                           request.unknown || request.begin || request.end;
  SLUICE_CHECK(!has_answers,
               "'{}' is a model of Sluice, which has its kind, words and labels: leave out --set, "
               "--kind, --words, --target-words, --labels, --map and special ids",
               request.source);
}

/// The check with no layer that differs.
CheckReport agreed(CheckReport report) {
  const LayerCheck* layer = report.first_to_differ();
  if (layer == nullptr) return report;
  base::fail(
      ErrorCode::kNumeric,
      "layer '{}' of {} differs from {} by up to {:.2g}, which is more than rounding; please "
      "report this with the file",
      layer->name, report.side, report.reference, layer->largest);
}

/// The result of `use`, whose errors say that the disk has something else than was written.
template <typename Use>
auto proving_written(const Use& use) {
  try {
    return use();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    base::fail(error.code(), "what was written is not what was read, and is removed: {}",
               error.what());
  }
}

/// The text with each `from` as `to`.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

double largest_of(const CheckReport& report) {
  double largest = 0;
  for (const LayerCheck& layer : report.layers) largest = std::max(largest, layer.largest);
  return largest;
}

void append(std::string& text, std::string_view title, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) text += fmt::format("{:<9} {}\n", title, line);
}

/// Says whose layout the packed buffers of a target have.
void account_for_layout(const runtime::Device* device, ConvertReport& report) {
  if (device != nullptr) {
    report.found.push_back("the layout of the packed buffer, as cuDNN has it on " + device->name());
    return;
  }
  report.assumed.push_back(
      "the layout of the packed buffer is that of cuDNN's standard algorithm (say --device cuda on "
      "a machine with a GPU to ask cuDNN)");
}

/// Goes through the steps of a conversion; each leaves its findings in the report.
class Conversion {
 public:
  Conversion(const ConvertRequest& request, const api::AfterWrite& after_write)
      : request_(request),
        after_write_(after_write),
        format_(interchange::recognize(request.source)),
        from_sluice_(format_ == SourceFormat::kSluice),
        device_(open_gpu(request)) {}

  ConvertReport run() {
    const bool to_sluice = request_.to == "sluice";
    SLUICE_CHECK(!from_sluice_ || !to_sluice,
                 "'{}' is a model of Sluice already; say by --to what to make of it",
                 request_.source);
    if (from_sluice_) refuse_answers(request_);
    input_ = read(request_, format_, device_.get());
    SLUICE_CHECK(device_ == nullptr || request_.to == "cudnn" || input_.asked_for_device,
                 "--device is for packed buffers of cuDNN, and '{}' has none", request_.source);
    if (!from_sluice_) {
      refuse_ids_without_use(request_, input_.made.kind);
      describe_source();
    }
    const bool is_proved_from_disk = to_sluice && !request_.target.empty();
    if (request_.verify && !from_sluice_ && !is_proved_from_disk) check_source();
    if (!request_.verify_with.empty()) {
      if (from_sluice_) refuse_program(request_);
      report_.difference = api::check_with_program(request_);
    }
    if (to_sluice) {
      write_checkpoint();
    } else {
      write_export();
    }
    list_files();
    return std::move(report_);
  }

 private:
  void describe_source() {
    report_.format = input_.source.format;
    for (const auto& layer : input_.source.layers) report_.layers.push_back(describe(layer));
    for (const auto& layer : input_.source.decoder) report_.layers.push_back(describe(layer));
    report_.found = input_.source.account.found;
    report_.assumed = input_.source.account.assumed;
    report_.left_out = input_.source.account.left_out;
    report_.kind = input_.made.kind;
  }

  void check_source() {
    report_.check = agreed(api::check_conversion(input_.source, input_.made, request_.seed));
  }

  /// Without --verify, straight to the target. With it, the target gets its name when what lies on
  /// the disk is proved.
  template <typename Write, typename Prove>
  void write(const Write& write, const Prove& prove) const {
    if (request_.target.empty()) return;
    if (!request_.verify) return write(fs::path(request_.target));
    api::StagedOutput staged(request_.target);
    try {
      write(staged.path());
      if (after_write_) after_write_(staged.path());
      prove(staged.path());
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kOutOfMemory) throw;
      base::fail(error.code(), "{}",
                 replaced(error.what(), staged.path().native(), request_.target));
    }
    staged.commit();
  }

  void list_files() {
    if (request_.target.empty()) return;
    report_.files.push_back(request_.target);
    if (request_.to == "sluice") return;
    for (const std::string_view ending : kBeside) {
      const std::string path = request_.target + std::string(ending);
      if (fs::exists(path)) report_.files.push_back(path);
    }
  }

  void write_checkpoint() {
    write(
        [&](const fs::path& path) {
          io::write_checkpoint(path, input_.made.container, nullptr, &request_.warnings);
        },
        [&](const fs::path& path) {
          input_.made.container = {};  // There may be no memory for two.
          input_.made.container = proving_written([&] { return io::read_model(path); });
          check_source();
        });
  }

  void write_export() {
    const interchange::Export exported = interchange::export_model(
        input_.made.container, request_.to, from_sluice_ ? request_.subgraph : "");
    describe_export(exported);
    if (request_.verify && request_.target.empty() && !exported.chain.layers.empty()) {
      const CheckReport check =
          agreed(api::check_conversion(exported.chain, exported.model, request_.seed));
      if (!report_.check) report_.check = check;
    }
    if (request_.to == "cudnn") account_for_layout(device_.get(), report_);
    write(
        [&](const fs::path& path) {
          interchange::write_target(exported, request_.to, path, device_.get());
        },
        [&](const fs::path& path) { prove_export(exported, path); });
  }

  void describe_export(const interchange::Export& exported) {
    if (from_sluice_) {
      report_.format = "a model of Sluice";
      report_.kind = exported.model.kind;
      for (const auto& layer : exported.chain.layers) report_.layers.push_back(describe(layer));
    }
    if (!exported.chain.pieces.empty()) {
      report_.found.emplace_back(
          "the ids of the export: those of its words file, where four special ids come first");
    }
    for (const auto& line : exported.chain.account.assumed) report_.assumed.push_back(line);
    for (const auto& line : exported.chain.account.left_out) report_.left_out.push_back(line);
  }

  void prove_export(const interchange::Export& exported, const fs::path& path) {
    SourceModel back = proving_written(
        [&] { return interchange::read_back(exported, request_.to, path, device_.get()); });
    report_.written = 0;
    if (back.layers.empty()) return;  // a seq2seq, whose tensors read_back() compares
    back.format = replaced(back.format, path.native(), request_.target);
    const SourceModel& source = from_sluice_ ? exported.chain : input_.source;
    const interchange::Assembled& made = from_sluice_ ? exported.model : input_.made;
    const CheckReport written =
        api::check_written(source, made, back, exported.model.pairs, request_.seed);
    report_.written = largest_of(proving_written([&] { return agreed(written); }));
    const CheckReport check = agreed(api::check_conversion(back, exported.model, request_.seed));
    if (!report_.check) report_.check = check;
  }

  const ConvertRequest& request_;
  const api::AfterWrite& after_write_;
  const SourceFormat format_;
  const bool from_sluice_;
  const std::unique_ptr<runtime::Device> device_;  ///< whose cuDNN lays buffers out; or null
  Read input_;
  ConvertReport report_;
};

}  // namespace

namespace api {

ConvertReport run_conversion(const ConvertRequest& request, const AfterWrite& after_write) {
  check(request);
  try {
    return Conversion(request, after_write).run();
  } catch (const std::bad_alloc&) {
    base::fail(ErrorCode::kOutOfMemory, "there is too little memory to convert '{}'",
               request.source);
  }
}

}  // namespace api

ConvertReport convert(const ConvertRequest& request) { return api::run_conversion(request); }

std::string to_text(const ConvertReport& report) {
  std::string text = fmt::format("{:<9} {}\n", "source", report.format);
  append(text, "layer", report.layers);
  append(text, "found", report.found);
  append(text, "assumed", report.assumed);
  append(text, "left out", report.left_out);
  if (!report.kind.empty()) text += fmt::format("{:<9} {}\n", "model", report.kind);
  if (report.check) {
    text += to_text(*report.check) +
            fmt::format("The largest difference is {:.2g}.\n", largest_of(*report.check));
  }
  if (report.written) {
    text += fmt::format(
        "Read back from the disk, what was written computes the same as the source (largest "
        "difference {:.2g}).\n",
        *report.written);
  }
  if (report.difference) {
    text += fmt::format("The source's own program computes the same (largest difference {:.2g}).\n",
                        *report.difference);
  }
  return text;
}

}  // namespace sluice
