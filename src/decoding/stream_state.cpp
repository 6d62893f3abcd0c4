#include "decoding/stream_state.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/dtype.h"

namespace sluice::decoding {
namespace {

using base::DType;
using io::HostTensor;
using models::Context;
using models::StateTensor;
using models::Tensor;

/// Of floating-point numbers on the host: float64 stays.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

HostTensor download(const Context& context, const Tensor& tensor) {
  if (tensor.dtype() == DType::kInt32) {
    const auto values = context.download<std::int32_t>(tensor);
    return HostTensor::copy_of<std::int32_t>(values, tensor.shape());
  }
  return base::dispatch_float(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto values = context.download<T>(tensor);
    std::vector<Wide<T>> wide(values.size());
    std::transform(values.begin(), values.end(), wide.begin(),
                   [](T value) { return static_cast<Wide<T>>(value); });
    return HostTensor::copy_of<Wide<T>>(wide, tensor.shape());
  });
}

/// The tensor of `state` that goes to `to`, if it fits.
const HostTensor& require(const io::TensorTable& state, const StateTensor& to) {
  const HostTensor* from = state.find(to.name);
  if (from == nullptr) {
    base::fail(ErrorCode::kFormat, "the saved state lacks '{}', which this model's has", to.name);
  }
  const Tensor& tensor = to.value;
  if (from->shape != tensor.shape()) {
    base::fail(ErrorCode::kFormat, "the saved state's '{}' has shape {}, but this model's has {}",
               to.name, from->shape.to_string(), tensor.shape().to_string());
  }
  const DType wanted =
      tensor.dtype() == DType::kInt32 ? DType::kInt32 : base::policy_of(tensor.dtype()).master;
  if (from->dtype != wanted) {
    base::fail(ErrorCode::kFormat, "the saved state's '{}' is {} instead of {}", to.name,
               base::name_of(from->dtype), base::name_of(wanted));
  }
  return *from;
}

void upload(const Context& context, const Tensor& tensor, const HostTensor& from) {
  if (tensor.dtype() == DType::kInt32) {
    return context.upload<std::int32_t>(tensor, from.values<std::int32_t>());
  }
  base::dispatch_float(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto wide = from.values<Wide<T>>();
    std::vector<T> values(wide.size());
    std::transform(wide.begin(), wide.end(), values.begin(),
                   [](Wide<T> value) { return static_cast<T>(value); });
    context.upload<T>(tensor, values);
  });
}

/// FNV-1a over words of 64 bits, the last one padded with zeros.
std::uint64_t digest(std::uint64_t hash, std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    hash = (hash ^ word) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

io::TensorTable download_state(const Context& context, std::span<const StateTensor> tensors) {
  io::TensorTable state;
  for (const StateTensor& tensor : tensors) {
    state.add(tensor.name, download(context, tensor.value));
  }
  return state;
}

void upload_state(const Context& context, std::span<const StateTensor> tensors,
                  const io::TensorTable& state) {
  if (state.size() != tensors.size()) {
    base::fail(ErrorCode::kFormat, "the saved state has {} tensors, but this model's has {}",
               state.size(), tensors.size());
  }
  std::vector<const HostTensor*> saved;
  for (const StateTensor& tensor : tensors) saved.push_back(&require(state, tensor));
  for (std::size_t i = 0; i < saved.size(); ++i) upload(context, tensors[i].value, *saved[i]);
}

std::string identity_of(const Context& context, const models::Model& model) {
  const std::string configuration = model.configuration();
  std::uint64_t hash = digest(0xcbf29ce484222325, std::as_bytes(std::span(configuration)));
  const HostTensor weights = download(context, model.parameters().values());
  hash = digest(hash, weights.data);
  return fmt::format("{} {:016x}", model.kind(), hash);
}

}  // namespace sluice::decoding
