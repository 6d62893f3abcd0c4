#include "kernels/attention_decoder/cpu/candidates.h"

#include <array>

#include "kernels/attention_decoder/cpu/plan.h"

namespace sluice::kernels::attention_decoder::cpu {
namespace {

std::optional<std::string> refuse_portable(const Descriptor& d, runtime::DeviceType device) {
  if (device == runtime::DeviceType::kCuda) return "it runs on host memory only";
  if (d.dtype == DType::kFloat32 || d.dtype == DType::kFloat64) return std::nullopt;
  return fmt::format("it stores float32 or float64, not {}", base::name_of(d.dtype));
}

std::unique_ptr<Plan> create_portable(const Descriptor& d) {
  return base::dispatch_master(d.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return make_plan<T>(d, "portable",
                        {&recurrent::cpu::portable_leaf<T>(), &portable_attention_leaf<T>()});
  });
}

constexpr std::array kCandidates{Candidate{"portable", refuse_portable, create_portable}};

}  // namespace

std::span<const Candidate> candidates() { return kCandidates; }

}  // namespace sluice::kernels::attention_decoder::cpu
