#include "plan.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <utility>

namespace sluice::python {
namespace {

template <class Value>
using Names = std::vector<std::pair<const char*, Value>>;

/// The value of a name. Raises ValueError with the names that there are.
template <class Value>
Value named(const Names<Value>& names, const std::string& name, const char* what) {
  std::string all;
  for (const auto& [known, value] : names) {
    if (name == known) return value;
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  throw nb::value_error((std::string(what) + " is '" + name + "', not one of " + all).c_str());
}

sluice_cell cell_of(const std::string& name) {
  static const Names<sluice_cell> names{{"lstm", SLUICE_LSTM},
                                        {"gru", SLUICE_GRU},
                                        {"gru_reset_before", SLUICE_GRU_RESET_BEFORE},
                                        {"rnn_tanh", SLUICE_RNN_TANH},
                                        {"rnn_relu", SLUICE_RNN_RELU}};
  return named(names, name, "cell");
}

sluice_dtype dtype_of(const std::string& name, const char* what) {
  static const Names<sluice_dtype> names{{"float64", SLUICE_FLOAT64},
                                         {"float32", SLUICE_FLOAT32},
                                         {"bfloat16", SLUICE_BFLOAT16},
                                         {"float16", SLUICE_FLOAT16}};
  return named(names, name, what);
}

sluice_recurrent_options c_options(const PlanOptions& options) {
  if (!options.projection.empty() && options.projection.size() != options.hidden.size()) {
    throw nb::value_error("projection must have as many numbers as hidden: one a layer");
  }
  sluice_recurrent_options all = options.rest;
  all.size = sizeof all;
  all.cell = cell_of(options.cell);
  all.layers = static_cast<std::int64_t>(options.hidden.size());
  all.input = options.input;
  all.hidden = options.hidden.data();
  all.projection = options.projection.empty() ? nullptr : options.projection.data();
  all.dtype = dtype_of(options.dtype, "dtype");
  if (options.weight_dtype) all.weight_dtype = dtype_of(*options.weight_dtype, "weight_dtype");
  if (options.cell_dtype) all.cell_dtype = dtype_of(*options.cell_dtype, "cell_dtype");
  all.implementation = options.implementation.c_str();
  return all;
}

}  // namespace

Plan::Plan(std::shared_ptr<Stream> stream, const PlanOptions& options)
    : stream_(std::move(stream)),
      count_(options.hidden.size() * static_cast<std::size_t>(options.rest.directions)),
      sizes_(SLUICE_INIT(sluice_recurrent_sizes)) {
  const sluice_recurrent_options all = c_options(options);
  stream_->run([&](sluice_error* error) {
    const sluice_status status = sluice_recurrent_create(stream_->get(), &all, &plan_, error);
    if (status != SLUICE_OK) return status;
    return sluice_recurrent_get_sizes(plan_, &sizes_, error);
  });
}

Plan::~Plan() { sluice_recurrent_destroy(plan_); }

void Plan::check_count(std::size_t count, const char* name) const {
  if (count == count_) return;
  throw nb::value_error((std::string(name) + " has " + std::to_string(count) + " items, not " +
                         std::to_string(count_) + ": one a layer and direction")
                            .c_str());
}

void Plan::pack(const std::vector<sluice_recurrent_weights>& weights,
                const sluice_recurrent_memory& memory) {
  check_count(weights.size(), "weights");
  stream_->run([&](sluice_error* error) {
    return sluice_recurrent_pack(plan_, weights.data(), static_cast<std::int64_t>(weights.size()),
                                 &memory, error);
  });
}

void Plan::forward(const sluice_recurrent_forward_args& args,
                   const sluice_recurrent_memory& memory) {
  stream_->run(
      [&](sluice_error* error) { return sluice_recurrent_forward(plan_, &args, &memory, error); });
}

void Plan::backward(const sluice_recurrent_forward_args& args,
                    const sluice_recurrent_backward_args& backward,
                    const std::optional<std::vector<sluice_recurrent_weights>>& gradients,
                    const sluice_recurrent_memory& memory) {
  sluice_recurrent_backward_args all = backward;
  if (gradients) {
    check_count(gradients->size(), "gradients");
    all.gradients = gradients->data();
  }
  stream_->run([&](sluice_error* error) {
    return sluice_recurrent_backward(plan_, &args, &all, &memory, error);
  });
}

namespace {

/// Keyword arguments of Plan that are numbers or switches, in the order of their binding.
sluice_recurrent_options numbers(std::int64_t directions, std::int64_t time, std::int64_t rows,
                                 bool tf32, bool training, bool strided, double dropout,
                                 bool resets, bool peepholes, bool layer_norm, double zoneout_h,
                                 double zoneout_c, double recurrent_dropout, bool hard_sigmoid) {
  sluice_recurrent_options options = SLUICE_INIT(sluice_recurrent_options);
  options.directions = directions;
  options.time = time;
  options.rows = rows;
  options.tf32 = tf32;
  options.training = training;
  options.strided = strided;
  options.dropout = dropout;
  options.resets = resets;
  options.peepholes = peepholes;
  options.layer_norm = layer_norm;
  options.zoneout_h = zoneout_h;
  options.zoneout_c = zoneout_c;
  options.recurrent_dropout = recurrent_dropout;
  options.hard_sigmoid = hard_sigmoid;
  return options;
}

void construct(Plan* self, std::shared_ptr<Stream> stream, std::string cell, std::int64_t input,
               std::vector<std::int64_t> hidden,
               std::optional<std::vector<std::int64_t>> projection, std::int64_t directions,
               std::int64_t time, std::int64_t rows, std::string dtype,
               std::optional<std::string> weight_dtype, std::optional<std::string> cell_dtype,
               bool tf32, bool training, bool strided, double dropout, bool resets, bool peepholes,
               bool layer_norm, double zoneout_h, double zoneout_c, double recurrent_dropout,
               std::string implementation, bool hard_sigmoid) {
  const PlanOptions options{
      std::move(cell),
      input,
      std::move(hidden),
      std::move(projection).value_or(std::vector<std::int64_t>()),
      std::move(dtype),
      std::move(weight_dtype),
      std::move(cell_dtype),
      std::move(implementation),
      numbers(directions, time, rows, tf32, training, strided, dropout, resets, peepholes,
              layer_norm, zoneout_h, zoneout_c, recurrent_dropout, hard_sigmoid)};
  new (self) Plan(std::move(stream), options);
}

}  // namespace

void bind_plan(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Plan>(module, "Plan",
                   "A stack of recurrent layers for at most `time` steps and `rows` rows: "
                   "sluice_recurrent_options says what the arguments mean.")
      .def("__init__", construct, "stream"_a, "cell"_a, nb::kw_only(), "input"_a, "hidden"_a,
           "projection"_a = nb::none(), "directions"_a = 1, "time"_a, "rows"_a,
           "dtype"_a = "float32", "weight_dtype"_a = nb::none(), "cell_dtype"_a = nb::none(),
           "tf32"_a = false, "training"_a = false, "strided"_a = false, "dropout"_a = 0.0,
           "resets"_a = false, "peepholes"_a = false, "layer_norm"_a = false, "zoneout_h"_a = 0.0,
           "zoneout_c"_a = 0.0, "recurrent_dropout"_a = 0.0, "implementation"_a = "auto",
           "hard_sigmoid"_a = false)
      .def_prop_ro("stream", &Plan::stream)
      .def_prop_ro("implementation", &Plan::implementation)
      .def("explain", &Plan::explain,
           "A line for each implementation that declined: \"name: reason\".")
      .def_prop_ro("packed_layout", &Plan::packed_layout,
                   "Names the layout that pack writes: sluice_recurrent_packed_layout.")
      .def_prop_ro("packed_bytes", [](const Plan& self) { return self.sizes().packed; })
      .def_prop_ro("workspace_bytes", [](const Plan& self) { return self.sizes().workspace; })
      .def_prop_ro("reserve_bytes", [](const Plan& self) { return self.sizes().reserve; })
      .def("pack", &Plan::pack, "weights"_a, "memory"_a,
           "Lays out the weights; again when they change.")
      .def("forward", &Plan::forward, "args"_a, "memory"_a)
      .def("backward", &Plan::backward, "args"_a, "backward"_a, "gradients"_a.none(), "memory"_a,
           "Once for each forward, with the arguments that forward was given.");
}

}  // namespace sluice::python
