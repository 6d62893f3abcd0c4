#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sluice/interrupt.h"
#include "sluice/warnings.h"

namespace sluice {

/// Where a model runs, how its numbers may round, and who is warned.
struct Placement {
  std::string device = "cpu";  ///< cpu, cuda or cuda:N
  /// float32; on a GPU also tf32 (products round to TF32), bfloat16 or float16 (activations stored
  /// in 16 bits); on the CPU also int8 (products of 8-bit weights). auto is float32, but for a
  /// model that is stored in fewer bits: int8 on the CPU what is stored in 8, and bfloat16 on a
  /// GPU.
  std::string precision = "auto";
  WarningHandler warnings{};  ///< of all calls of the model
  /// Called during all calls of the model; what it throws ends the call. A sequence stands where it
  /// did if its part is of 4096 tokens or frames or fewer, else it may stand within the part.
  InterruptCheck interrupt{};
  /// A model keeps plans, packed weights, working memory and captured steps from call to call, so
  /// that the next call of like extent finds them ready. After a call they take at most so many
  /// bytes of the device's memory; those that were not used for longest go first. 0: nothing is
  /// kept. -1: 1 GiB, or twice the parameters where that is more.
  std::int64_t plan_cache_bytes = -1;
};

/// Plans that a model keeps now (Placement::plan_cache_bytes), and how often it made one.
struct PlanCacheUse {
  std::int64_t plans = 0;
  std::int64_t bytes = 0;           ///< of the device's memory
  std::int64_t plans_made = 0;      ///< since the model was loaded
  std::int64_t weights_packed = 0;  ///< how often the weights of a layer were packed
};

/// What a checkpoint holds, for people.
struct ModelInfo {
  std::string path;
  std::string kind;           ///< model.kind: "seq2seq"
  std::string configuration;  ///< JSON
  std::int64_t parameters = 0;
  std::string stored;  ///< what matrices are stored in: "float32", "bfloat16" or "int8"
  /// "source tokenizer" and its kind and size, and so on.
  std::vector<std::pair<std::string, std::string>> vocabularies;
  std::vector<std::pair<std::string, std::string>> tensors;  ///< name, shape
  /// Which implementation runs each part on this device, and why others were passed over.
  std::string explanation;
};

/// Of a checkpoint folder, its model.safetensors or the folder of a training run (whose best/ comes
/// before its last/, for all that loads models), whatever kind of model it holds. Throws
/// ErrorCode::kNotFound or kFormat, as every loading does.
ModelInfo describe_model(const std::string& path, const Placement& placement = {});

/// ModelInfo::kind alone, without the model going to a device; throws as describe_model.
std::string kind_of_model(const std::string& path);

}  // namespace sluice
