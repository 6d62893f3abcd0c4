#include "kernels/recurrent/cpu/candidates.h"

#include <array>

#include "kernels/recurrent/cpu/leaves.h"
#include "kernels/recurrent/cpu/sequence.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

std::optional<std::string> refuse_device(runtime::DeviceType device) {
  if (device != runtime::DeviceType::kCuda) return std::nullopt;
  return "it runs on host memory only";
}

std::optional<std::string> refuse_portable(const Descriptor&, runtime::DeviceType device) {
  return refuse_device(device);
}

std::unique_ptr<Plan> create_portable(const Descriptor& descriptor) {
  return base::dispatch_storage(descriptor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return make_sequence<T>(descriptor, "portable", portable_leaf<T>());
  });
}

constexpr std::array kCandidates{
    Candidate{"portable", false, refuse_portable, create_portable},
};

}  // namespace

std::span<const Candidate> candidates() { return kCandidates; }

}  // namespace sluice::kernels::recurrent::cpu
