#include <gtest/gtest.h>
#include <omp.h>
#include <sluice.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "unit/support/on_device.h"

namespace sluice::c_api {
namespace {

constexpr std::int64_t kLongestStruct = 300;

/// Options and arguments as a careless or hostile caller fills them in. Whatever they are, a call
/// returns a status and a sentence; what it accepts runs. (Pointers are good or NULL: bad ones no
/// library can tell.)
class WildCaller {
 public:
  explicit WildCaller(std::uint64_t seed) : random_(seed) {
    EXPECT_EQ(sluice_device_open("cpu", &device_, &error_), SLUICE_OK);
    EXPECT_EQ(sluice_stream_create(device_, &stream_, &error_), SLUICE_OK);
  }
  ~WildCaller() {
    sluice_stream_destroy(stream_);
    sluice_device_close(device_);
  }
  WildCaller(const WildCaller&) = delete;
  WildCaller& operator=(const WildCaller&) = delete;

  void run_once() {
    hidden_.assign(4, 0);
    projection_.assign(4, 0);
    for (std::int64_t& width : hidden_) width = size(6);
    for (std::int64_t& width : projection_) width = size(5);
    // A caller has as much memory as its struct says.
    struct {
      sluice_recurrent_options options;
      std::array<std::byte, kLongestStruct> rest;
    } callers{wild_options(), {}};
    const sluice_recurrent_options& options = callers.options;
    sluice_recurrent* plan = nullptr;
    const sluice_status status = sluice_recurrent_create(stream_, &options, &plan, &error_);
    check(status);
    EXPECT_EQ(status == SLUICE_OK, plan != nullptr);
    if (plan == nullptr) return;
    ++plans_;
    sluice_recurrent_sizes sizes = SLUICE_INIT(sluice_recurrent_sizes);
    EXPECT_EQ(sluice_recurrent_get_sizes(plan, &sizes, &error_), SLUICE_OK);
    // What memory of a test has room for.
    constexpr std::size_t kMost = 8 << 20;
    const bool small = options.time <= 5 && options.rows <= 4 && options.input <= 6 &&
                       *std::max_element(hidden_.begin(), hidden_.end()) <= 6 &&
                       *std::max_element(projection_.begin(), projection_.end()) <= 6;
    if (small && sizes.packed + sizes.workspace + sizes.reserve < kMost) use(plan, options, sizes);
    sluice_recurrent_destroy(plan);
  }

  int plans() const { return plans_; }
  int runs() const { return runs_; }

 private:
  bool chance(double probability) {
    return std::uniform_real_distribution<>(0, 1)(random_) < probability;
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  /// Mostly 1 to `most`; else what sizes are not.
  std::int64_t size(std::int64_t most) {
    constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
    const std::int64_t wild[] = {0,       -1,           -kLargest - 1, kLargest, kLargest / 2,
                                 1 << 30, 4294967296LL, kLargest / 8,  1 << 20};
    return chance(.04) ? wild[between(0, std::size(wild) - 1)] : between(1, most);
  }
  double rate() {
    const double wild[] = {-0.1, 1, 1.5, NAN, INFINITY, -INFINITY, 1e-300};
    if (chance(.03)) return wild[between(0, std::size(wild) - 1)];
    return chance(.7) ? 0 : std::uniform_real_distribution<>(0, .9)(random_);
  }
  int flag() { return chance(.3) ? 1 : 0; }
  int number_of(int most) {
    return static_cast<int>(chance(.03) ? between(-3, 99) : between(1, most));
  }

  sluice_recurrent_options wild_options() {
    sluice_recurrent_options options = SLUICE_INIT(sluice_recurrent_options);
    if (chance(.02)) options.size = static_cast<std::size_t>(between(0, kLongestStruct));
    options.cell = number_of(5);
    // As many widths as there are layers, at most; more would be a bad pointer.
    options.layers = chance(.04) ? -between(0, 1 << 30) : between(1, 4);
    options.directions = chance(.9) ? between(1, 2) : size(3);
    options.input = size(6);
    options.hidden = chance(.98) ? hidden_.data() : nullptr;
    if (chance(.5)) hidden_.assign(4, hidden_[0]);
    options.projection = options.cell == SLUICE_LSTM && chance(.3) ? projection_.data() : nullptr;
    options.time = size(5);
    options.rows = size(4);
    options.dtype = number_of(3);
    options.weight_dtype = chance(.6) ? 0 : number_of(4);
    options.cell_dtype = chance(.6) ? 0 : number_of(4);
    options.tf32 = flag();
    options.training = chance(.6) ? 1 : 0;
    options.strided = flag();
    options.dropout = rate();
    options.resets = flag();
    options.peepholes = chance(.1) ? 1 : 0;
    options.layer_norm = chance(.1) ? 1 : 0;
    options.zoneout_h = rate();
    options.zoneout_c = options.cell == SLUICE_LSTM ? rate() : 0;
    options.recurrent_dropout = rate();
    options.hard_sigmoid = chance(.1) ? 1 : 0;
    if (chance(.1)) options.implementation = chance(.5) ? "portable" : "none of these";
    return options;
  }

  /// What went wrong is said in a sentence.
  void check(sluice_status status) {
    if (status == SLUICE_OK) return;
    EXPECT_EQ(error_.status, status);
    EXPECT_NE(status, SLUICE_INTERNAL) << error_.message;
    EXPECT_GT(std::string(error_.message).size(), 5U);
  }

  void use(sluice_recurrent* plan, const sluice_recurrent_options& options,
           const sluice_recurrent_sizes& sizes) {
    std::vector<void*> taken;
    const auto take = [&](std::size_t bytes) {
      void* memory = nullptr;
      EXPECT_EQ(sluice_device_allocate(device_, bytes, &memory, &error_), SLUICE_OK);
      std::memset(memory, 0, bytes);
      taken.push_back(memory);
      return memory;
    };
    // More than any tensor of so small a plan takes.
    constexpr std::size_t kRoom = 64 << 10;
    const auto room = [&] { return chance(.95) ? take(kRoom) : nullptr; };
    sluice_recurrent_memory memory = SLUICE_INIT(sluice_recurrent_memory);
    memory.packed = take(sizes.packed + 1);
    memory.workspace = take(sizes.workspace + 1);
    memory.reserve = take(sizes.reserve + 1);
    const std::int64_t count = options.layers * options.directions;
    std::vector<sluice_recurrent_weights> weights;
    for (std::int64_t i = 0; i < count; ++i) {
      sluice_recurrent_weights set = SLUICE_INIT(sluice_recurrent_weights);
      set.weight_ih = room();
      set.weight_hh = room();
      set.bias_ih = flag() != 0 ? room() : nullptr;
      set.bias_hh = flag() != 0 ? room() : nullptr;
      if (options.projection != nullptr) set.weight_hr = room();
      if (options.peepholes != 0) set.weight_peephole = room();
      for (void** gain : {&set.gain_ih, &set.gain_hh, &set.gain_c, &set.shift_c}) {
        if (options.layer_norm != 0) *gain = room();
      }
      weights.push_back(set);
    }
    const std::int64_t said = chance(.95) ? count : size(9);
    const sluice_status packed =
        sluice_recurrent_pack(plan, weights.data(), said, &memory, &error_);
    check(packed);
    sluice_recurrent_forward_args args = SLUICE_INIT(sluice_recurrent_forward_args);
    args.time = chance(.9) ? between(1, options.time) : size(5);
    args.rows = chance(.9) ? between(1, options.rows) : size(4);
    args.x = room();
    args.y = room();
    const auto optional = [&] { return chance(.5) ? take(kRoom) : nullptr; };
    args.h0 = optional();
    args.c0 = options.cell == SLUICE_LSTM || chance(.05) ? optional() : nullptr;
    args.hn = optional();
    args.cn = options.cell == SLUICE_LSTM ? optional() : nullptr;
    args.c_sequence = options.cell == SLUICE_LSTM ? optional() : nullptr;
    if (chance(.05)) args.x_row_stride = size(6);
    if (chance(.05)) args.y_time_stride = -between(0, 1000);
    if (packed != SLUICE_OK || !stays_inside(args)) return free_all(taken);
    const sluice_status status = sluice_recurrent_forward(plan, &args, &memory, &error_);
    check(status);
    if (status == SLUICE_OK) ++runs_;
    sluice_recurrent_backward_args backward = SLUICE_INIT(sluice_recurrent_backward_args);
    backward.dy = optional();
    backward.dx = optional();
    backward.dh0 = optional();
    backward.dhn = optional();
    backward.gradients = chance(.8) ? weights.data() : nullptr;
    backward.accumulate = flag();
    if (status == SLUICE_OK) {
      check(sluice_recurrent_backward(plan, &args, &backward, &memory, &error_));
    }
    free_all(taken);
  }

  /// Strides that a caller may well have, but not in so little memory.
  static bool stays_inside(const sluice_recurrent_forward_args& args) {
    return args.x_row_stride <= 64 && args.y_time_stride <= 64;
  }

  void free_all(const std::vector<void*>& taken) {
    for (void* memory : taken) sluice_device_free(device_, memory, 0);
  }

  std::mt19937_64 random_;
  sluice_device* device_ = nullptr;
  sluice_stream* stream_ = nullptr;
  sluice_error error_ = SLUICE_INIT(sluice_error);
  std::vector<std::int64_t> hidden_, projection_;
  int plans_ = 0, runs_ = 0;
};

TEST(CWildArguments, AreAnsweredWithAStatus) {
  const char* chosen = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t seed =
      chosen == nullptr ? std::random_device()() : std::strtoull(chosen, nullptr, 10);
  SCOPED_TRACE(seed);
  omp_set_num_threads(1);  // layers of a few units gain nothing from more
  WildCaller caller(seed);
  constexpr int kRounds = 20000;
  for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) caller.run_once();
  // Enough get through that runs are tried, too.
  EXPECT_GT(caller.plans(), kRounds / 10);
  EXPECT_GT(caller.runs(), kRounds / 30);
}

}  // namespace
}  // namespace sluice::c_api
