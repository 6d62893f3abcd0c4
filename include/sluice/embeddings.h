#pragma once

#include <string>
#include <vector>

namespace sluice {

/// Embeddings of a vocabulary that were written.
struct ExportedEmbeddings {
  std::string parameter;  ///< "source_embedding.weight"
  std::size_t tokens = 0;
  std::size_t width = 0;
};

/// Writes the embeddings of a checkpoint into a folder, which is made if it isn't there, as
/// TensorBoard's embedding projector reads them: for each parameter vectors (a token a line,
/// numbers between tabs) and labels (the tokens in the same order), and `projector_config.pbtxt`,
/// which names them. Written into a run's tensorboard/, they show beside its curves. Throws Error:
/// as describe_model, and ErrorCode::kInvalidArgument for a model without embeddings.
std::vector<ExportedEmbeddings> export_embeddings(const std::string& model,
                                                  const std::string& directory);

}  // namespace sluice
