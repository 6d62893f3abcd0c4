#include "kernels/attention_decoder/attention_decoder.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention_decoder/cpu/candidates.h"
#include "kernels/device_kernels.h"
#include "kernels/recurrent/named_choice.h"

namespace sluice::kernels::attention_decoder {

std::string_view name_of(AttentionType attention) {
  return attention == AttentionType::kAdditive ? "additive" : "multiplicative";
}

AttentionType parse_attention(std::string_view name) {
  if (name == "additive") return AttentionType::kAdditive;
  SLUICE_CHECK(name == "multiplicative",
               "unknown attention \"{}\"; known are additive and multiplicative", name);
  return AttentionType::kMultiplicative;
}

void Descriptor::validate() const {
  const auto positive = [](std::string_view what, std::int64_t value) {
    SLUICE_CHECK(value >= 1, "an attention decoder needs {} of at least 1, not {}", what, value);
  };
  positive("layers", layers);
  positive("an embedding width", embedding);
  positive("a hidden width", hidden);
  positive("a memory width", memory);
  positive("an output width", output);
  positive("a target time", target_time);
  positive("a source time", source_time);
  positive("a number of rows", rows);
  if (attention == AttentionType::kAdditive) {
    positive("a key width", key);
  } else {
    SLUICE_CHECK(key == 0, "multiplicative attention has no key width; {} given", key);
  }
  SLUICE_CHECK(dropout >= 0 && dropout < 1, "a dropout rate lies in [0, 1), not {}", dropout);
  SLUICE_CHECK(!int8 || (dtype == DType::kFloat32 && !training),
               "8-bit products are those of float32 inference, not of {}",
               training ? std::string("training") : std::string(base::name_of(dtype)));
}

std::span<const Candidate> candidates(const runtime::Device& device) {
  return leaves_of(device, cpu::candidates(), &DeviceKernels::attention_decoder,
                   "attention_decoder")
      .list;
}

namespace {

/// Returns the implementation that the context's Tuning names for decoders, else "auto".
std::string_view named_choice(const Context& context) {
  const runtime::Tuning* tuning = context.tuning();
  const std::string* named = tuning == nullptr ? nullptr : tuning->find(recurrent::kEveryStack);
  if (named == nullptr) return "auto";
  const auto& list = candidates(context.device());
  return std::ranges::find(list, *named, &Candidate::name) == list.end() ? std::string_view("auto")
                                                                         : std::string_view(*named);
}

}  // namespace

Choice make_plan(const Context& context, const Descriptor& wanted,
                 std::string_view implementation) {
  Descriptor descriptor = wanted;
  const bool inference = wanted.dtype == DType::kFloat32 && !wanted.training;
  descriptor.int8 = wanted.int8 || (inference && context.precision().int8);
  descriptor.tf32 = wanted.dtype == DType::kFloat32 && context.tf32();
  descriptor.validate();
  recurrent::require_int8_device(descriptor.int8, context.device());
  if (implementation == "auto") implementation = named_choice(context);
  Choice choice;
  std::string known;
  for (const Candidate& candidate : candidates(context.device())) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", candidate.name);
    if (implementation != "auto" && candidate.name != implementation) continue;
    if (auto reason = candidate.refuse(descriptor, context.device())) {
      choice.declined.push_back({candidate.name, std::move(*reason)});
      continue;
    }
    choice.plan = candidate.create(descriptor, context.device());
    return choice;
  }
  std::string reasons;
  for (const recurrent::Declined& declined : choice.declined) {
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", declined.name, declined.reason);
  }
  base::fail(ErrorCode::kUnsupported, "{} of an attention decoder can run here ({})",
             implementation == "auto" ? "no implementation"
                                      : fmt::format("no implementation \"{}\"", implementation),
             reasons.empty() ? "known are " + known : reasons);
}

}  // namespace sluice::kernels::attention_decoder
