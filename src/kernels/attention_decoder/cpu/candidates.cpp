#include "kernels/attention_decoder/cpu/candidates.h"

#include <algorithm>
#include <array>

#include "kernels/attention_decoder/cpu/plan.h"
#include "kernels/recurrent/cpu/int8_leaf.h"
#include "kernels/recurrent/cpu/leaves.h"

namespace sluice::kernels::attention_decoder::cpu {
namespace {

/// 8 bits are allowed, not asked for: others compute in float32 throughout.
Descriptor exact(Descriptor d) {
  d.int8 = false;
  return d;
}

/// An instruction set's float32 leaves, both of which must be there.
std::optional<std::string> refuse_leaf(const Descriptor& d, const Leaves<float>& leaf,
                                       std::string_view needs) {
  if (d.dtype != DType::kFloat32) {
    return fmt::format("it computes float32, not {}", base::name_of(d.dtype));
  }
  if (leaf.cells == nullptr || leaf.attention == nullptr) {
    return fmt::format("this machine has no {}", needs);
  }
  return std::nullopt;
}

Leaves<float> avx512() { return {recurrent::cpu::avx512_leaf_f32(), avx512_attention_leaf()}; }
Leaves<float> avx2() { return {recurrent::cpu::avx2_leaf_f32(), avx2_attention_leaf()}; }

std::optional<std::string> refuse_avx512(const Descriptor& d, const runtime::Device&) {
  return refuse_leaf(d, avx512(), "AVX-512 F, DQ and VL");
}
std::unique_ptr<Plan> create_avx512(const Descriptor& d, const runtime::Device&) {
  return make_plan(exact(d), "avx512", avx512());
}

std::optional<std::string> refuse_avx2(const Descriptor& d, const runtime::Device&) {
  return refuse_leaf(d, avx2(), "AVX2 with FMA");
}
std::unique_ptr<Plan> create_avx2(const Descriptor& d, const runtime::Device&) {
  return make_plan(exact(d), "avx2", avx2());
}

std::optional<std::string> refuse_portable(const Descriptor& d, const runtime::Device&) {
  if (d.dtype == DType::kFloat32 || d.dtype == DType::kFloat64) return std::nullopt;
  return fmt::format("it computes float32 or float64, not {}", base::name_of(d.dtype));
}

std::unique_ptr<Plan> create_portable(const Descriptor& d, const runtime::Device&) {
  return base::dispatch_master(d.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return make_plan<T>(exact(d), "portable",
                        {&recurrent::cpu::portable_leaf<T>(), &portable_attention_leaf<T>()});
  });
}

using recurrent::cpu::Int8Isa;

/// That of the same registers.
const AttentionLeaf<float>* attention_of(Int8Isa isa) {
  if (isa == Int8Isa::kAvx512Vnni) return avx512_attention_leaf();
  return isa == Int8Isa::kPortable ? &portable_attention_leaf<float>() : avx2_attention_leaf();
}

template <Int8Isa kIsa>
std::optional<std::string> refuse_int8(const Descriptor& d, const runtime::Device&) {
  if (!d.int8) return "it computes with 8-bit weights, which precision int8 allows";
  if (attention_of(kIsa) == nullptr) return "this machine lacks the instructions";
  return recurrent::cpu::refuse_int8_leaf(kIsa,
                                          std::max({d.embedding, d.hidden, d.memory, d.output}));
}

template <Int8Isa kIsa>
std::unique_ptr<Plan> create_int8(const Descriptor& d, const runtime::Device&) {
  return make_plan<float>(d, recurrent::cpu::name_of(kIsa),
                          {recurrent::cpu::int8_leaf(kIsa), attention_of(kIsa)});
}

template <Int8Isa kIsa>
constexpr Candidate kInt8Candidate{recurrent::cpu::name_of(kIsa), refuse_int8<kIsa>,
                                   create_int8<kIsa>};

constexpr std::array kCandidates{
    kInt8Candidate<Int8Isa::kAvx512Vnni>,
    kInt8Candidate<Int8Isa::kAvxVnni>,
    kInt8Candidate<Int8Isa::kAvx2>,
    kInt8Candidate<Int8Isa::kPortable>,
    Candidate{"avx512", refuse_avx512, create_avx512},
    Candidate{"avx2", refuse_avx2, create_avx2},
    Candidate{"portable", refuse_portable, create_portable},
};

}  // namespace

const Candidates& candidates() {
  static constexpr Candidates kAll{kCandidates};
  return kAll;
}

}  // namespace sluice::kernels::attention_decoder::cpu
