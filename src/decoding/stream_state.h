#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/host_tensor.h"
#include "models/model.h"
#include "models/step_model.h"

namespace sluice::decoding {

/// Where samples that were cut stand: what going on with them takes beside the model and, where it
/// has an encoder, the encoded inputs. It lies in host memory, so any device can go on. Row
/// i * samples + j is sample j of input i.
struct StreamState {
  std::uint64_t seed = 1;
  std::int64_t samples = 0;             ///< of each input
  std::int32_t steps = 0;               ///< tokens so far of each sample that hasn't ended
  std::vector<std::int32_t> input_ids;  ///< [inputs]: keys of the random numbers
  std::vector<std::int32_t> tokens;     ///< [rows]: what the model is fed next
  std::vector<std::int32_t> status;     ///< [rows]: kernels::sampling::Status, none live
  std::vector<double> scores;           ///< [rows]: sum of log p so far
  /// StepModel::state by name; numbers of 16 bits as float32.
  io::TensorTable model;

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
};

/// Where one sequence that comes in parts (models::SequenceStream) stands.
struct SequenceState {
  io::TensorTable model;      ///< its state by name, as above
  std::vector<float> answer;  ///< to all so far, if the model gives one and has seen any
};

/// The state of a model's rows, on the host. Waits for the device.
io::TensorTable download_state(const models::Context& context,
                               std::span<const models::StateTensor> tensors);
/// Into a model that has been started with as many rows. Throws ErrorCode::kFormat if names, shapes
/// or kinds of numbers differ, with the tensor and both shapes; then nothing has changed.
void upload_state(const models::Context& context, std::span<const models::StateTensor> tensors,
                  const io::TensorTable& state);

/// Tells models apart: a digest of configuration and weights. Waits for the device.
std::string identity_of(const models::Context& context, const models::Model& model);

/// As one safetensors file (docs/checkpoint.md), whole or not at all. Throws ErrorCode::kIo if the
/// disk refuses.
void save_stream(const std::filesystem::path& path, const StreamState& state,
                 const std::string& model_identity);
/// Throws ErrorCode::kNotFound if there is no file, kFormat for what is damaged, of another kind,
/// newer than this program or saved from a model of another identity.
StreamState load_stream(const std::filesystem::path& path, const std::string& model_identity);
/// The bytes of that file, and a state of them; it throws as load_stream.
std::string stream_bytes(const StreamState& state, const std::string& model_identity);
StreamState stream_of_bytes(std::string_view bytes, const std::string& model_identity);

/// The same of one sequence, whose numbers are finite: load_sequence throws ErrorCode::kFormat for
/// others.
void save_sequence(const std::filesystem::path& path, const SequenceState& state,
                   const std::string& model_identity);
SequenceState load_sequence(const std::filesystem::path& path, const std::string& model_identity);
std::string sequence_bytes(const SequenceState& state, const std::string& model_identity);
SequenceState sequence_of_bytes(std::string_view bytes, const std::string& model_identity);

}  // namespace sluice::decoding
