#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sluice/convert.h>

#include "loaded.h"

namespace sluice::python {
namespace {

nb::list to_python(const std::vector<std::string>& lines) {
  nb::list list;
  for (const std::string& line : lines) list.append(to_text(line));
  return list;
}

nb::dict to_python(const ConvertReport& report) {
  nb::dict dict;
  dict["format"] = to_text(report.format);
  dict["kind"] = to_text(report.kind);
  dict["layers"] = to_python(report.layers);
  dict["found"] = to_python(report.found);
  dict["assumed"] = to_python(report.assumed);
  dict["left_out"] = to_python(report.left_out);
  dict["text"] = to_text(sluice::to_text(report));
  dict["written"] = report.written;
  dict["check"] = nb::none();
  if (report.check) {
    dict["check"] = nb::make_tuple(to_text(sluice::to_json(*report.check)),
                                   to_text(sluice::to_text(*report.check)));
  }
  return dict;
}

}  // namespace

void bind_convert(nb::module_& module) {
  using Id = std::optional<std::int64_t>;
  module.def(
      "convert",
      [](std::string source, std::string target, std::string to, std::string kind,
         std::string words, std::string labels, std::string target_words, Id pad, Id unknown,
         Id begin, Id end, std::string subgraph, std::string map, std::vector<std::string> answers,
         bool verify, std::uint64_t seed, std::string device) {
        Calls calls;
        const ConvertRequest request{.source = std::move(source),
                                     .target = std::move(target),
                                     .to = std::move(to),
                                     .kind = std::move(kind),
                                     .words = std::move(words),
                                     .labels = std::move(labels),
                                     .target_words = std::move(target_words),
                                     .pad = pad,
                                     .unknown = unknown,
                                     .begin = begin,
                                     .end = end,
                                     .subgraph = std::move(subgraph),
                                     .map = std::move(map),
                                     .device = std::move(device),
                                     .answers = std::move(answers),
                                     .verify = verify,
                                     .seed = seed,
                                     .verify_with = {},
                                     .warnings = calls.warnings()};
        return to_python(calls.run([&] { return convert(request); }));
      },
      "source"_a, "target"_a, "to"_a, "kind"_a, "words"_a, "labels"_a, "target_words"_a,
      "pad"_a.none(), "unknown"_a.none(), "begin"_a.none(), "end"_a.none(), "subgraph"_a, "map"_a,
      "answers"_a, "verify"_a, "seed"_a, "device"_a);
}

}  // namespace sluice::python
