#include "bench/gemm/gemm_bench.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "bench/gemm/library.h"
#include "bench/host_numbers.h"
#include "bench/machine.h"
#include "bench/output_file.h"
#include "bench/statistics.h"
#include "runtime/buffer.h"

namespace sluice::bench::gemm {
namespace {

using kernels::matmul::MatmulArgs;
using runtime::Context;
using runtime::Tensor;

// Operands of one product, as many copies as it takes that successive runs find none of them in a
// cache (twice the largest, unless that takes more than 1 GiB). Weights stay.
class Operands {
 public:
  Operands(const Context& context, const Product& product) : context_(context), product_(product) {
    Random random(1);
    a_ = draw(random, product.m * product.k, 1, product.dtype);
    b_ = draw(random, product.k * product.n, 1, product.dtype);
    sets_.push_back(make_set());
    const MatmulArgs& first = sets_.front();
    std::size_t bytes = first.a.byte_size() + first.c.byte_size();
    if (!product.has_weights()) bytes += first.b.byte_size();
    const std::size_t wanted = 1 + 2 * context.device().cache_bytes() / bytes;
    const std::size_t most = std::max<std::size_t>(1, (std::size_t{1} << 30) / bytes);
    while (sets_.size() < std::min({wanted, most, std::size_t{64}})) sets_.push_back(make_set());
  }

  const MatmulArgs& next() {
    current_ = (current_ + 1) % sets_.size();
    return sets_[current_];
  }
  /// Relative RMS difference of some elements of c from sums in float64.
  double error_of(const Tensor& c) const;

 private:
  Tensor make(const base::Shape& shape, base::DType dtype) {
    const auto count = static_cast<std::size_t>(shape.element_count());
    return buffers_.emplace_back(context_.device(), count * base::size_of(dtype))
        .tensor(dtype, shape);
  }
  Tensor make(const base::Shape& shape, const std::vector<double>& values) {
    const Tensor tensor = make(shape, product_.dtype);
    upload(context_, tensor, values);
    return tensor;
  }
  MatmulArgs make_set() {
    const Product& p = product_;
    MatmulArgs args;
    args.transpose_a = p.transpose_a();
    args.transpose_b = p.transpose_b();
    args.a = make(args.transpose_a ? base::Shape{p.k, p.m} : base::Shape{p.m, p.k}, a_);
    const bool shared = p.has_weights() && !sets_.empty();
    args.b = shared ? sets_.front().b
                    : make(args.transpose_b ? base::Shape{p.n, p.k} : base::Shape{p.k, p.n}, b_);
    args.c = make({p.m, p.n}, base::policy_of(p.dtype).accumulate);
    return args;
  }

  const Context& context_;
  const Product& product_;
  std::vector<double> a_, b_;
  std::deque<runtime::Buffer> buffers_;
  std::vector<MatmulArgs> sets_;
  std::size_t current_ = 0;
};

double Operands::error_of(const Tensor& c) const {
  constexpr int kSamples = 64;
  const Product& p = product_;
  const std::vector<double> values = download(context_, c);
  Random random(2);
  const auto pick = [&](std::int64_t count) {
    return static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(count));
  };
  double difference = 0, norm = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    const std::int64_t i = pick(p.m), j = pick(p.n);
    double sum = 0;
    for (std::int64_t l = 0; l < p.k; ++l) {
      const std::int64_t at_a = p.transpose_a() ? l * p.m + i : i * p.k + l;
      const std::int64_t at_b = p.transpose_b() ? j * p.k + l : l * p.n + j;
      sum += a_[static_cast<std::size_t>(at_a)] * b_[static_cast<std::size_t>(at_b)];
    }
    const double found = values[static_cast<std::size_t>(i * p.n + j)] - sum;
    difference += found * found;
    norm += sum * sum;
  }
  return std::sqrt(difference / norm);
}

// All turns of one product.
class Contest {
 public:
  Contest(const Product& product, const runtime::Device& device, const Context& context)
      : product_(product), device_(device), context_(context), operands_(context, product) {}

  /// Throws ErrorCode::kUnsupported with the reason if the library declines.
  void enter(const Library& library) {
    Entry entry{&library, library.prepare(product_), 0};
    const MatmulArgs& args = operands_.next();
    poison(context_, args.c);
    entry.multiply(context_, args);
    entry.error = operands_.error_of(args.c);
    entries_.push_back(std::move(entry));
  }
  std::vector<GemmResult> run(std::int64_t repeats);

 private:
  struct Entry {
    const Library* matrix_library;
    Multiply multiply;
    double error;
  };
  double time(const Entry& entry) {
    const MatmulArgs& args = operands_.next();
    return context_.stream().milliseconds_of([&] { entry.multiply(context_, args); });
  }

  const Product& product_;
  const runtime::Device& device_;
  const Context& context_;
  Operands operands_;
  std::vector<Entry> entries_;
};

std::vector<GemmResult> Contest::run(std::int64_t repeats) {
  std::vector<std::vector<double>> times(entries_.size());
  std::vector<bool> peers;
  for (const Entry& entry : entries_) {
    for (int i = 0; i < 2; ++i) time(entry);  // warm-up
    peers.push_back(entry.matrix_library->peer);
  }
  for (std::int64_t turn = 0; turn < repeats; ++turn) {
    for (std::size_t i = 0; i < entries_.size(); ++i) times[i].push_back(time(entries_[i]));
  }
  const std::vector<double> best = best_of(times, peers);
  const bool has_peer = std::ranges::find(peers, true) != peers.end();
  std::vector<GemmResult> results;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    GemmResult result;
    result.product = product_;
    result.product.device = device_.name();
    result.matrix_library = entries_[i].matrix_library->name;
    result.device_model = device_.model();
    result.peer = peers[i];
    result.milliseconds = median(times[i]);
    result.gflops = product_.flops() / result.milliseconds * 1e-6;
    result.error = entries_[i].error;
    if (has_peer) result.speedup_over_peer = median_ratio(best, times[i]);
    results.push_back(std::move(result));
  }
  return results;
}

constexpr const char* kRow = "{:<20} {:<15} {:<22} {:<9} {:<18} {:>10} {:>9} {:>9} {:>8}\n";

void print(std::ostream& out, const GemmResult& result) {
  const Product& p = result.product;
  out << fmt::format(
             kRow, p.name, name_of(p.kind), fmt::format("{} x {} x {}", p.m, p.n, p.k),
             p.dtype_name(), result.matrix_library + (result.peer ? " (peer)" : ""),
             fmt::format("{:.4f}", result.milliseconds), fmt::format("{:.1f}", result.gflops),
             fmt::format("{:.1e}", result.error),
             result.speedup_over_peer ? fmt::format("{:.2f}x", *result.speedup_over_peer) : "-")
      << std::flush;
}

// The libraries of one device, and which of them were asked for.
class Session {
 public:
  Session(const GemmBenchOptions& options, const std::string& device_name, std::ostream& out)
      : options_(options),
        out_(out),
        device_(runtime::open_device(device_name)),
        libraries_(libraries_for(*device_)) {
    std::istringstream names(options.libraries == "all" ? "" : options.libraries);
    for (std::string name; std::getline(names, name, ',');) require(name);
    if (!wanted_.empty()) return;
    for (const Missing& missing : libraries_.missing) {
      out << fmt::format("# {} takes no part: {}\n", missing.name, missing.reason);
    }
  }

  std::vector<GemmResult> run(const Product& product) {
    Context context(*device_);
    context.set_precision({product.dtype, product.tf32});
    Contest contest(product, *device_, context);
    for (const Library& library : libraries_.found) {
      const bool named = std::ranges::find(wanted_, library.name) != wanted_.end();
      if (!named && !wanted_.empty()) continue;
      try {
        contest.enter(library);
      } catch (const Error& error) {
        if (named || error.code() != ErrorCode::kUnsupported) throw;
        out_ << fmt::format("# {} {}: {} declines: {}\n", product.name, name_of(product.kind),
                            library.name, error.what());
      }
    }
    return contest.run(options_.repeats);
  }

 private:
  void require(const std::string& name) {
    std::string known;
    for (const Library& library : libraries_.found) {
      if (library.name == name) return wanted_.push_back(name);
      known += (known.empty() ? "" : ", ") + library.name;
    }
    for (const Missing& missing : libraries_.missing) {
      if (missing.name != name) continue;
      base::fail(ErrorCode::kUnsupported, "{} takes no part: {}", name, missing.reason);
    }
    base::fail(ErrorCode::kInvalidArgument, "unknown library '{}'; {} has {}", name,
               device_->name(), known);
  }

  const GemmBenchOptions& options_;
  std::ostream& out_;
  std::unique_ptr<runtime::Device> device_;
  Libraries libraries_;
  std::vector<std::string> wanted_;  // empty: all
};

}  // namespace

std::vector<GemmResult> run_gemm_bench(const GemmBenchOptions& options, std::ostream& out) {
  SLUICE_CHECK(options.repeats >= 1, "repeats is {}; it must be at least 1", options.repeats);
  SLUICE_CHECK(options.pass == "all" || options.pass == "forward",
               "unknown pass '{}'; use all or forward", options.pass);
  const std::vector<BenchShape> shapes = read_shapes(options.shapes, options.dtype, options.device);
  if (!options.json.empty()) require_writable(options.json);
  std::optional<Session> session;
  std::string device;
  std::vector<GemmResult> all;
  for (const Product& product : products_of(shapes, options.pass == "all")) {
    if (!session || product.device != device) {
      session.emplace(options, device = product.device, out);
      out << fmt::format(kRow, "shape", "product", "m x n x k", "dtype", "library", "ms", "GFLOP/s",
                         "error", "vs peer");
    }
    for (GemmResult& result : session->run(product)) {
      print(out, result);
      all.push_back(std::move(result));
    }
  }
  SLUICE_CHECK(!all.empty(), "{} holds no shape that a library here could multiply",
               options.shapes);
  if (!options.json.empty()) write_file(options.json, to_json(all));
  return all;
}

std::string to_json(const std::vector<GemmResult>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const GemmResult& result : results) {
    const Product& product = result.product;
    nlohmann::ordered_json row;
    row["name"] = product.name;
    row["cell"] = "gemm";
    row["m"] = product.m;
    row["n"] = product.n;
    row["k"] = product.k;
    row["transpose_a"] = product.transpose_a();
    row["transpose_b"] = product.transpose_b();
    row["dtype"] = product.dtype_name();
    row["device"] = product.device;
    row["device_model"] = result.device_model;
    row["pass"] = name_of(product.kind);
    row["implementation"] = result.matrix_library;
    row["peer"] = result.peer;
    row["default"] = !result.peer;
    row["milliseconds"] = result.milliseconds;
    row["gflops"] = result.gflops;
    row["error"] = result.error;
    row["speedup_over_peer"] =
        result.speedup_over_peer ? nlohmann::ordered_json(*result.speedup_over_peer) : nullptr;
    add_machine(row, product.device);
    list.push_back(std::move(row));
  }
  return list.dump(1) + "\n";
}

}  // namespace sluice::bench::gemm
