#pragma once

#include <nanobind/nanobind.h>
#include <sluice.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device.h"

namespace sluice::python {

/// sluice_recurrent_options with memory of their own and names as text.
struct PlanOptions {
  std::string cell;
  std::int64_t input;
  std::vector<std::int64_t> hidden;
  std::vector<std::int64_t> projection;  ///< empty: none
  std::string dtype;
  std::optional<std::string> weight_dtype, cell_dtype;
  std::string implementation;
  sluice_recurrent_options rest;  ///< numbers and switches
};

class Plan {
 public:
  Plan(std::shared_ptr<Stream> stream, const PlanOptions& options);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan();

  const std::shared_ptr<Stream>& stream() const { return stream_; }
  const sluice_recurrent_sizes& sizes() const { return sizes_; }
  const char* implementation() const { return sluice_recurrent_implementation(plan_); }
  const char* explain() const { return sluice_recurrent_explain(plan_); }
  const char* packed_layout() const { return sluice_recurrent_packed_layout(plan_); }

  void pack(const std::vector<sluice_recurrent_weights>& weights,
            const sluice_recurrent_memory& memory);
  void forward(const sluice_recurrent_forward_args& args, const sluice_recurrent_memory& memory);
  void backward(const sluice_recurrent_forward_args& args,
                const sluice_recurrent_backward_args& backward,
                const std::optional<std::vector<sluice_recurrent_weights>>& gradients,
                const sluice_recurrent_memory& memory);

 private:
  void check_count(std::size_t count, const char* name) const;

  std::shared_ptr<Stream> stream_;
  std::size_t count_;  ///< layers * directions
  sluice_recurrent* plan_ = nullptr;
  sluice_recurrent_sizes sizes_;
};

void bind_plan(nb::module_& module);

}  // namespace sluice::python
