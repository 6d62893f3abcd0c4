#include "api/precision.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention_decoder/attention_decoder.h"
#include "kernels/recurrent/portable.h"
#include "kernels/recurrent/recurrent.h"
#include "models/seq2seq_config.h"

namespace sluice::api {
namespace {

namespace recurrent = kernels::recurrent;

constexpr std::string_view kInstead =
    "use float32, to which auto widens a model that is stored in bfloat16";

/// Whether any but the portable loops, which convert each number, runs such a layer here.
bool has_fast_layers(runtime::DType dtype, const runtime::Device& device) {
  recurrent::Descriptor layer;
  layer.dtype = dtype;
  layer.time = layer.rows = layer.layers = 1;
  layer.input = layer.hidden = 64;
  return std::ranges::any_of(recurrent::candidates(device), [&](const auto& candidate) {
    return !candidate.peer && candidate.name != recurrent::kPortable &&
           !recurrent::refusal(candidate, layer, device);
  });
}

bool has_decoders(runtime::DType dtype, const runtime::Device& device) {
  kernels::attention_decoder::Descriptor decoder;
  decoder.dtype = dtype;
  decoder.embedding = decoder.hidden = decoder.memory = decoder.key = decoder.output = 64;
  decoder.target_time = decoder.source_time = decoder.rows = 1;
  return std::ranges::any_of(
      kernels::attention_decoder::candidates(device),
      [&](const auto& candidate) { return !candidate.refuse(decoder, device); });
}

}  // namespace

void require_fast(const runtime::Precision& precision, const runtime::Device& device,
                  std::string_view kind) {
  const runtime::DType dtype = precision.storage;
  if (!device.runs_host_kernels() || base::size_of(dtype) != 2) return;
  const std::string_view name = base::name_of(dtype);
  SLUICE_CHECK(dtype == runtime::DType::kBFloat16, "precision {} is a GPU's, not a CPU's; {}", name,
               kInstead);
  SLUICE_CHECK(kind != models::Seq2SeqConfig::kKind || has_decoders(dtype, device),
               "precision {} on a CPU is not for models of kind {}, whose decoders, with and "
               "without attention, run in float32 there; {}",
               name, kind, kInstead);
  SLUICE_CHECK(has_fast_layers(dtype, device),
               "precision {} needs a CPU with AVX512_BF16 or AMX, which this one lacks: recurrent "
               "layers would be several times slower than in float32; {}",
               name, kInstead);
}

}  // namespace sluice::api
