#include "data/segmenter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "data/child_process.h"
#include "data/utf8.h"

namespace sluice::data {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of one answer

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

std::string as_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line + '\n';
}

/// The first characters of a text, for messages.
std::string excerpt(std::string_view text) {
  if (text.size() <= 60) return std::string(text);
  std::string_view cut = text.substr(0, 60);
  cut = cut.substr(0, find_invalid_utf8(cut));
  return std::string(cut) + "…";
}

}  // namespace

/// The command while it runs.
struct Segmenter::Started {
  explicit Started(const std::string& command) : process(command) {}

  ChildProcess process;
  std::string heard;   ///< of an answer that isn't whole yet
  bool spoke = false;  ///< it has answered something
  bool is_new = true;  ///< no call has been answered line by line
};

/// The questions of one call and what has been answered.
class Segmenter::Exchange {
 public:
  Exchange(Segmenter& segmenter, std::span<const std::string> texts)
      : segmenter_(segmenter), process_(segmenter.started_->process), texts_(texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (!is_blank(texts[i])) asked_.push_back(i);
    }
    answers_.resize(texts.size());
  }

  std::vector<std::string> take() { return std::move(answers_); }

  /// What came since the last call answers nothing that was asked.
  void refuse_leftovers() {
    read_what_came();
    if (ended_) return;
    if (!segmenter_.started_->heard.empty()) refuse_surplus();
  }
  bool ended() const { return ended_; }

  void run(bool is_file) {
    is_last_ = is_file || !segmenter_.answers_by_line_;
    Clock::time_point sign_of_life = Clock::now();
    while (!done()) {
      if (wrote_all() && is_last_) process_.close_input();
      const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - sign_of_life);
      const milliseconds left = std::max(longest_wait() - waited, milliseconds(0));
      if (!process_.ready(!wrote_all(), left)) {
        give_up_waiting();
        sign_of_life = Clock::now();
      } else if (write_some() + read_what_came() > 0) {
        sign_of_life = Clock::now();
      }
    }
    if (ended_) {
      check_end();
    } else if (std::exchange(segmenter_.started_->is_new, false)) {
      if (process_.ready(false, segmenter_.patience_.surplus)) refuse_leftovers();
    } else {
      refuse_leftovers();
    }
  }

 private:
  bool wrote_all() const {
    return !process_.input_open() || (next_ == asked_.size() && unsent_.empty());
  }
  bool done() const { return ended_ || (!is_last_ && answered_ == asked_.size()); }

  milliseconds longest_wait() const {
    const SegmenterPatience& patience = segmenter_.patience_;
    if (!wrote_all() || is_last_) return patience.silence;
    // Until the first answer it may be loading a model.
    constexpr int kStart = 6;
    return segmenter_.started_->spoke ? patience.by_line : kStart * patience.by_line;
  }

  /// Nothing came for as long as was to be waited.
  void give_up_waiting() {
    if (!wrote_all() || is_last_) {
      fail(ErrorCode::kIo, "did nothing for {} s", segmenter_.patience_.silence.count() / 1000);
    }
    is_last_ = true;
    segmenter_.answers_by_line_ = false;
  }

  std::size_t write_some() {
    if (wrote_all()) return 0;
    while (unsent_.size() < kChunk && next_ < asked_.size()) {
      unsent_ += as_line(texts_[asked_[next_++]]);
    }
    const std::size_t written = process_.write(unsent_);
    unsent_.erase(0, written);
    return written;
  }

  std::size_t read_what_came() {
    std::size_t total = 0;
    std::string& heard = segmenter_.started_->heard;
    while (!ended_) {
      char bytes[4096];
      const auto got = process_.read(bytes);
      if (!got) break;
      ended_ = *got == 0;
      total += *got;
      heard.append(bytes, *got);
      take_answers(heard);
    }
    return total + (ended_ ? 1 : 0);
  }

  void take_answers(std::string& heard) {
    std::size_t begin = 0;
    for (std::size_t end; (end = heard.find('\n', begin)) != std::string::npos; begin = end + 1) {
      answer(std::string_view(heard).substr(begin, end - begin));
    }
    heard.erase(0, begin);
    if (ended_ && !heard.empty()) answer(std::exchange(heard, {}));
    if (heard.size() > kMostBytes) {
      fail(ErrorCode::kFormat, "answers with a line of more than {} MiB", kMostBytes >> 20);
    }
  }

  void answer(std::string_view line) {
    if (answered_ == asked_.size()) refuse_surplus();
    segmenter_.started_->spoke = true;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t place = asked_[answered_++];
    if (find_invalid_utf8(line) < line.size()) {
      fail(ErrorCode::kFormat, "answers text {} with what is not UTF-8", place + 1);
    }
    answers_[place] = line;
  }

  void check_end() {
    const std::string how = process_.wait();
    if (process_.exit_code() == 127 || process_.exit_code() == 126) {
      fail(ErrorCode::kNotFound, "can't be run: the shell doesn't find it ({})", how);
    }
    if (answered_ < asked_.size()) {
      const std::size_t text = asked_[answered_];
      fail(ErrorCode::kIo, "ended with {} after {} of {} lines; the next is of text {}: '{}'", how,
           answered_, asked_.size(), text + 1, excerpt(texts_[text]));
    }
    if (process_.exit_code() != 0) fail(ErrorCode::kIo, "ended with {}", how);
  }

  [[noreturn]] void refuse_surplus() {
    fail(ErrorCode::kFormat, "answers with more lines than it is asked; it must write one a line");
  }

  template <typename... Args>
  [[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
    base::fail(code, "the segmenter '{}' {}", segmenter_.command_,
               fmt::format(format, std::forward<Args>(args)...));
  }

  Segmenter& segmenter_;
  ChildProcess& process_;
  std::span<const std::string> texts_;
  std::vector<std::size_t> asked_;  ///< places of the texts that aren't blank
  std::vector<std::string> answers_;
  std::size_t next_ = 0;      ///< of asked_, to be written
  std::size_t answered_ = 0;  ///< of asked_
  std::string unsent_;
  bool is_last_ = false;  ///< the input ends after these
  bool ended_ = false;    ///< the output has
};

Segmenter::Segmenter(std::string command, const SegmenterPatience& patience)
    : command_(std::move(command)), patience_(patience) {
  SLUICE_CHECK(!is_blank(command_), "a segmenter needs a command");
}

Segmenter::~Segmenter() = default;

std::vector<std::string> Segmenter::segment(std::span<const std::string> texts) {
  return run(texts, false);
}

std::vector<std::string> Segmenter::segment_file(std::span<const std::string> texts) {
  return run(texts, true);
}

std::vector<std::string> Segmenter::run(std::span<const std::string> texts, bool is_file) {
  const std::lock_guard lock(mutex_);
  if (std::all_of(texts.begin(), texts.end(), is_blank)) {
    return std::vector<std::string>(texts.size());
  }
  try {
    if (started_) {
      Exchange before(*this, {});
      before.refuse_leftovers();
      if (before.ended()) started_.reset();
    }
    if (!started_) started_ = std::make_unique<Started>(command_);
    Exchange exchange(*this, texts);
    exchange.run(is_file);
    if (exchange.ended()) started_.reset();
    return exchange.take();
  } catch (...) {
    started_.reset();
    throw;
  }
}

}  // namespace sluice::data
