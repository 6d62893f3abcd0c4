#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/html.h"
#include "decoding/attention_view.h"
#include "decoding/token_label.h"
#include "decoding/weight_color.h"

namespace sluice::decoding {
namespace {

// All in pixels.
constexpr double kCell = 26;
constexpr double kFont = 14;
constexpr double kGap = 8;                     // between grid and labels
constexpr double kBorder = 16;                 // around everything
constexpr double kColumnWidth = 0.62 * kFont;  // of half an em, with room for wide letters
constexpr double kSlant = 0.7071;              // sine and cosine of the turned labels' 45 degrees
constexpr double kScaleWidth = 14, kScaleHeight = 130;
constexpr double kScaleRoom = 84;  // scale with its numbers
constexpr std::int64_t kLongestLabel = 24;

std::string color_of(double weight) {
  const Color color = weight_color(weight);
  return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue);
}

struct Labels {
  std::vector<std::string> text;  ///< escaped
  std::vector<double> width;
  double widest = 0;

  explicit Labels(const std::vector<std::string>& tokens) {
    for (const std::string& token : tokens) {
      const std::string label = token_label(token, kLongestLabel);
      text.push_back(base::escape_html(label));
      width.push_back(static_cast<double>(display_width(label)) * kColumnWidth);
      widest = std::max(widest, width.back());
    }
  }
};

/// Where everything goes.
struct Layout {
  bool turned;  ///< column labels, if one is wider than its cell
  double left, top, grid_width, grid_height, width, height;

  Layout(const Labels& source, const Labels& target) : turned(source.widest > kCell) {
    const double label_height = turned ? source.widest * kSlant + kFont * kSlant : kFont;
    left = kBorder + target.widest + kGap;
    top = kBorder + label_height + kGap;
    grid_width = kCell * static_cast<double>(source.text.size());
    grid_height = kCell * static_cast<double>(target.text.size());
    double right = left + grid_width + kScaleRoom;
    for (std::size_t s = 0; turned && s < source.text.size(); ++s) {
      right = std::max(right, column(s) + (source.width[s] + kFont) * kSlant);
    }
    width = right + kBorder;
    height = top + std::max(grid_height, kScaleHeight + 2 * kFont) + kBorder;
  }

  /// The middle of a column or row.
  double column(std::size_t s) const { return left + kCell * (static_cast<double>(s) + 0.5); }
  double row(std::size_t t) const { return top + kCell * (static_cast<double>(t) + 0.5); }
};

class Drawing {
 public:
  explicit Drawing(const AttentionView& view)
      : view_(view), source_(view.source), target_(view.target), layout_(source_, target_) {}

  std::string draw() {
    add("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-size=\"{2}\" fill=\"#222222\" "
        "font-family=\"'DejaVu Sans', 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', "
        "'Microsoft YaHei', sans-serif\">\n"
        "<title>Attention of {3} output tokens over {4} source tokens</title>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        std::ceil(layout_.width), std::ceil(layout_.height), kFont, target_.text.size(),
        source_.text.size());
    add_cells();
    add_grid();
    add_labels();
    add_scale();
    return out_ + "</svg>\n";
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void add_cells() {
    add("<g shape-rendering=\"crispEdges\">\n");
    for (std::size_t t = 0; t < target_.text.size(); ++t) {
      for (std::size_t s = 0; s < source_.text.size(); ++s) {
        const auto weight = static_cast<double>(view_.attention[t][s]);
        add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{} ← "
            "{}: "
            "{:.3f}</title></rect>\n",
            layout_.left + kCell * static_cast<double>(s),
            layout_.top + kCell * static_cast<double>(t), kCell, kCell, color_of(weight),
            target_.text[t], source_.text[s], weight);
      }
    }
    add("</g>\n");
  }

  void add_grid() {
    add("<path fill=\"none\" stroke=\"#dddddd\" stroke-width=\"1\" shape-rendering=\"crispEdges\" "
        "d=\"");
    for (std::size_t s = 0; s <= source_.text.size(); ++s) {
      add("M{:.1f} {:.1f}v{:.1f}", layout_.left + kCell * static_cast<double>(s), layout_.top,
          layout_.grid_height);
    }
    for (std::size_t t = 0; t <= target_.text.size(); ++t) {
      add("M{:.1f} {:.1f}h{:.1f}", layout_.left, layout_.top + kCell * static_cast<double>(t),
          layout_.grid_width);
    }
    add("\"/>\n");
  }

  void add_labels() {
    add("<g text-anchor=\"end\">\n");
    for (std::size_t t = 0; t < target_.text.size(); ++t) {
      add("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", layout_.left - kGap,
          layout_.row(t) + 0.35 * kFont, target_.text[t]);
    }
    add("</g>\n<g text-anchor=\"{}\">\n", layout_.turned ? "start" : "middle");
    for (std::size_t s = 0; s < source_.text.size(); ++s) {
      const double x = layout_.column(s), y = layout_.top - kGap;
      if (layout_.turned) {
        add("<text transform=\"translate({:.1f} {:.1f}) rotate(-45)\">{}</text>\n", x, y,
            source_.text[s]);
      } else {
        add("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, y, source_.text[s]);
      }
    }
    add("</g>\n");
  }

  void add_scale() {
    const double x = layout_.left + layout_.grid_width + 28, y = layout_.top;
    add("<defs><linearGradient id=\"attention-scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">");
    for (const double weight : {0.0, 0.5, 1.0}) {
      add("<stop offset=\"{}\" stop-color=\"{}\"/>", weight, color_of(weight));
    }
    add("</linearGradient></defs>\n"
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"url(#attention-scale)\" "
        "stroke=\"#dddddd\"/>\n<g font-size=\"{}\" fill=\"#555555\">\n",
        x, y, kScaleWidth, kScaleHeight, kFont - 3);
    for (const double weight : {0.0, 0.5, 1.0}) {
      add("<text x=\"{:.1f}\" y=\"{:.1f}\">{:.1f}</text>\n", x + kScaleWidth + 6,
          y + kScaleHeight * (1 - weight) + 4, weight);
    }
    add("<text x=\"{:.1f}\" y=\"{:.1f}\">weight</text>\n</g>\n", x, y + kScaleHeight + 1.5 * kFont);
  }

  const AttentionView& view_;
  Labels source_, target_;
  Layout layout_;
  std::string out_;
};

}  // namespace

std::string attention_svg(const AttentionView& view) {
  view.check();
  return Drawing(view).draw();
}

}  // namespace sluice::decoding
