#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

namespace sluice::training {

/// What there is to say about a run at one moment.
struct ProgressReport {
  std::int64_t epoch = 0;   ///< counted from 1
  std::int64_t step = 0;    ///< steps done
  double fraction = 0;      ///< of the whole run that is done, in [0, 1]; negative: not known
  std::int64_t tokens = 0;  ///< source and target tokens since the report before
  double loss = 0;          ///< per target token
  double learning_rate = 0;
  double loss_scale = 0;  ///< 0: the loss is not scaled
  std::int64_t skipped_steps = 0;
};

/// Shows how a run gets on: on a terminal one line that is rewritten, with a bar; elsewhere a plain
/// line now and then. Speed and time left count from the first report, so that what a resumed run
/// did before it was stopped doesn't mislead. Work beside the steps (reading, validating) has the
/// line while it goes on.
class Progress {
 public:
  /// Seconds since any fixed moment; never falls.
  using Clock = std::function<double()>;

  struct Options {
    bool terminal = false;
    std::int64_t width = 80;   ///< columns of the terminal; the line is cut there
    double bar_seconds = 0.2;  ///< least time between two rewritings
    double line_seconds = 30;  ///< least time between two plain lines
  };

  Progress(std::ostream& out, const Options& options, Clock clock);
  /// For standard error: asks whether it is a terminal and how wide; the steady clock.
  static Progress for_standard_error();

  /// Shows the report if it is time, else keeps it for the next.
  void update(const ProgressReport& report);
  /// What is done beside the steps, as a base::Watch is told it; until the next report or message.
  /// A plain line comes where nobody knows how long it takes, before it, and else now and then.
  void work(std::string_view what, double done);
  /// A line of its own, above the bar.
  void message(const std::string& text);
  /// Shows the last report and ends the line; that of other work goes.
  void finish();

 private:
  std::string line(double now) const;
  std::string work_line(double done, double now) const;
  std::string fitting(std::string text) const;
  void show(double now);
  void end_work();

  std::ostream* out_;
  Options options_;
  Clock clock_;
  ProgressReport last_;
  bool started_ = false;
  bool bar_visible_ = false;
  bool pending_ = false;  // last_ has not been shown
  double start_time_ = 0;
  double start_fraction_ = 0;
  double shown_time_ = 0;
  std::int64_t tokens_ = 0;  // since shown_time_
  double tokens_per_second_ = 0;
  std::string work_;  // that goes on; empty: none
  bool work_visible_ = false;
  double work_start_ = 0;
  double work_shown_time_ = 0;
};

/// Seconds since a fixed moment, on a clock that never goes back.
double steady_seconds();

/// "42s", "3m07s", "2h05m", "3d04h"
std::string format_duration(double seconds);
/// "950", "12.3k", "4.5M"
std::string format_count(double count);

}  // namespace sluice::training
