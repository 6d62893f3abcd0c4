#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/recurrent/recurrent.h"
#include "oracle/recurrent.h"

/// Random problems for a recurrent stack, their answer by the oracle, and their answer by an
/// implementation on a device, so that tests only compare.
namespace sluice::kernels::recurrent::testing {

/// All values are exactly representable in the storage type, so that both sides start alike.
struct StackCase {
  Descriptor descriptor;
  std::int64_t time = 1, rows = 1;
  oracle::StackInput input;  ///< its dropout multipliers too
  std::vector<oracle::Weights> weights;
  oracle::StackOutputGradients flow;              ///< dy, dhn, dcn; empty: absent
  std::vector<oracle::Weights> gradients_before;  ///< what weight gradients are added to
  std::vector<std::int32_t> row_ids;              ///< empty: absent
  runtime::DropoutKey dropout;
  bool want_states = true;    ///< hn, cn and dh0, dc0
  bool in_place = false;      ///< hn and cn take the place of h0 and c0, which must be there
  std::int64_t y_skips = 0;   ///< elements by which y begins behind an aligned address
  std::int64_t dy_skips = 0;  ///< the same of dy
  bool want_c_sequence = true;
  bool want_dx = true;
  bool want_gradients = true;
  bool accumulate = true;  ///< whether weight gradients are added to `gradients_before` or written
};

/// Tensors by name: y, hn, cn, c_sequence, dx, dh0, dc0, weight_ih.0, …; what was not asked for is
/// not there.
using Tensors = std::map<std::string, std::vector<double>>;

/// What a random problem is drawn from.
struct CaseLimits {
  DType dtype = DType::kFloat32;
  std::int64_t time = 9, rows = 7, width = 40;
  /// Only what every library's own layer does: full lengths at the planned capacity, no projection,
  /// dropout or c_sequence.
  bool plain = false;
  /// Whether cells may have what their equations don't (docs/equations.md), of which a case draws
  /// some.
  bool extras = false;
  /// Whether these may include a hard sigmoid, which few implementations have.
  bool hard_sigmoid = false;
  /// Whether layers have widths of their own, of which there are two at least. No implementation
  /// may be asked about such a descriptor: it is make_plan's.
  bool unequal_widths = false;
};

/// Draws some of the options of cells beyond the plain equations; layer norm is apart.
void draw_extras(std::mt19937_64& random, Descriptor& descriptor);
StackCase random_case(std::mt19937_64& random, const CaseLimits& limits);
/// Its descriptor and extent.
StackCase unfilled_case(std::mt19937_64& random, const CaseLimits& limits);
/// Fills in everything but descriptor and extent. A case that wants no gradients beforehand gets
/// nothing that they would be added to.
void fill_case(std::mt19937_64& random, StackCase& stack);
/// The same, with h0 and what else the cell has of states, which hn and cn take the place of.
void fill_case_in_place(std::mt19937_64& random, StackCase& stack);

/// By the oracle; with a rounding as a plain implementation has it.
Tensors expected(const StackCase& stack, oracle::Rounding* rounding = nullptr);

struct RunOptions {
  std::string device = "cpu";
  std::string implementation = "auto";
  /// Runs on the same memory, packed once, of which the last counts: those before have other
  /// dropout keys, and what they have left in outputs is overwritten by NaN.
  int rounds = 1;
  bool tf32 = false;  ///< lets products of float32 round their factors
  /// Unless null: takes the names of all kernels that a GPU runs, which must be able to tell them.
  std::vector<std::string>* kernels = nullptr;
  int adding_rounds = 0;  ///< the first ones, in which weight gradients are added in any case
  bool poison_workspace = false;  ///< between calls, too
};

/// Runs pack and forward, and backward when planned for training. All memory and outputs start as
/// NaN; x past a row's end is large and dy there NaN.
Tensors run(const StackCase& stack, const RunOptions& options);

/// The same by one plan, one case after the other; they share descriptor and weights.
std::vector<Tensors> run_all(const std::vector<StackCase>& stacks, const RunOptions& options);

/// What h0, hn or one of their gradients has of one row.
std::vector<double> state_of_row(const Descriptor& descriptor, const std::vector<double>& states,
                                 std::int64_t rows, std::int64_t row);
/// The case with only one of its rows.
StackCase single_row(const StackCase& stack, std::int64_t row);

}  // namespace sluice::kernels::recurrent::testing
