#include "interchange/assembly_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model_files/model_text.h"

namespace sluice::interchange {
namespace {

// The logit of ids that the source lacks: their probability is zero in float32.
constexpr float kNever = -1e4F;

}  // namespace

void add_stack(CanonicalStack& stack, const std::string& prefix, Parts& parts) {
  for (std::size_t layer = 0; layer < stack.layers.size(); ++layer) {
    const auto take = [&](std::optional<CanonicalCell>& cell, const char* ending) {
      if (!cell) return;
      const auto name = [&](const char* part) {
        return fmt::format("{}{}_l{}{}", prefix, part, layer, ending);
      };
      parts[name("weight_ih")] = std::move(cell->weight_ih);
      parts[name("weight_hh")] = std::move(cell->weight_hh);
      parts[name("bias_ih")] = std::move(cell->bias_ih);
      parts[name("bias_hh")] = std::move(cell->bias_hh);
      parts[name("weight_hr")] = std::move(cell->weight_hr);
      parts[name("weight_peephole")] = std::move(cell->weight_peephole);
    };
    take(stack.layers[layer].forward, "");
    take(stack.layers[layer].backward, "_reverse");
  }
}

Floats spread_rows(const EmbeddingLayer& embedding, const std::vector<std::int32_t>& ids,
                   std::int64_t vocabulary) {
  const auto values = embedding.table.values<float>();
  const std::int64_t width = embedding.table.shape[1];
  Floats rows(static_cast<std::size_t>(vocabulary * width));
  for (std::int64_t id = 0; id < embedding.table.shape[0]; ++id) {
    std::copy_n(values.begin() + id * width, width,
                rows.begin() + std::int64_t{ids[static_cast<std::size_t>(id)]} * width);
  }
  return rows;
}

OutputRows spread_rows(const OutputRows& rows, const std::vector<std::int32_t>& ids,
                       std::int64_t vocabulary) {
  const std::size_t width = rows.weight.size() / rows.bias.size();
  OutputRows spread{Floats(static_cast<std::size_t>(vocabulary) * width),
                    Floats(static_cast<std::size_t>(vocabulary), kNever)};
  for (std::size_t id = 0; id < rows.bias.size(); ++id) {
    const auto place = static_cast<std::size_t>(ids[id]);
    std::copy_n(rows.weight.data() + id * width, width, spread.weight.data() + place * width);
    spread.bias[place] = rows.bias[id];
  }
  return spread;
}

io::Container container_of(const models::Model& model, const Parts& parts,
                           const model_files::Tokenizers& tokenizers, const std::string& path) {
  io::Container container;
  for (const layers::ParameterSpec& spec : model.parameters().specs()) {
    auto part = parts.find(spec.name);
    if (part == parts.end()) part = parts.find(spec.name.substr(spec.name.find('.') + 1));
    SLUICE_ASSERT(part != parts.end());
    if (!std::ranges::all_of(part->second, [](float number) { return std::isfinite(number); })) {
      base::fail(ErrorCode::kNumeric,
                 "'{}': '{}' has numbers that are not finite, so the model would answer nothing",
                 path, spec.name);
    }
    container.tensors.add(spec.name, io::HostTensor::copy_of<float>(part->second, spec.shape));
  }
  // Training that starts from this model takes the defaults, but for the kind.
  const std::string run = fmt::format("[model]\nkind = \"{}\"\n", model.kind());
  container.text = model_files::to_json({model.configuration(), run});
  container.blobs = model_files::to_blobs(tokenizers);
  return container;
}

}  // namespace sluice::interchange
