#include <array>

#include "base/check.h"
#include "kernels/attention_decoder/cuda/attention_decoder.h"
#include "kernels/attention_decoder/cuda/attention_kernels.h"
#include "kernels/attention_decoder/cuda/float16_plan.h"
#include "kernels/attention_decoder/cuda/persistent/launch.h"
#include "kernels/attention_decoder/cuda/plan.h"
#include "runtime/cuda/cuda_device.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

std::optional<std::string> refuse_stepwise(const Descriptor& d, const runtime::Device& device) {
  switch (d.dtype) {
    case DType::kFloat64:
    case DType::kFloat32:
    case DType::kBFloat16:
    case DType::kFloat16:
      break;
    default:
      return fmt::format("it computes float64, float32, bfloat16 or float16, not {}",
                         base::name_of(d.dtype));
  }
  constexpr std::int64_t kMostRows = 65535;  // of a grid's second dimension
  if (d.rows > kMostRows) return fmt::format("it takes {} rows, not {}", kMostRows, d.rows);
  const std::size_t shared =
      attention_shared_bytes(d.source_time, padded(d.key_width()), padded(d.memory), d.dtype);
  const std::size_t most = static_cast<const runtime::cuda::CudaDevice&>(device).gpu().shared_bytes;
  if (shared <= most) return std::nullopt;
  return fmt::format(
      "a row's attention over {} source positions needs {} KiB of shared memory, "
      "of which there are {}",
      d.source_time, shared >> 10, most >> 10);
}

std::unique_ptr<Plan> create_stepwise(const Descriptor& d, const runtime::Device&) {
  constexpr std::string_view kName = "stepwise";
  switch (d.dtype) {
    case DType::kFloat64:
      return make_plan<double>(d, kName);
    case DType::kBFloat16:
      return make_plan<__nv_bfloat16>(d, kName);
    case DType::kFloat16:
      return make_plan<__half>(d, kName);
    default:
      return make_plan<float>(d, kName);
  }
}

constexpr std::string_view kStepwiseFloat16 = "stepwise-float16",
                           kPersistentFloat16 = "persistent-float16";

std::optional<std::string> refuse_stepwise_float16(const Descriptor& d,
                                                   const runtime::Device& device) {
  auto reason = refuse_float16(d);
  return reason ? reason : refuse_stepwise(d, device);
}

std::unique_ptr<Plan> create_stepwise_float16(const Descriptor& d, const runtime::Device&) {
  return make_float16_plan(d, kStepwiseFloat16);
}

std::optional<std::string> refuse_persistent_float16(const Descriptor& d,
                                                     const runtime::Device& device) {
  auto reason = refuse_stepwise_float16(d, device);
  return reason ? reason : persistent::refuse(in_float16(d), device);
}

std::unique_ptr<Plan> create_persistent_float16(const Descriptor& d, const runtime::Device&) {
  return make_float16_plan(d, kPersistentFloat16, true);
}

/// Single steps are those of "stepwise".
std::optional<std::string> refuse_persistent(const Descriptor& d, const runtime::Device& device) {
  auto reason = persistent::refuse(d, device);
  return reason ? reason : refuse_stepwise(d, device);
}

std::unique_ptr<Plan> create_persistent(const Descriptor& d, const runtime::Device&) {
  constexpr std::string_view kName = "persistent";
  if (d.dtype == DType::kBFloat16) return make_plan<__nv_bfloat16>(d, kName, true);
  return make_plan<__half>(d, kName, true);
}

constexpr std::array kList{
    Candidate{kPersistentFloat16, refuse_persistent_float16, create_persistent_float16},
    Candidate{kStepwiseFloat16, refuse_stepwise_float16, create_stepwise_float16},
    Candidate{"persistent", refuse_persistent, create_persistent},
    Candidate{"stepwise", refuse_stepwise, create_stepwise}};

}  // namespace

constinit const Candidates kCandidates{kList};

}  // namespace sluice::kernels::attention_decoder::cuda
