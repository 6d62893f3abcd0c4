#include <cstring>
#include <nlohmann/json.hpp>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

/// A float32 tensor of a safetensors file: a length, that many bytes of JSON, then the numbers.
std::vector<float> tensor_of(const std::string& file, const std::string& name) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  const auto header = nlohmann::json::parse(file.substr(8, length));
  const auto offsets = header.at(name).at("data_offsets").get<std::vector<std::size_t>>();
  std::vector<float> numbers((offsets.at(1) - offsets.at(0)) / sizeof(float));
  std::memcpy(numbers.data(), file.data() + 8 + length + offsets[0], offsets[1] - offsets[0]);
  return numbers;
}

/// Numbers between tabs, row after row of the same width.
std::vector<float> numbers_of(const std::string& tsv, std::size_t width) {
  std::vector<float> numbers;
  for (const std::string& line : split(tsv, '\n')) {
    const std::vector<std::string> row = split(line, '\t');
    EXPECT_EQ(row.size(), width) << line;
    for (const std::string& number : row) numbers.push_back(std::stof(number));
  }
  return numbers;
}

TEST(ExportEmbeddings, WritesWhatTheProjectorReads) {
  const Workplace place;
  place.train({"training.max_steps=3"});
  const Outcome outcome = place.sluice({"export-embeddings", "run/best", "run/tensorboard"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // Four special ids and the letters a to h.
  EXPECT_EQ(outcome.out,
            "source_embedding.weight: 12 tokens of 16 numbers\n"
            "target_embedding.weight: 12 tokens of 16 numbers\n");
  const std::string model = place.read("run/best/model.safetensors");
  std::string config;
  for (const std::string name : {"source_embedding.weight", "target_embedding.weight"}) {
    const std::string vectors = place.read("run/tensorboard/" + name + ".vectors.tsv");
    EXPECT_EQ(numbers_of(vectors, 16), tensor_of(model, name)) << name;
    const auto labels = split(place.read("run/tensorboard/" + name + ".labels.tsv"), '\n');
    ASSERT_EQ(labels.size(), 12u);
    EXPECT_EQ(labels[0], "<pad>");
    EXPECT_EQ(labels[3], "</s>");
    config += "embeddings {\n  tensor_name: \"" + name + "\"\n  tensor_path: \"" + name +
              ".vectors.tsv\"\n  metadata_path: \"" + name + ".labels.tsv\"\n}\n";
  }
  EXPECT_EQ(place.read("run/tensorboard/projector_config.pbtxt"), config);
}

TEST(ExportEmbeddings, OfOneVocabularyAndOfTiedOnes) {
  const Workplace place;
  place.train_texts({"training.max_steps=2"});
  const Outcome texts = place.sluice({"export-embeddings", "text/best", "-o", "projector"});
  EXPECT_EQ(texts.out.substr(0, texts.out.find(':')), "embedding.weight") << texts.err;
  place.train({"training.max_steps=2", "tokenizer.shared=true", "model.tie_embeddings=all"});
  const Outcome tied = place.sluice({"export-embeddings", "run/best", "tied"});
  EXPECT_EQ(tied.out, "embedding.weight: 12 tokens of 16 numbers\n") << tied.err;
  place.expect_error({"export-embeddings", "nowhere", "projector"}, {"nowhere"});
  const Outcome none = place.sluice({"export-embeddings", "run/best"});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err, "sluice: error: --output is required; see sluice export-embeddings --help\n");
  EXPECT_EQ(place.sluice({"export-embeddings", "run/best", "a", "-o", "b"}).code, 2);
}

}  // namespace
}  // namespace sluice::end_to_end
