#include "kernels/embedding/embedding.h"

#include <cmath>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::embedding {
namespace {

using base::DType;
using base::dtype_of;
using base::Shape;
using testing::random_values;
using testing::same_bits;

class Embedding : public testing::OnDevice {
 protected:
  std::mt19937_64 engine_{9};

  std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocabulary) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    for (auto& token : tokens) {
      token = static_cast<std::int32_t>(engine_() % static_cast<std::uint64_t>(vocabulary));
    }
    return tokens;
  }

  void check_bad_token(const Tensor& table, const Tensor& out, std::int32_t bad);

  /// Stored: the type of the rows, T or 16 bits.
  template <typename T, typename Stored = T>
  void check(std::int64_t vocabulary, std::int64_t features, std::int64_t time, std::int64_t rows,
             std::int32_t padding) {
    const std::int64_t count = time * rows;
    const auto table = random_values<T>(engine_, vocabulary * features);
    const auto before = random_values<T>(engine_, vocabulary * features);
    const auto d_out = random_values<Stored>(engine_, count * features);
    const auto tokens = random_tokens(count, vocabulary);
    const Tensor device_tokens = put(tokens, Shape{time, rows});
    const Tensor out = poisoned(dtype_of<Stored>(), {time, rows, features});
    gather(context_, put(table, Shape{vocabulary, features}), device_tokens, out);
    const Tensor d_rows = put(d_out, out.shape());
    const auto add_back = [&] {
      const Tensor d_table = put(before, Shape{vocabulary, features});
      gather_backward(
          context_,
          {.tokens = device_tokens, .d_out = d_rows, .d_table = d_table, .padding = padding});
      return get<T>(d_table);
    };
    const auto picked = get<Stored>(out);
    std::vector<Stored> expected_rows(picked.size());
    auto expected = before;
    Exact exact{{before.begin(), before.end()}, std::vector<double>(before.size()), 0};
    for (std::size_t i = 0; i < before.size(); ++i) exact.sizes[i] = std::abs(exact.sums[i]);
    exact.terms = count + 1;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      for (std::size_t j = 0; j < static_cast<std::size_t>(features); ++j) {
        const std::size_t from = i * static_cast<std::size_t>(features) + j;
        const std::size_t to =
            static_cast<std::size_t>(tokens[i]) * static_cast<std::size_t>(features) + j;
        expected_rows[from] = static_cast<Stored>(table[to]);
        if (tokens[i] == padding) continue;
        expected[to] += static_cast<T>(d_out[from]);
        exact.sums[to] += static_cast<double>(static_cast<T>(d_out[from]));
        exact.sizes[to] += std::abs(static_cast<double>(static_cast<T>(d_out[from])));
      }
    }
    EXPECT_TRUE(same_bits(picked, expected_rows));
    const auto added = add_back();
    EXPECT_TRUE(same_bits(added, add_back()));
    // A GPU adds to few rows in an order of its own; all else is in one order: the same bits.
    constexpr std::int64_t kFewRows = 1000;
    if (device_->runs_host_kernels() || vocabulary > kFewRows) {
      EXPECT_TRUE(same_bits(added, expected));
    } else {
      expect_close(added, exact);
    }
  }

  template <typename Stored>
  void check_dropout(std::int64_t vocabulary, std::int64_t features, std::int64_t time,
                     std::int64_t rows) {
    const auto table = random_values<float>(engine_, vocabulary * features);
    const auto d_out = random_values<Stored>(engine_, time * rows * features);
    const Tensor tokens = put(random_tokens(time * rows, vocabulary), Shape{time, rows});
    std::vector<std::int32_t> ids;
    for (std::int64_t r = 0; r < rows; ++r) ids.push_back(static_cast<std::int32_t>(7 + 2 * r));
    const Dropout dropout{0.3, put_key({5, 8, 2}), put(ids)};
    const auto drop = [&](const Tensor& x) {
      kernels::elementwise::dropout(context_,
                                    {x, x, dropout.row_ids, dropout.rate, dropout.source});
      return x;
    };
    const Tensor device_table = put(table, Shape{vocabulary, features});
    const Shape shape{time, rows, features};
    const Tensor out = poisoned(dtype_of<Stored>(), shape);
    const Tensor apart = poisoned(dtype_of<Stored>(), shape);
    gather(context_, device_table, tokens, out, dropout);
    gather(context_, device_table, tokens, apart);
    EXPECT_TRUE(same_bits(get<Stored>(out), get<Stored>(drop(apart))));
    const auto add_back = [&](const Tensor& d_rows, const Dropout& on_the_way) {
      const Tensor d_table = put(table, Shape{vocabulary, features});
      gather_backward(context_, {.tokens = tokens,
                                 .d_out = d_rows,
                                 .d_table = d_table,
                                 .padding = 0,
                                 .dropout = on_the_way});
      return get<float>(d_table);
    };
    EXPECT_TRUE(
        same_bits(add_back(put(d_out, shape), dropout), add_back(drop(put(d_out, shape)), {})));
    release_memory();
  }

  /// Rows of three tables of numbers that count up, which lie apart and go into places that do.
  template <typename T>
  void check_tables(std::int64_t features) {
    constexpr std::int64_t kTables = 3, kRows = 7, kCount = 5;
    const Shape shape{kTables, kRows + 1, features};
    std::vector<T> values(static_cast<std::size_t>(shape.element_count()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>(static_cast<float>(i));
    }
    const Tensor tables = put(values, shape).slice(1, 1, kRows + 1);
    const std::vector<std::int32_t> tokens{6, 0, 2, 2, 5};
    for (const bool picks : {true, false}) {
      const Shape room{kTables, kCount + 2, features};
      const Tensor whole =
          put(std::vector<T>(static_cast<std::size_t>(room.element_count())), room);
      gather(context_, tables, picks ? put(tokens) : Tensor(), whole.slice(1, 1, kCount + 1));
      const auto got = get<T>(whole);
      std::size_t at = 0;
      for (std::int64_t table = 0; table < kTables; ++table) {
        for (std::int64_t i = -1; i <= kCount; ++i) {
          const bool inside = i >= 0 && i < kCount;
          const std::int64_t row =
              inside ? 1 + (picks ? tokens[static_cast<std::size_t>(i)] : i) : 0;
          for (std::int64_t j = 0; j < features; ++j, ++at) {
            const auto from = static_cast<std::size_t>((table * (kRows + 1) + row) * features + j);
            ASSERT_EQ(static_cast<float>(got[at]), inside ? static_cast<float>(values[from]) : 0)
                << features << " features, " << table << " " << i << " " << j;
          }
        }
      }
    }
    release_memory();
  }

  /// Numbers from `first` on, as [tables, rows, features].
  template <typename T>
  Tensor counting(const Shape& shape, int first) {
    std::vector<T> values(static_cast<std::size_t>(shape.element_count()));
    for (T& value : values) value = static_cast<T>(static_cast<float>(first++));
    return put(values, shape);
  }

  /// Rows of two kinds of tables that lie apart, from places that do.
  template <typename T>
  void check_scatter(std::int64_t features) {
    constexpr std::int64_t kTables = 3, kRows = 7, kCount = 5;
    const std::vector<std::int32_t> tokens{6, 0, 2, 4, 5};
    const Tensor places = put(tokens);
    struct Kind {
      Tensor tables, rows;
      std::vector<T> before, given;
      std::int64_t features;
    };
    std::vector<Kind> kinds;
    std::vector<Placed> placed;
    for (const std::int64_t width : {features, 8 * features}) {
      Kind kind;
      kind.tables = counting<T>({kTables, kRows + 1, width}, 1);
      kind.rows = counting<T>({kTables, kCount + 1, width}, -1000);
      kind.before = get<T>(kind.tables);
      kind.given = get<T>(kind.rows);
      kind.features = width;
      placed.push_back(
          {kind.rows.slice(1, 1, kCount + 1), places, kind.tables.slice(1, 1, kRows + 1)});
      kinds.push_back(std::move(kind));
    }
    scatter_each(context_, placed);
    for (const Kind& kind : kinds) {
      const std::vector<T> after = get<T>(kind.tables);
      const auto at = [&](std::int64_t table, std::int64_t rows, std::int64_t row) {
        return static_cast<std::size_t>((table * rows + row) * kind.features);
      };
      std::vector<T> expected = kind.before;
      for (std::int64_t table = 0; table < kTables; ++table) {
        for (std::int64_t i = 0; i < kCount; ++i) {
          const auto from = at(table, kCount + 1, 1 + i);
          const auto to = at(table, kRows + 1, 1 + tokens[static_cast<std::size_t>(i)]);
          for (std::int64_t j = 0; j < kind.features; ++j) {
            expected[to + static_cast<std::size_t>(j)] =
                kind.given[from + static_cast<std::size_t>(j)];
          }
        }
      }
      for (std::size_t i = 0; i < after.size(); ++i) {
        ASSERT_EQ(static_cast<float>(after[i]), static_cast<float>(expected[i]))
            << kind.features << " features, " << i;
      }
    }
    release_memory();
  }

  /// Of each element of a table.
  struct Exact {
    std::vector<double> sums, sizes;  ///< of all terms, and of their magnitudes
    std::int64_t terms;               ///< at most
  };

  /// A sum of n terms errs by at most n roundings of the sum of their magnitudes, in any order.
  template <typename T>
  static void expect_close(const std::vector<T>& got, const Exact& exact) {
    const double rounding = (std::is_same_v<T, float> ? 0x1p-24 : 0x1p-53) * 1.01;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double most = static_cast<double>(exact.terms) * rounding * exact.sizes[i];
      ASSERT_NEAR(static_cast<double>(got[i]), exact.sums[i], most) << "element " << i;
    }
  }
};

TEST_P(Embedding, GathersAndAddsBack) {
  check<float>(11, 7, 5, 3, -1);
  check<float>(11, 7, 5, 3, 0);
  try_float64([&] { check<double>(3, 33, 4, 5, 2); });
  check<float>(50, 130, 40, 17, 0);
  check<float>(1, 1, 1, 1, -1);
  check<float>(4, 6, 0, 3, -1);
  check<float, base::BFloat16>(50, 130, 40, 17, 0);
  check<float, base::Float16>(11, 7, 5, 3, -1);
}

// Far more tokens than rows, tokens that nearly all are one, and more rows than tokens.
TEST_P(Embedding, AddsMany) {
  check<float>(5, 70, 90, 101, -1);
  check<float>(3001, 132, 50, 173, 0);
  check<float>(70000, 4, 7, 31, 0);
  try_float64([&] { check<double>(2, 5, 83, 100, 1); });
}

// As characters are: of 32 bits and of 16, with columns that come in fours and don't.
TEST_P(Embedding, AddsManyTokensToFewRows) {
  for (const std::int64_t features : {132, 128, 7}) {
    check<float>(35, features, 61, 97, 0);
    check<float, base::BFloat16>(35, features, 61, 97, 0);
    check<float, base::Float16>(197, features, 61, 97, -1);
  }
  // So many tokens that blocks share them.
  check<float>(35, 132, 97, 101, 0);
  check<float, base::BFloat16>(35, 128, 97, 101, 0);
  check<float, base::BFloat16>(3, 4, 1, 1, -1);
}

// To the bit what a pass of dropout of its own gives: in fours of features and not, with few rows,
// of whose tokens blocks may share some, and with many.
TEST_P(Embedding, DropsOutOnTheWay) {
  check_dropout<float>(35, 128, 150, 64);
  check_dropout<base::BFloat16>(35, 128, 151, 64);
  check_dropout<base::Float16>(197, 36, 13, 21);
  check_dropout<base::BFloat16>(35, 7, 13, 21);
  check_dropout<float>(3001, 132, 13, 21);
  check_dropout<base::BFloat16>(3001, 132, 13, 21);
}

// More than a launch takes, of different widths and types: each as if picked alone.
TEST_P(Embedding, PicksAsManyRowsOfEach) {
  constexpr std::int64_t kRows = 9, kCount = 40;
  std::mt19937_64 engine(3);
  std::vector<std::int32_t> tokens, others;
  for (std::int64_t i = 0; i < kCount; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i * 7 % 9));
    others.push_back(static_cast<std::int32_t>(i * 5 % 9));
  }
  const Tensor which[] = {put(tokens), put(others)};
  std::vector<Picked> picked;
  std::vector<Tensor> alone;
  const auto add = [&](const Tensor& table, const Shape& out) {
    picked.push_back({table, which[picked.size() % 2], poisoned(table.dtype(), out)});
    alone.push_back(poisoned(table.dtype(), out));
  };
  for (const std::int64_t features : {4, 8, 5, 132, 600, 64}) {
    add(put(random_values<float>(engine, 2 * kRows * features, 1), {2, kRows, features}),
        {2, kCount, features});
  }
  add(put(random_values<float>(engine, kRows * 36, 1), {kRows, 36}), {kCount, 36});
  add(put(std::vector<std::int32_t>{9, 8, 7, 6, 5, 4, 3, 2, 1}, {kRows, 1}), {kCount, 1});
  gather_each(context_, picked);
  for (std::size_t i = 0; i < picked.size(); ++i) {
    gather(context_, picked[i].table, picked[i].tokens, alone[i]);
    if (picked[i].table.dtype() == DType::kInt32) {
      EXPECT_EQ(get<std::int32_t>(picked[i].out), get<std::int32_t>(alone[i]));
    } else {
      EXPECT_TRUE(same_bits(get<float>(picked[i].out), get<float>(alone[i]))) << i;
    }
  }
  picked.back().tokens = put(std::vector<std::int32_t>{0});
  picked.back().out = poisoned(DType::kInt32, {1, 1});
  EXPECT_THROW(gather_each(context_, picked), Error);
}

// Of tables and into places that lie apart, picked or in order, in all types that states and tokens
// have.
TEST_P(Embedding, GathersFromSeveralTables) {
  for (const std::int64_t features : {1, 5, 8, 40}) {
    check_tables<float>(features);
    check_tables<std::int32_t>(features);
    check_tables<base::BFloat16>(features);
    check_tables<base::Float16>(features);
  }
  const Tensor tables = put(std::vector<float>(24, 1.0f), Shape{2, 4, 3});
  const Tensor tokens = put(std::vector<std::int32_t>{0, 1});
  const auto refuse = [&](const Tensor& from, const Tensor& picked, const Tensor& out) {
    EXPECT_THROW(gather(context_, from, picked, out), Error);
  };
  refuse(tables, tokens, poisoned(DType::kFloat32, {2, 3}));
  refuse(tables, tokens, poisoned(DType::kFloat32, {2, 3, 3}));
  refuse(tables, tokens, poisoned(DType::kBFloat16, {2, 2, 3}));
  refuse(tables, {}, poisoned(DType::kFloat32, {2, 5, 3}));
  refuse(tables.slice(0, 0, 1), tokens, poisoned(DType::kFloat32, {2, 2, 3}));
}

TEST_P(Embedding, PlacesRowsInSeveralTables) {
  for (const std::int64_t features : {1, 5, 8, 40}) {
    check_scatter<float>(features);
    check_scatter<double>(features);
    check_scatter<std::int32_t>(features);
    check_scatter<base::BFloat16>(features);
    check_scatter<base::Float16>(features);
  }
  // Equal rows may share a place.
  const Tensor table = put(std::vector<float>(12, 1.0f), Shape{1, 3, 4});
  const Tensor equal = put(std::vector<float>{0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0}, Shape{1, 3, 4});
  const Placed shared{equal, put(std::vector<std::int32_t>{2, 0, 2}), table};
  scatter_each(context_, {&shared, 1});
  EXPECT_EQ(get<float>(table), (std::vector<float>{5, 6, 7, 8, 1, 1, 1, 1, 0, 0, 0, 0}));

  const Tensor tables = put(std::vector<float>(24, 1.0f), Shape{2, 4, 3});
  const Tensor tokens = put(std::vector<std::int32_t>{0, 1});
  const auto refuse = [&](const Tensor& rows, const Tensor& to, const Tensor& picked) {
    const Placed placed{rows, picked, to};
    EXPECT_THROW(scatter_each(context_, {&placed, 1}), Error);
  };
  refuse(poisoned(DType::kFloat32, {2, 3, 3}), tables, tokens);
  refuse(poisoned(DType::kBFloat16, {2, 2, 3}), tables, tokens);
  refuse(poisoned(DType::kFloat32, {2, 2, 3}), tables, {});
}

// Whatever columns there are in a row, and wherever in the array of marks the table begins; a mark
// that stays is left as it is.
TEST_P(Embedding, MarksWhatItAddsTo) {
  for (const std::int64_t features : {4, 5, 128, 130, 300}) {
    for (const std::int64_t begin : {0, 16, 127}) {
      for (const std::int64_t vocabulary : {3001, 35}) {
        const std::int64_t elements = begin + vocabulary * features;
        std::vector<std::uint8_t> marks(static_cast<std::size_t>(mark_count(elements)) + 1);
        marks.front() = marks[marks.size() - 2] = kAlwaysMarked;
        auto expected = marks;
        const auto tokens = random_tokens(57, vocabulary);
        constexpr std::int32_t kPadding = 7;
        for (const std::int32_t token : tokens) {
          if (token == kPadding) continue;
          for (std::int64_t i = begin + token * features; i < begin + (token + 1) * features; ++i) {
            std::uint8_t& mark = expected[static_cast<std::size_t>(i / kElementsPerMark)];
            mark = std::max<std::uint8_t>(mark, kMarked);
          }
        }
        const Tensor device_marks = put(marks);
        gather_backward(context_,
                        {.tokens = put(tokens),
                         .d_out = put(random_values<float>(engine_, 57 * features)),
                         .d_table = put(random_values<float>(engine_, vocabulary * features),
                                        Shape{vocabulary, features}),
                         .padding = kPadding,
                         .marks = {device_marks, begin}});
        const auto got = get<std::uint8_t>(device_marks);
        if (device_->runs_host_kernels() || vocabulary > 1000) {
          EXPECT_EQ(got, expected) << features << " " << begin;
          continue;
        }
        // Of few rows a GPU may mark all.
        EXPECT_EQ(got.back(), kUnmarked);
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_GE(got[i], expected[i]) << i;
        EXPECT_EQ(got.front(), kAlwaysMarked);
      }
      release_memory();
    }
  }
}

TEST_P(Embedding, DoesNotDependOnThreads) {
  const auto d_out = random_values<float>(engine_, 500 * 200);
  const Tensor tokens = put(random_tokens(500, 20));
  const auto run = [&](int threads) {
    set_threads(threads);
    const Tensor d_table = put(std::vector<float>(20 * 200, 0.0f), Shape{20, 200});
    gather_backward(context_,
                    {.tokens = tokens, .d_out = put(d_out, Shape{500, 200}), .d_table = d_table});
    return get<float>(d_table);
  };
  EXPECT_TRUE(same_bits(run(1), run(3)));
}

// A GPU can't throw: it picks NaN and adds nothing.
void Embedding::check_bad_token(const Tensor& table, const Tensor& out, std::int32_t bad) {
  const Tensor tokens = put(std::vector<std::int32_t>{0, bad});
  const Tensor ones = put(std::vector<float>(6, 1.0f), Shape{2, 3});
  const auto run = [&] {
    gather(context_, table, tokens, out);
    context_.synchronize();
  };
  const auto run_backward = [&] {
    gather_backward(context_, {.tokens = tokens, .d_out = ones, .d_table = table});
    context_.synchronize();
  };
  if (device_->runs_host_kernels()) {
    EXPECT_THROW(run(), Error);
    EXPECT_THROW(run_backward(), Error);
    return;
  }
  const auto before = get<float>(table);
  run();
  run_backward();
  const auto picked = get<float>(out), after = get<float>(table);
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_EQ(picked[j], before[j]);
    EXPECT_TRUE(std::isnan(picked[3 + j]));
  }
  for (std::size_t j = 0; j < after.size(); ++j) EXPECT_EQ(after[j], before[j] + (j < 3 ? 1 : 0));
}

TEST_P(Embedding, RefusesBadTokensAndShapes) {
  const Tensor table = put(std::vector<float>(12, 1.0f), Shape{4, 3});
  const Tensor out = poisoned(DType::kFloat32, {2, 3});
  for (const std::int32_t bad : {-1, 4}) check_bad_token(table, out, bad);
  const Tensor tokens = put(std::vector<std::int32_t>{0, 1});
  EXPECT_THROW(gather(context_, table, tokens, poisoned(DType::kFloat32, {3, 3})), Error);
  EXPECT_THROW(gather(context_, table, tokens, poisoned(DType::kFloat64, {2, 3})), Error);
  EXPECT_THROW(gather(context_, table, poisoned(DType::kFloat32, {2}), out), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, Embedding, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::embedding
