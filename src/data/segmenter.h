#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

/// How long a Segmenter waits for its command.
struct SegmenterPatience {
  /// For the answer to all that was asked, before it ends the command's input: there are commands
  /// that answer only then. Six times as long for its first answer, before which it starts.
  std::chrono::milliseconds by_line{5000};
  /// For any sign of life, before it gives up.
  std::chrono::milliseconds silence{300'000};
  /// After the first call that it answers line by line, for a line too many: one that begins with a
  /// line of its own answers each text with the answer to the one before.
  std::chrono::milliseconds surplus{100};
};

/// A command from outside that segments texts: it reads lines and writes each with spaces between
/// its words. It is started when first needed. One that answers line by line stays and is asked
/// again; one that answers when its input ends is started anew for each call. May be used by
/// several threads, one at a time.
class Segmenter {
 public:
  explicit Segmenter(std::string command, const SegmenterPatience& patience = {});
  ~Segmenter();

  const std::string& command() const { return command_; }

  /// Each of `texts` segmented. Texts of white space alone are not asked about and come out empty;
  /// line ends within a text become spaces. Throws ErrorCode::kFormat for other than one line of
  /// UTF-8 an answer, with the text's number, from 1 (a line too many is noticed by the next call,
  /// if it comes later than patience.surplus after the first); ErrorCode::kNotFound if the shell
  /// doesn't find the command; ErrorCode::kIo if it ends before its time, fails, or says nothing
  /// for too long. It is started anew after an error.
  std::vector<std::string> segment(std::span<const std::string> texts);
  /// The same of texts after which no others come soon, such as a file's: ends the command.
  std::vector<std::string> segment_file(std::span<const std::string> texts);

 private:
  class Exchange;
  std::vector<std::string> run(std::span<const std::string> texts, bool is_file);

  std::string command_;
  SegmenterPatience patience_;
  bool answers_by_line_ = true;  ///< as far as is known
  std::mutex mutex_;
  struct Started;
  std::unique_ptr<Started> started_;
};

}  // namespace sluice::data
