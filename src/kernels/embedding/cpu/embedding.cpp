#include "kernels/embedding/cpu/embedding.h"

#include <algorithm>

#include "base/check.h"
#include "base/dtype.h"

namespace sluice::kernels::embedding::cpu {
namespace {

/// Columns of the table that one thread adds to: two cache lines of float32, so that threads don't
/// fight over one.
constexpr std::int64_t kColumnBlock = 32;
constexpr std::int64_t kWorthThreads = 16384;  // elements

struct Tokens {
  const std::int32_t* data;
  std::int64_t count;

  explicit Tokens(const Tensor& tensor)
      : data(tensor.data_as<const std::int32_t>()), count(tensor.element_count()) {}

  void check(std::int64_t vocabulary) const {
    for (std::int64_t i = 0; i < count; ++i) {
      SLUICE_CHECK(data[i] >= 0 && data[i] < vocabulary,
                   "embedding: token {} at position {} is outside a table of {} rows", data[i], i,
                   vocabulary);
    }
  }
};

template <typename T>
void copy_rows(const T* table, const Tokens& tokens, T* out, std::int64_t features) {
#pragma omp parallel for schedule(static) if (tokens.count * features > kWorthThreads)
  for (std::int64_t i = 0; i < tokens.count; ++i) {
    std::copy_n(table + tokens.data[i] * features, features, out + i * features);
  }
}

/// Threads own columns, not rows of the table: frequent words then load no thread more.
template <typename T>
void add_rows(const T* d_out, const Tokens& tokens, std::int32_t padding, T* d_table,
              std::int64_t features) {
#pragma omp parallel for schedule(static) if (tokens.count * features > kWorthThreads)
  for (std::int64_t begin = 0; begin < features; begin += kColumnBlock) {
    const std::int64_t end = std::min(begin + kColumnBlock, features);
    for (std::int64_t i = 0; i < tokens.count; ++i) {
      if (tokens.data[i] == padding) continue;
      const T* from = d_out + i * features;
      T* to = d_table + tokens.data[i] * features;
      for (std::int64_t j = begin; j < end; ++j) to[j] += from[j];
    }
  }
}

}  // namespace

void gather(runtime::Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([table, tokens = Tokens(tokens), out] {
      tokens.check(table.size(0));
      copy_rows(table.data_as<const T>(), tokens, out.data_as<T>(), table.size(1));
    });
  };
  if (table.dtype() == base::DType::kInt32) return launch(base::TypeTag<std::int32_t>{});
  base::dispatch_master(table.dtype(), launch);
}

void gather_backward(runtime::Stream& stream, const GatherBackwardArgs& args) {
  base::dispatch_master(args.d_table.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args, tokens = Tokens(args.tokens)] {
      tokens.check(args.d_table.size(0));
      add_rows(args.d_out.data_as<const T>(), tokens, args.padding, args.d_table.data_as<T>(),
               args.d_table.size(1));
    });
  });
}

}  // namespace sluice::kernels::embedding::cpu
