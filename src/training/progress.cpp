#include "training/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <utility>

namespace sluice::training {
namespace {

constexpr int kBarWidth = 16;
// Share of the newest interval in the shown speed: steady enough to read, quick enough to follow.
constexpr double kNewest = 0.3;

std::string bar(double fraction) {
  const auto filled = static_cast<std::size_t>(std::lround(fraction * kBarWidth));
  return fmt::format("[{:#<{}}{:.<{}}]", "", filled, "", kBarWidth - filled);
}

}  // namespace

double steady_seconds() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string format_duration(double seconds) {
  const auto s = static_cast<std::int64_t>(std::lround(std::clamp(seconds, 0.0, 1e9)));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

std::string format_count(double count) {
  if (count < 999.5) return fmt::format("{:.0f}", count);
  if (count < 999950) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.1f}M", count / 1e6);
}

Progress::Progress(std::ostream& out, const Options& options, Clock clock)
    : out_(&out), options_(options), clock_(std::move(clock)) {}

Progress Progress::for_standard_error() {
  Options options;
  options.terminal = ::isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.width = size.ws_col;
  }
  return Progress(std::cerr, options, steady_seconds);
}

void Progress::update(const ProgressReport& report) {
  const double now = clock_();
  end_work();
  last_ = report;
  pending_ = true;
  if (!started_) {
    // The first step's time is not known, so its tokens don't count.
    started_ = true;
    start_time_ = shown_time_ = now;
    start_fraction_ = report.fraction;
    return;
  }
  tokens_ += report.tokens;
  if (now - shown_time_ < (options_.terminal ? options_.bar_seconds : options_.line_seconds)) {
    return;
  }
  show(now);
}

void Progress::work(std::string_view what, double done) {
  const double now = clock_();
  const bool begins = what != work_;
  if (begins) {
    work_ = what;
    work_start_ = work_shown_time_ = now;
  }
  const double elapsed = now - work_shown_time_;
  const bool due = options_.terminal ? begins || elapsed >= options_.bar_seconds
                                     : (begins && done < 0) || elapsed >= options_.line_seconds;
  if (!due) return;
  work_shown_time_ = now;
  if (options_.terminal) {
    *out_ << '\r' << work_line(done, now) << "\x1b[K" << std::flush;
    work_visible_ = true;
  } else {
    *out_ << work_line(done, now) << '\n' << std::flush;
  }
}

// The bar has its line again.
void Progress::end_work() {
  work_.clear();
  if (!std::exchange(work_visible_, false)) return;
  *out_ << "\r\x1b[K";
  if (bar_visible_) *out_ << line(clock_());
  out_->flush();
}

void Progress::message(const std::string& text) {
  end_work();
  if (bar_visible_) *out_ << "\r\x1b[K";
  *out_ << text << '\n';
  if (bar_visible_) *out_ << line(clock_());
  out_->flush();
}

void Progress::finish() {
  end_work();
  if (pending_) show(clock_());
  if (bar_visible_) *out_ << '\n' << std::flush;
  bar_visible_ = false;
}

void Progress::show(double now) {
  const double elapsed = now - shown_time_;
  if (elapsed > 0) {
    const double newest = static_cast<double>(tokens_) / elapsed;
    tokens_per_second_ =
        tokens_per_second_ == 0 ? newest : kNewest * newest + (1 - kNewest) * tokens_per_second_;
    tokens_ = 0;
    shown_time_ = now;
  }
  pending_ = false;
  if (options_.terminal) {
    *out_ << '\r' << line(now) << "\x1b[K" << std::flush;
    bar_visible_ = true;
  } else {
    *out_ << line(now) << '\n' << std::flush;
  }
}

std::string Progress::line(double now) const {
  std::string text = fmt::format("epoch {} step {}", last_.epoch, last_.step);
  const double fraction = std::min(last_.fraction, 1.0);
  if (fraction >= 0) {
    text += fmt::format(" {}{:3.0f}%", options_.terminal ? bar(fraction) : "", 100 * fraction);
  }
  text += fmt::format(" loss {:.4f}", last_.loss);
  // Of a first step nothing is known yet.
  if (tokens_per_second_ > 0) text += fmt::format(" {} tok/s", format_count(tokens_per_second_));
  text += fmt::format(" lr {:.3g}", last_.learning_rate);
  if (last_.loss_scale > 0) {
    text += fmt::format(" scale {:g} skipped {}", last_.loss_scale, last_.skipped_steps);
  }
  const double done = fraction - start_fraction_;
  if (fraction >= 0 && done > 0 && fraction < 1) {
    text += " left " + format_duration((now - start_time_) * (1 - fraction) / done);
  }
  return fitting(std::move(text));
}

std::string Progress::work_line(double done, double now) const {
  std::string text = work_;
  if (done >= 0) {
    const double fraction = std::min(done, 1.0);
    text += fmt::format(" {}{:3.0f}%", options_.terminal ? bar(fraction) : "", 100 * fraction);
  }
  if (now - work_start_ >= 1) text += " " + format_duration(now - work_start_);
  return fitting(std::move(text));
}

// A line that wraps cannot be rewritten; the last column stays free.
std::string Progress::fitting(std::string text) const {
  auto width = static_cast<std::size_t>(std::max<std::int64_t>(options_.width - 1, 1));
  if (!options_.terminal || text.size() <= width) return text;
  // Not within a character of UTF-8, whose later bytes begin with the bits 10: names of files have
  // some.
  while (width > 0 && (static_cast<unsigned char>(text[width]) & 0xc0) == 0x80) --width;
  text.resize(width);
  return text;
}

}  // namespace sluice::training
