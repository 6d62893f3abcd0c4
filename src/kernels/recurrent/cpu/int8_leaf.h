#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/recurrent/cpu/leaf.h"

/// Leaves whose products take 8-bit weights and activations (kernels/matmul/cpu/i8_leaf.h); state,
/// gates and cells stay float32, and the cells are those of a float32 leaf on a recurrent product
/// that is there already. For inference: they have no transposes.
namespace sluice::kernels::recurrent::cpu {

enum class Int8Isa { kAvx512Vnni, kAvxVnni, kAvx2, kPortable };

/// The name of an implementation: "int8-avx2".
constexpr std::string_view name_of(Int8Isa isa) {
  if (isa == Int8Isa::kAvx512Vnni) return "int8-avx512-vnni";
  if (isa == Int8Isa::kAvxVnni) return "int8-avx-vnni";
  return isa == Int8Isa::kAvx2 ? "int8-avx2" : "int8-portable";
}

/// Null where this machine lacks the instructions.
const Leaf<float>* int8_leaf(Int8Isa isa);

/// Why there is none for products so deep, or nothing.
std::optional<std::string> refuse_int8_leaf(Int8Isa isa, std::int64_t depth);

}  // namespace sluice::kernels::recurrent::cpu
