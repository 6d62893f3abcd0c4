#pragma once

#include <filesystem>
#include <string_view>

namespace sluice::interchange {

/// The formats that sluice convert reads.
enum class SourceFormat {
  kSluice,                ///< a checkpoint folder or model.safetensors
  kSafetensors,           ///< of other programs
  kTorch,                 ///< torch.save or torch.jit.save
  kNpz,                   ///< numpy.savez
  kNpy,                   ///< numpy.save
  kPickle,                ///< a pickle that is no file of PyTorch
  kKeras,                 ///< .keras, or HDF5 of Keras
  kTensorflowCheckpoint,  ///< V1 or V2
  kTensorflowGraph,       ///< a GraphDef
  kSavedModel,            ///< a folder or saved_model.pb
  kOnnx,
  kPaddle,  ///< a folder of Paddle 1 with "__model__"
};

/// "a Keras file"
std::string_view describe(SourceFormat format);

/// The format of a file or folder, by its content. Throws ErrorCode::kNotFound if there is none,
/// kUnsupported if it is of no format that is known.
SourceFormat recognize(const std::filesystem::path& path);

}  // namespace sluice::interchange
