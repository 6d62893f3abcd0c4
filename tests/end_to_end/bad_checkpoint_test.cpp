#include <cstring>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

/// Model files that are damaged or lie, as decode, score, chat, info and a resumed run meet them.
class BadCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    place_.train({"training.max_steps=4"});
    model_ = place_.read("run/best/model.safetensors");
    std::filesystem::create_directory(place_ / "bad");
  }

  /// Every command refuses this content, naming the file.
  void refuse(const std::string& content, const std::vector<std::string>& said) {
    place_.write("bad/model.safetensors", content);
    std::vector<std::string> all = said;
    all.push_back("bad/model.safetensors");
    place_.expect_error({"decode", "bad"}, all, {.input = "a\n"});
    place_.expect_error({"info", "bad/model.safetensors"}, all);
  }
  /// The model with the first `from` in its header replaced, and the header's length with it.
  std::string altered(const std::string& from, const std::string& to) const {
    std::uint64_t length = 0;
    std::memcpy(&length, model_.data(), sizeof length);
    std::string header = model_.substr(8, length);
    const std::size_t place = header.find(from);
    if (place == std::string::npos) {
      ADD_FAILURE() << from << " is not in " << header;
      return model_;
    }
    header.replace(place, from.size(), to);
    return with_length(header.size()) + header + model_.substr(8 + length);
  }
  static std::string with_length(std::uint64_t length) {
    return {reinterpret_cast<const char*>(&length), sizeof length};
  }

  Workplace place_;
  std::string model_;
};

TEST_F(BadCheckpoint, Truncated) {
  refuse("", {});
  refuse(model_.substr(0, 7), {});
  refuse(model_.substr(0, 100), {});
  refuse(model_.substr(0, model_.size() - 1), {});
}

TEST_F(BadCheckpoint, Oversized) {
  refuse(with_length(~std::uint64_t{0}) + model_.substr(8), {});
  refuse(with_length(99'000'000) + model_.substr(8), {});
  refuse(model_ + "x", {});
}

TEST_F(BadCheckpoint, Lying) {
  refuse(altered("\"F32\"", "\"F64\""), {});
  refuse(altered("\"data_offsets\":[0,", "\"data_offsets\":[4,"), {});
  refuse(altered("\"shape\":[", "\"shape\":[9999999999,9999999999,"), {});
  refuse(altered("weight_hh", "weight_hx"), {"lacks the tensor", "weight_hh"});
  refuse(altered("{", "{{"), {});
}

TEST_F(BadCheckpoint, NewerRevision) {
  refuse(altered("\"model_revision\":\"1\"", "\"model_revision\":\"7\""),
         {"7", "knows up to 2", "newer Sluice"});
}

TEST_F(BadCheckpoint, NoneThere) {
  std::filesystem::create_directory(place_ / "empty");
  for (const std::string path : {"empty", "nowhere", "task.toml"}) {
    const std::vector<std::string> said{"'" + path + "'",
                                        "give a checkpoint folder, its model.safetensors or the "
                                        "folder of a training run"};
    place_.expect_error({"decode", path}, said, {.input = "a\n"});
    place_.expect_error({"info", path}, said);
    place_.expect_error({"score", path, "valid.tsv"}, said);
    place_.expect_error({"chat", path}, said);
  }
  place_.expect_error({"decode", "run/best", "--device", "cuda:99"},
                      {"device cuda:99 is not available"});
  place_.expect_error({"info", "run/best", "--device", "abacus"}, {"unknown device 'abacus'"});
}

TEST_F(BadCheckpoint, ResumingFromDamageLosesNothing) {
  const std::string half = model_.substr(0, model_.size() / 2);
  place_.write("run/last/model.safetensors", half);
  place_.expect_train_error({}, {"run/last/model.safetensors"});
  EXPECT_EQ(place_.read("run/last/model.safetensors"), half);
  EXPECT_EQ(place_.read("run/best/model.safetensors"), model_);
}

}  // namespace
}  // namespace sluice::end_to_end
