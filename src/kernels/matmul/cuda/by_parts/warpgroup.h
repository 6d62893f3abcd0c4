#pragma once

#include <cstdint>

/// Products of a warpgroup (128 threads) on Hopper's tensor cores, and the barriers in shared
/// memory that stages are handed over by.
namespace sluice::kernels::matmul::cuda::by_parts {

inline constexpr int kWarpgroup = 128;
inline constexpr int kLineBytes = 128;
/// Of the depth that one instruction takes.
inline constexpr int kProductDepth = 16, kProductBytes = 2 * kProductDepth;

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void begin_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void wait_for_phase(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
/// Tensor cores will find what this thread has written to shared memory.
__device__ inline void publish_to_tensor_cores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Where the tensor cores find lines of 128 bytes of depth, their 16-byte pieces swapped by the
/// last three bits of the line's number, from the 1024-aligned group of eight lines on that begins
/// at `address` but for the depth before it.
__device__ inline std::uint64_t lines_at(std::uint32_t address) {
  constexpr std::uint64_t kSwizzle128 = 1, kGroupBytes = std::uint64_t{8} * kLineBytes;
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) | std::uint64_t{1} << 16 |
         (kGroupBytes >> 4) << 32 | kSwizzle128 << 62;
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

/// sums [64, 128] = a [64, 16] * the transpose of b [128, 16], added if `add`. Lane l of warp w has
/// of a, which is bfloat16, of the columns 2 (l % 4) and + 1 in a[0] those of row 16 w + l / 4, in
/// a[1] those of the row 8 below, and in a[2] and a[3] those of the columns 8 behind. Of the i-th 8
/// columns of the sums it has 2 (l % 4) and + 1 of the first row in sums[4 i] and + 1, and of the
/// other one in sums[4 i + 2] and + 3.
__device__ inline void multiply_lines(float (&d)[64], const unsigned (&a)[4], std::uint64_t b,
                                      int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
      "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "{%64,%65,%66,%67}, %68, p, 1, 1, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

}  // namespace sluice::kernels::matmul::cuda::by_parts
