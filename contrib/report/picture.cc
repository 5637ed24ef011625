// The graph around the culprits, as a picture.
//
// Nodes lie in rows by the longest way to them from what is drawn above; within
// a row they are moved towards the middle of their neighbours a few times,
// which leaves few edges that cross. That is the usual way to draw layered
// graphs, without its last step, since the pictures are small.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_replace.h"
#include "fmt/format.h"
#include "nodewise/report/archive.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Sizes in pixels. A box has two lines of text in font-size 12 (Written()); the
// characters that are shown are those that fit its width.
constexpr int kBoxWidth = 236, kBoxHeight = 44;
constexpr int kGapAcross = 22, kGapDown = 38;
constexpr int kMargin = 18, kLegendHeight = 34;
constexpr size_t kShownCharacters = 32;
// Each sweep moves nodes towards neighbours that have moved themselves; after a
// few little changes any more.
constexpr int kSweeps = 4;

struct Colours {
  std::string_view fill, line;
};

// The findings about a node that a picture tells apart. The words stand in the
// box, too, so that nothing depends on seeing colours.
enum class Look { kCulprit, kInherits, kOpen, kRight, kInput };

// The kinds are those of all searches: by definitions, by values, and between
// two dumps.
Look OwnLook(const Archive::Node& node) {
  if (node.is_culprit) return Look::kCulprit;
  if (node.function.empty()) return Look::kInput;
  if (node.kind == "inherits" || node.kind == "follows" ||
      node.kind == "unknown") {
    return Look::kInherits;
  }
  return node.kind == "inconclusive" ? Look::kOpen : Look::kRight;
}

Colours ColoursOf(Look look) {
  constexpr Colours kColours[] = {{"#f8c8c4", "#c62828"},
                                  {"#e4e4e4", "#8a8a8a"},
                                  {"#fdf0cf", "#b8860b"},
                                  {"#ffffff", "#5a9367"},
                                  {"#e8eefc", "#7a8fc4"}};
  return kColours[static_cast<size_t>(look)];
}

std::string Escaped(std::string_view text) {
  return absl::StrReplaceAll(
      Printable(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

class Picture {
 public:
  Picture(const Archive& archive, const PictureOptions& options)
      : nodes_(archive.nodes),
        options_(options),
        readers_(nodes_.size()),
        is_behind_(nodes_.size()) {
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      for (const uint32_t read : nodes_[n].reads) {
        readers_[read].push_back(n);
        // A node behind a culprit computes with what that has made.
        if (nodes_[read].is_culprit || is_behind_[read]) is_behind_[n] = true;
      }
    }
  }

  absl::StatusOr<std::string> Draw() {
    if (nodes_.empty()) {
      return NotFound(
          "has no graph to draw, expected the archive of a search for a "
          "culprit");
    }
    Choose();
    if (chosen_.empty()) {
      return NotFound("names no node of its {}, which are too many to draw all",
                      nodes_.size());
    }
    Arrange();
    return Written();
  }

 private:
  Look LookOf(uint32_t n) const {
    const Look look = OwnLook(nodes_[n]);
    return look == Look::kRight && is_behind_[n] && nodes_[n].kind != "alike"
               ? Look::kInherits
               : look;
  }

  // Culprits are drawn before anything else. If there are more of them than may
  // be drawn, the first ones are, which what comes later may only inherit from.
  void Choose() {
    std::vector<uint32_t> culprits;
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].is_culprit) culprits.push_back(n);
    }
    if (culprits.empty()) {
      if (nodes_.size() > options_.most_nodes) return;
      for (uint32_t n = 0; n < nodes_.size(); ++n) chosen_.insert(n);
      return;
    }
    IncludeNodes(culprits);
    Reach(culprits, options_.steps_before, /*before=*/true);
    Reach(culprits, options_.steps_behind, /*before=*/false);
  }

  const std::vector<uint32_t>& Neighbours(uint32_t n, bool before) const {
    return before ? nodes_[n].reads : readers_[n];
  }

  // A limit on nodes bounds the picture for a graph of any shape.
  void IncludeNodes(const std::vector<uint32_t>& nodes) {
    for (const uint32_t n : nodes) {
      if (chosen_.size() < options_.most_nodes) chosen_.insert(n);
    }
  }

  // Goes along edges one step after the other from what is drawn, so that of a
  // crowded neighbourhood the nearest nodes get in.
  void Reach(std::vector<uint32_t> edge, size_t steps, bool before) {
    for (size_t step = 0; step < steps; ++step) {
      std::vector<uint32_t> next;
      for (const uint32_t n : edge) {
        const auto& others = Neighbours(n, before);
        next.insert(next.end(), others.begin(), others.end());
      }
      IncludeNodes(next);
      edge = std::move(next);
      std::erase_if(edge, [&](uint32_t n) { return !chosen_.contains(n); });
      std::ranges::sort(edge);
      edge.erase(std::unique(edge.begin(), edge.end()), edge.end());
    }
  }

  // A row is the longest way from above, so that edges go down only.
  void Arrange() {
    std::map<uint32_t, size_t> row_of;
    for (const uint32_t n : chosen_) {  // In order: what is read comes first.
      size_t row = 0;
      for (const uint32_t read : nodes_[n].reads) {
        if (chosen_.contains(read)) row = std::max(row, row_of[read] + 1);
      }
      row_of[n] = row;
      if (rows_.size() <= row) rows_.resize(row + 1);
      rows_[row].push_back(n);
    }
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (std::vector<uint32_t>& row : rows_) SortByNeighbours(&row);
    }
    PlaceRows();
  }

  static int Across(size_t boxes) {
    return static_cast<int>(boxes) * (kBoxWidth + kGapAcross) - kGapAcross;
  }

  // The legend needs some width, also below a single box.
  void PlaceRows() {
    constexpr int kLeastWidth = 700;
    size_t widest = 0;
    for (const auto& row : rows_) widest = std::max(widest, row.size());
    width_ = std::max(2 * kMargin + Across(widest), kLeastWidth);
    int y = kMargin;
    for (const auto& row : rows_) {
      int x = (width_ - Across(row.size())) / 2;
      for (const uint32_t n : row) {
        place_[n] = {x, y};
        x += kBoxWidth + kGapAcross;
      }
      y += kBoxHeight + kGapDown;
    }
    height_ = y + kMargin + kLegendHeight - kGapDown;
  }

  // A node without drawn neighbours stays where it is.
  void SortByNeighbours(std::vector<uint32_t>* row) {
    PlaceRows();
    std::map<uint32_t, double> middle;
    for (const uint32_t n : *row) {
      double sum = 0;
      int count = 0;
      for (const bool before : {true, false}) {
        for (const uint32_t other : Neighbours(n, before)) {
          const auto at = place_.find(other);
          if (at == place_.end()) continue;
          sum += at->second.first;
          ++count;
        }
      }
      middle[n] = count == 0 ? place_[n].first : sum / count;
    }
    std::ranges::stable_sort(*row, {}, [&](uint32_t n) { return middle[n]; });
  }

  std::string Written() const {
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" "
        "height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" "
        "fill=\"#ffffff\"/>\n",
        width_, height_);
    for (const uint32_t n : chosen_) svg += Edges(n);
    for (const uint32_t n : chosen_) svg += Box(n);
    return svg + Legend() + "</svg>\n";
  }

  // Edges are drawn before boxes, which lie over them. One that is read twice
  // is drawn once.
  std::string Edges(uint32_t n) const {
    std::string edges;
    std::set<uint32_t> drawn;
    const auto [x, y] = place_.at(n);
    for (const uint32_t read : nodes_[n].reads) {
      const auto from = place_.find(read);
      if (from == place_.end() || !drawn.insert(read).second) continue;
      const int x1 = from->second.first + kBoxWidth / 2;
      const int y1 = from->second.second + kBoxHeight;
      const int x2 = x + kBoxWidth / 2;
      const int bend = std::max(kGapDown / 2, (y - y1) / 2);
      edges += fmt::format(
          "<path d=\"M{} {}C{} {} {} {} {} {}\" fill=\"none\" "
          "stroke=\"#9a9a9a\"/>\n",
          x1, y1, x1, y1 + bend, x2, y - bend, x2, y);
    }
    return edges;
  }

  std::string CaptionOf(uint32_t n) const {
    const Archive::Node& node = nodes_[n];
    if (node.is_culprit) {
      return node.explanation.empty() ? node.kind : node.explanation;
    }
    // Two dumps do not say whether the node is right, only that it read what
    // differs.
    if (node.kind == "follows") return "reads what differs";
    if (LookOf(n) == Look::kInherits && node.kind != "unknown") {
      return "right on what it reads";
    }
    if (!node.kind.empty()) return node.kind;
    return node.function.empty() ? "input" : node.function;
  }

  // Names are cut to the box; the whole name and the reason come up as a title
  // when a pointer rests on it. A dashed border says that the graph goes on
  // there.
  std::string Box(uint32_t n) const {
    const Archive::Node& node = nodes_[n];
    const auto [x, y] = place_.at(n);
    const Colours colours = ColoursOf(LookOf(n));
    const std::string below = CaptionOf(n);
    const bool is_alone = nodes_.size() == chosen_.size();
    std::string box = fmt::format(
        "<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" "
        "height=\"{}\" rx=\"6\" fill=\"{}\" stroke=\"{}\" "
        "stroke-width=\"{}\"{}/>",
        Escaped(node.reason.empty() ? node.key : node.key + ": " + node.reason),
        x, y, kBoxWidth, kBoxHeight, colours.fill, colours.line,
        node.is_culprit ? 3 : 1,
        !is_alone && HasMore(n) ? " stroke-dasharray=\"5 3\"" : "");
    const auto line = [&, x = x, y = y](int dy, std::string_view style,
                                        const std::string& text) {
      box += fmt::format(
          "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\"{}>{}</text>",
          x + kBoxWidth / 2, y + dy, style,
          Escaped(CutInMiddle(text, kShownCharacters)));
    };
    line(18, node.is_culprit ? " font-weight=\"bold\"" : "", node.key);
    line(34, " fill=\"#444444\"", below);
    return box + "</g>\n";
  }

  bool HasMore(uint32_t n) const {
    const auto is_hidden = [&](uint32_t other) {
      return !chosen_.contains(other);
    };
    return std::ranges::any_of(nodes_[n].reads, is_hidden) ||
           std::ranges::any_of(readers_[n], is_hidden);
  }

  std::string Legend() const {
    constexpr std::pair<Look, std::string_view> kRows[] = {
        {Look::kCulprit, "culprit"},
        {Look::kInherits, "inherits, or unknown"},
        {Look::kRight, "right"},
        {Look::kInput, "input"}};
    std::string legend;
    int x = kMargin;
    const int y = height_ - kMargin - 12;
    for (const auto& [look, words] : kRows) {
      const Colours colours = ColoursOf(look);
      legend += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" rx=\"3\" "
          "fill=\"{}\" stroke=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
          x, y, colours.fill, colours.line, x + 20, y + 12, words);
      x += 175;
    }
    return legend;
  }

  const std::vector<Archive::Node>& nodes_;
  const PictureOptions& options_;
  std::vector<std::vector<uint32_t>> readers_;
  std::vector<bool> is_behind_;
  std::set<uint32_t> chosen_;
  std::vector<std::vector<uint32_t>> rows_;
  std::map<uint32_t, std::pair<int, int>> place_;  // The upper left corner.
  int width_ = 0, height_ = 0;
};

}  // namespace

absl::StatusOr<std::string> PictureOf(const Archive& archive,
                                      const PictureOptions& options) {
  return Picture(archive, options).Draw();
}

}  // namespace nodewise
