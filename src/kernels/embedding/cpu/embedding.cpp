#include "kernels/embedding/cpu/embedding.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/elementwise/cpu/elementwise.h"

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
  explicit Tokens(const GatherArgs& args)
      : data(args.tokens.data_as<const std::int32_t>()), count(args.count()) {}
  std::int64_t at(std::int64_t i) const { return data != nullptr ? data[i] : i; }

  void check(std::int64_t vocabulary) const {
    for (std::int64_t i = 0; data != nullptr && i < count; ++i) {
      SLUICE_CHECK(data[i] >= 0 && data[i] < vocabulary,
                   "embedding: token {} at position {} is outside a table of {} rows", data[i], i,
                   vocabulary);
    }
  }
};

template <typename From, typename To>
void copy_rows(const From* table, const Tokens& tokens, To* out, std::int64_t features) {
#pragma omp parallel for schedule(static) if (tokens.count * features > kWorthThreads)
  for (std::int64_t i = 0; i < tokens.count; ++i) {
    const From* from = table + tokens.at(i) * features;
    To* to = out + i * features;
    for (std::int64_t j = 0; j < features; ++j) to[j] = static_cast<To>(from[j]);
  }
}

/// Threads own columns, not rows of the table: frequent words then load no thread more.
template <typename From, typename To>
void add_rows(const From* d_out, const Tokens& tokens, std::int32_t padding, To* d_table,
              std::int64_t features) {
#pragma omp parallel for schedule(static) if (tokens.count * features > kWorthThreads)
  for (std::int64_t begin = 0; begin < features; begin += kColumnBlock) {
    const std::int64_t end = std::min(begin + kColumnBlock, features);
    for (std::int64_t i = 0; i < tokens.count; ++i) {
      if (tokens.data[i] == padding) continue;
      const From* from = d_out + i * features;
      To* to = d_table + tokens.data[i] * features;
      for (std::int64_t j = begin; j < end; ++j) to[j] += static_cast<To>(from[j]);
    }
  }
}

void mark_rows(const Tokens& tokens, const GatherBackwardArgs& args) {
  const Marks marks(args.marks);
  const std::int64_t features = args.d_table.size(1);
  for (std::int64_t i = 0; i < tokens.count; ++i) {
    const std::int64_t row = tokens.data[i];
    if (row != args.padding) marks.mark(row * features, (row + 1) * features);
  }
}

}  // namespace

/// Calls body(tag of the table, tag of the rows): the same type, or rows of 16 bits for float32.
template <typename Body>
void dispatch_master(base::DType table, base::DType rows, Body&& body) {
  if (table == base::DType::kFloat64) {
    return body(base::TypeTag<double>{}, base::TypeTag<double>{});
  }
  base::dispatch_float(rows, [&](auto rows_tag) { body(base::TypeTag<float>{}, rows_tag); });
}

/// As dispatch_master, with tables that are only moved.
template <typename Body>
void dispatch_any(base::DType table, base::DType rows, Body&& body) {
  switch (table) {
    case base::DType::kInt32:
      return body(base::TypeTag<std::int32_t>{}, base::TypeTag<std::int32_t>{});
    case base::DType::kBFloat16:
      return body(base::TypeTag<base::BFloat16>{}, base::TypeTag<base::BFloat16>{});
    case base::DType::kFloat16:
      return body(base::TypeTag<base::Float16>{}, base::TypeTag<base::Float16>{});
    default:
      return dispatch_master(table, rows, body);
  }
}

void gather(runtime::Stream& stream, const GatherArgs& args) {
  dispatch_any(args.table.dtype(), args.out.dtype(), [&](auto table_tag, auto out_tag) {
    using From = typename decltype(table_tag)::type;
    using To = typename decltype(out_tag)::type;
    stream.launch([args, tokens = Tokens(args)] {
      tokens.check(args.vocabulary());
      for (std::int64_t i = 0; i < args.tables(); ++i) {
        copy_rows(args.table.data_as<const From>() + i * args.table_stride(), tokens,
                  args.out.data_as<To>() + i * args.out_stride(), args.features());
      }
    });
  });
  if (args.dropout.rate == 0) return;
  elementwise::cpu::dropout(stream,
                            dropout_args(args.dropout, args.tokens, args.out, args.table.size(1)));
}

void gather_each(runtime::Stream& stream, std::span<const GatherArgs> all) {
  for (const GatherArgs& args : all) gather(stream, args);
}

void scatter_each(runtime::Stream& stream, std::span<const GatherArgs> all) {
  for (const GatherArgs& args : all) {
    stream.launch([args, tokens = Tokens(args)] {
      tokens.check(args.vocabulary());
      const std::size_t size = base::size_of(args.table.dtype());
      const std::size_t row = size * static_cast<std::size_t>(args.features());
      for (std::int64_t l = 0; l < args.tables(); ++l) {
        auto* table = static_cast<std::byte*>(args.table.data()) +
                      size * static_cast<std::size_t>(l * args.table_stride());
        const auto* rows = static_cast<const std::byte*>(args.out.data()) +
                           size * static_cast<std::size_t>(l * args.out_stride());
        for (std::int64_t i = 0; i < tokens.count; ++i) {
          std::memcpy(table + row * static_cast<std::size_t>(tokens.data[i]),
                      rows + row * static_cast<std::size_t>(i), row);
        }
      }
    });
  }
}

void gather_backward(runtime::Stream& stream, const GatherBackwardArgs& args) {
  if (args.dropout.rate > 0) {
    elementwise::cpu::dropout(
        stream, dropout_args(args.dropout, args.tokens, args.d_out, args.d_table.size(1)));
  }
  dispatch_master(args.d_table.dtype(), args.d_out.dtype(), [&](auto table_tag, auto out_tag) {
    using To = typename decltype(table_tag)::type;
    using From = typename decltype(out_tag)::type;
    stream.launch([args, tokens = Tokens(args.tokens)] {
      tokens.check(args.d_table.size(0));
      mark_rows(tokens, args);
      add_rows(args.d_out.data_as<const From>(), tokens, args.padding, args.d_table.data_as<To>(),
               args.d_table.size(1));
    });
  });
}

}  // namespace sluice::kernels::embedding::cpu
