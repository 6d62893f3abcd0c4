#include "kernels/recurrent/cpu/candidates.h"

#include <algorithm>
#include <array>

#include "kernels/onednn_part.h"
#include "kernels/recurrent/cpu/int8_leaf.h"
#include "kernels/recurrent/cpu/leaves.h"
#include "kernels/recurrent/cpu/sequence.h"
#include "kernels/recurrent/portable.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

/// 8 bits are allowed, not asked for: others compute in float32 throughout.
Descriptor exact(Descriptor descriptor) {
  descriptor.int8 = false;
  return descriptor;
}

std::optional<std::string> refuse_portable(const Descriptor& descriptor, const runtime::Device&) {
  if (descriptor.dtype == DType::kFloat16) return "it computes float64, float32 and bfloat16";
  return std::nullopt;
}

std::unique_ptr<Plan> create_portable(const Descriptor& descriptor, const runtime::Device&) {
  return base::dispatch_storage(descriptor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Leaf<T>& leaf = descriptor.hard_sigmoid ? portable_hard_leaf<T>() : portable_leaf<T>();
    return make_sequence<T>(exact(descriptor), kPortable, leaf);
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

std::int64_t widest_input(const Descriptor& descriptor) {
  std::int64_t widest = 0;
  for (std::int64_t layer = 0; layer < descriptor.layers; ++layer) {
    widest = std::max(widest, descriptor.input_of(layer));
  }
  return widest;
}

/// Bytes that one direction of the largest layer takes in float32 tiles.
std::int64_t amx_f32_bytes(const Descriptor& descriptor) {
  std::int64_t most = 0;
  for (std::int64_t layer = 0; layer < descriptor.layers; ++layer) {
    most = std::max(most, descriptor.input_of(layer) + descriptor.output_of(layer));
  }
  return 6 * descriptor.gates() * descriptor.hidden * most;
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
  if (descriptor.rows < kAmxF32RowsBeyondCache && amx_f32_bytes(descriptor) > kAmxF32Cache) {
    return fmt::format("{} rows are too few for weights that outgrow the cache; it wants {}",
                       descriptor.rows, kAmxF32RowsBeyondCache);
  }
  if (descriptor.widest_output() > kAmxF32Depth) {
    return fmt::format("it steps from at most {} features of float32, not {}", kAmxF32Depth,
                       descriptor.widest_output());
  }
  return std::nullopt;
}

std::unique_ptr<Plan> create_amx(const Descriptor& descriptor, const runtime::Device&) {
  if (descriptor.dtype == DType::kFloat32) {
    return make_sequence(exact(descriptor), "amx", *amx_leaf_f32());
  }
  return make_sequence(exact(descriptor), "amx", *amx_leaf_bf16());
}

std::optional<std::string> refuse_avx512(const Descriptor& descriptor, const runtime::Device&) {
  if (descriptor.dtype == DType::kBFloat16) {
    return refuse_leaf(descriptor, DType::kBFloat16, avx512_leaf_bf16(), "AVX512_BF16");
  }
  return refuse_leaf(descriptor, DType::kFloat32, avx512_leaf_f32(), "AVX-512");
}

std::unique_ptr<Plan> create_avx512(const Descriptor& descriptor, const runtime::Device&) {
  if (descriptor.dtype == DType::kBFloat16) {
    return make_sequence(exact(descriptor), "avx512", *avx512_leaf_bf16());
  }
  return make_sequence(exact(descriptor), "avx512", *avx512_leaf_f32());
}

std::optional<std::string> refuse_avx2(const Descriptor& descriptor, const runtime::Device&) {
  return refuse_leaf(descriptor, DType::kFloat32, avx2_leaf_f32(), "AVX2 with FMA");
}

std::unique_ptr<Plan> create_avx2(const Descriptor& descriptor, const runtime::Device&) {
  return make_sequence(exact(descriptor), "avx2", *avx2_leaf_f32());
}

template <Int8Isa kIsa>
std::optional<std::string> refuse_int8(const Descriptor& descriptor, const runtime::Device&) {
  if (!descriptor.int8) return "it computes with 8-bit weights, which precision int8 allows";
  return refuse_int8_leaf(kIsa, std::max(descriptor.hidden, widest_input(descriptor)));
}

template <Int8Isa kIsa>
std::unique_ptr<Plan> create_int8(const Descriptor& descriptor, const runtime::Device&) {
  return make_sequence(descriptor, name_of(kIsa), *int8_leaf(kIsa));
}

template <Int8Isa kIsa>
constexpr Candidate kInt8Candidate{name_of(kIsa), false, refuse_int8<kIsa>, create_int8<kIsa>};

/// oneDNN's layers, which a part of its own holds.
template <auto kPeer>
std::optional<std::string> refuse_peer(const Descriptor& descriptor,
                                       const runtime::Device& device) {
  const OpenedOnednn& onednn = onednn_part();
  if (onednn.part == nullptr) return onednn.missing;
  return (onednn.part->*kPeer)->refuse(descriptor, device);
}

template <auto kPeer>
std::unique_ptr<Plan> create_peer(const Descriptor& descriptor, const runtime::Device& device) {
  return (onednn_part().part->*kPeer)->create(descriptor, device);
}

template <auto kPeer>
constexpr Candidate peer(std::string_view name) {
  return {name, true, refuse_peer<kPeer>, create_peer<kPeer>};
}

constexpr std::array kCandidates{
    kInt8Candidate<Int8Isa::kAvx512Vnni>,
    kInt8Candidate<Int8Isa::kAvxVnni>,
    kInt8Candidate<Int8Isa::kAvx2>,
    kInt8Candidate<Int8Isa::kPortable>,
    Candidate{"amx", false, refuse_amx, create_amx},
    Candidate{"avx512", false, refuse_avx512, create_avx512},
    Candidate{"avx2", false, refuse_avx2, create_avx2},
    Candidate{
        .name = kPortable,
        .refuse = refuse_portable,
        .create = create_portable,
        .hard_sigmoid = true,
    },
    peer<&OnednnPart::stack>("onednn"),
    peer<&OnednnPart::int8_stack>("onednn-int8"),
};

}  // namespace

const Candidates& candidates() {
  static constexpr Candidates kAll{kCandidates};
  return kAll;
}

}  // namespace sluice::kernels::recurrent::cpu
