#include "kernels/recurrent/cpu/candidates.h"

#include <array>

#include "kernels/recurrent/cpu/leaves.h"
#include "kernels/recurrent/cpu/onednn_stack.h"
#include "kernels/recurrent/cpu/sequence.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

std::optional<std::string> refuse_portable(const Descriptor& descriptor, const runtime::Device&) {
  if (descriptor.dtype == DType::kFloat16) return "it computes float64, float32 and bfloat16";
  return std::nullopt;
}

std::unique_ptr<Plan> create_portable(const Descriptor& descriptor, const runtime::Device&) {
  return base::dispatch_storage(descriptor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return make_sequence<T>(descriptor, "portable", portable_leaf<T>());
  });
}

std::optional<std::string> refuse_leaf(const Descriptor& descriptor, DType dtype, const void* leaf,
                                       std::string_view needs) {
  if (descriptor.dtype != dtype) {
    return fmt::format("it computes {}, not {}", base::name_of(dtype),
                       base::name_of(descriptor.dtype));
  }
  if (leaf == nullptr) return fmt::format("this machine has no {}", needs);
  return std::nullopt;
}

std::optional<std::string> refuse_amx(const Descriptor& descriptor, const runtime::Device&) {
  constexpr std::string_view kNeeds = "AMX-BF16 that the system lends";
  if (descriptor.dtype == DType::kBFloat16) {
    return refuse_leaf(descriptor, DType::kBFloat16, amx_leaf_bf16(), kNeeds);
  }
  if (auto reason = refuse_leaf(descriptor, DType::kFloat32, amx_leaf_f32(), kNeeds)) {
    return reason;
  }
  if (descriptor.rows < kAmxF32Rows) {
    return fmt::format("{} rows of float32 leave its tiles empty; it wants {}", descriptor.rows,
                       kAmxF32Rows);
  }
  if (descriptor.widest_output() > kAmxF32Depth) {
    return fmt::format("it steps from at most {} features of float32, not {}", kAmxF32Depth,
                       descriptor.widest_output());
  }
  return std::nullopt;
}

std::unique_ptr<Plan> create_amx(const Descriptor& descriptor, const runtime::Device&) {
  if (descriptor.dtype == DType::kFloat32) {
    return make_sequence(descriptor, "amx", *amx_leaf_f32());
  }
  return make_sequence(descriptor, "amx", *amx_leaf_bf16());
}

std::optional<std::string> refuse_avx512(const Descriptor& descriptor, const runtime::Device&) {
  if (descriptor.dtype == DType::kBFloat16) {
    return refuse_leaf(descriptor, DType::kBFloat16, avx512_leaf_bf16(), "AVX512_BF16");
  }
  return refuse_leaf(descriptor, DType::kFloat32, avx512_leaf_f32(), "AVX-512");
}

std::unique_ptr<Plan> create_avx512(const Descriptor& descriptor, const runtime::Device&) {
  if (descriptor.dtype == DType::kBFloat16) {
    return make_sequence(descriptor, "avx512", *avx512_leaf_bf16());
  }
  return make_sequence(descriptor, "avx512", *avx512_leaf_f32());
}

std::optional<std::string> refuse_avx2(const Descriptor& descriptor, const runtime::Device&) {
  return refuse_leaf(descriptor, DType::kFloat32, avx2_leaf_f32(), "AVX2 with FMA");
}

std::unique_ptr<Plan> create_avx2(const Descriptor& descriptor, const runtime::Device&) {
  return make_sequence(descriptor, "avx2", *avx2_leaf_f32());
}

constexpr std::array kCandidates{
    Candidate{"amx", false, refuse_amx, create_amx},
    Candidate{"avx512", false, refuse_avx512, create_avx512},
    Candidate{"avx2", false, refuse_avx2, create_avx2},
    Candidate{"portable", false, refuse_portable, create_portable},
    Candidate{"onednn", true, refuse_onednn, create_onednn},
};

}  // namespace

const Candidates& candidates() {
  static constexpr Candidates kAll{kCandidates};
  return kAll;
}

}  // namespace sluice::kernels::recurrent::cpu
