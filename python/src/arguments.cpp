#include "arguments.h"

#include <sluice.h>

#include <cstdint>
#include <type_traits>

namespace sluice::python {
namespace {

/// Binds a struct of sluice.h. Its members are attributes, and keyword arguments of its
/// constructor.
template <class Struct>
class StructBinder {
 public:
  StructBinder(nb::module_& module, const char* name, const char* doc) : class_(module, name, doc) {
    class_.def("__init__", [](nb::pointer_and_handle<Struct> self, const nb::kwargs& members) {
      new (self.p) Struct();
      self.p->size = sizeof(Struct);
      nb::inst_mark_ready(self.h);
      for (const auto& [member, value] : members) nb::setattr(self.h, member, value);
    });
  }

  template <auto kMember>
  StructBinder& member(const char* name) {
    using Type = std::remove_reference_t<decltype(std::declval<Struct&>().*kMember)>;
    if constexpr (std::is_pointer_v<Type>) {
      class_.def_prop_rw(
          name, [](const Struct& self) { return reinterpret_cast<std::uintptr_t>(self.*kMember); },
          [](Struct& self, std::uintptr_t value) {
            self.*kMember = reinterpret_cast<Type>(value);
          });
    } else {
      class_.def_rw(name, kMember);
    }
    return *this;
  }

 private:
  nb::class_<Struct> class_;
};

void bind_weights(nb::module_& module) {
  using W = sluice_recurrent_weights;
  StructBinder<W>(module, "Weights", "Weights of one layer and direction, or their gradients.")
      .member<&W::weight_ih>("weight_ih")
      .member<&W::weight_hh>("weight_hh")
      .member<&W::bias_ih>("bias_ih")
      .member<&W::bias_hh>("bias_hh")
      .member<&W::weight_hr>("weight_hr")
      .member<&W::weight_peephole>("weight_peephole")
      .member<&W::gain_ih>("gain_ih")
      .member<&W::gain_hh>("gain_hh")
      .member<&W::gain_c>("gain_c")
      .member<&W::shift_c>("shift_c");
}

void bind_forward(nb::module_& module) {
  using F = sluice_recurrent_forward_args;
  StructBinder<F>(module, "ForwardArgs", "Tensors of a run: sluice_recurrent_forward_args.")
      .member<&F::time>("time")
      .member<&F::rows>("rows")
      .member<&F::x>("x")
      .member<&F::lengths>("lengths")
      .member<&F::resets>("resets")
      .member<&F::h0>("h0")
      .member<&F::c0>("c0")
      .member<&F::y>("y")
      .member<&F::hn>("hn")
      .member<&F::cn>("cn")
      .member<&F::c_sequence>("c_sequence")
      .member<&F::x_time_stride>("x_time_stride")
      .member<&F::x_row_stride>("x_row_stride")
      .member<&F::y_time_stride>("y_time_stride")
      .member<&F::y_row_stride>("y_row_stride")
      .member<&F::row_ids>("row_ids")
      .member<&F::seed>("seed")
      .member<&F::step>("step");
}

void bind_backward(nb::module_& module) {
  using B = sluice_recurrent_backward_args;
  // Gradients of weights are an argument of Plan.backward.
  StructBinder<B>(module, "BackwardArgs", "Tensors of backward: sluice_recurrent_backward_args.")
      .member<&B::dy>("dy")
      .member<&B::dhn>("dhn")
      .member<&B::dcn>("dcn")
      .member<&B::dx>("dx")
      .member<&B::dh0>("dh0")
      .member<&B::dc0>("dc0")
      .member<&B::accumulate>("accumulate")
      .member<&B::dx_time_stride>("dx_time_stride")
      .member<&B::dx_row_stride>("dx_row_stride")
      .member<&B::dy_time_stride>("dy_time_stride")
      .member<&B::dy_row_stride>("dy_row_stride");
}

}  // namespace

void bind_arguments(nb::module_& module) {
  bind_weights(module);
  bind_forward(module);
  bind_backward(module);
  using M = sluice_recurrent_memory;
  StructBinder<M>(module, "Memory", "The three memories of a plan: sluice_recurrent_memory.")
      .member<&M::packed>("packed")
      .member<&M::workspace>("workspace")
      .member<&M::reserve>("reserve");
}

}  // namespace sluice::python
