#pragma once

#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/buffer.h"
#include "runtime/device.h"
#include "runtime/tensor.h"
#include "runtime/tuning.h"
#include "sluice/interrupt.h"
#include "sluice/warnings.h"

namespace sluice::runtime {

class Profiler;

/// How a computation may round. Parameters, their gradients, sums of products and cell states stay
/// float32 (or float64 where the parameters are).
struct Precision {
  DType storage = DType::kFloat32;  ///< of activations that layers hand to each other
  /// Whether products of float32 may round their factors to TF32 (11 significant bits) where the
  /// device has it.
  bool tf32 = false;
  /// Whether inference multiplies by weights as 8-bit integers (docs/quantization.md): on the CPU.
  bool int8 = false;

  /// "float32", "tf32", "bfloat16", "float16" or "int8"; throws ErrorCode::kInvalidArgument for
  /// others.
  static Precision parse(std::string_view name);
};

/// What every operation is given: the device and the stream to queue work on. Passed, never
/// global, so that two engines live in one process. Owns neither.
class Context {
 public:
  explicit Context(Device& device) : Context(device, device.default_stream()) {}
  /// With a stream of the caller's.
  Context(Device& device, Stream& stream) : device_(&device), stream_(&stream) {}

  /// float32 throughout unless set.
  const Precision& precision() const { return precision_; }
  void set_precision(const Precision& precision) { precision_ = precision; }
  bool tf32() const { return precision_.tf32; }

  /// Who is told what is queued (runtime/span.h): null, nobody, unless set. Must outlive whoever is
  /// given this context or a copy.
  Profiler* profiler() const { return profiler_; }
  void set_profiler(Profiler* profiler) { profiler_ = profiler; }

  /// Where implementations that are measured rather than chosen by rule are looked up and noted;
  /// null unless set. Must outlive the context.
  Tuning* tuning() const { return tuning_; }
  void set_tuning(Tuning* tuning) { tuning_ = tuning; }

  /// Takes warnings (base/warn.h): null, standard error, unless set. Must outlive the context.
  const WarningHandler* warnings() const { return warnings_; }
  void set_warnings(const WarningHandler* warnings) { warnings_ = warnings; }

  /// Called by check_interrupt(): null, nothing, unless set. Must outlive the context.
  void set_interrupt(const InterruptCheck* interrupt) { interrupt_ = interrupt; }
  /// For loops of long work: throws what the caller of the library has it throw.
  void check_interrupt() const {
    if (interrupt_ != nullptr && *interrupt_) (*interrupt_)();
  }

  Device& device() const { return *device_; }
  Stream& stream() const { return *stream_; }

  void synchronize() const { stream_->synchronize(); }
  /// Contiguous tensors only.
  void zero(const Tensor& tensor) const;
  void copy(const Tensor& destination, const Tensor& source) const;

  /// Copies to the device; the host memory may be reused when this returns.
  template <typename T>
  void upload(const Tensor& destination, std::span<const T> source) const {
    check_transfer(destination, base::dtype_of<T>(), source.size());
    stream_->upload(destination.data(), source.data(), source.size_bytes());
  }

  /// Waits, then returns the content of a contiguous tensor.
  template <typename T>
  std::vector<T> download(const Tensor& source) const {
    std::vector<T> values(static_cast<std::size_t>(source.element_count()));
    check_transfer(source, base::dtype_of<T>(), values.size());
    stream_->copy(values.data(), source.data(), values.size() * sizeof(T), CopyKind::kDeviceToHost);
    stream_->synchronize();
    return values;
  }

 private:
  static void check_transfer(const Tensor& tensor, DType dtype, std::size_t count);

  Device* device_;
  Stream* stream_;
  Precision precision_;
  Profiler* profiler_ = nullptr;
  Tuning* tuning_ = nullptr;
  const WarningHandler* warnings_ = nullptr;
  const InterruptCheck* interrupt_ = nullptr;
};

}  // namespace sluice::runtime
