#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "nodewise/graph/graph_json.h"
#include "runtime/graph/graph_reader.h"

namespace nodewise {
namespace {

// The wanted paths, as a tree of their parts, so that one walk over the text
// finds all of them.
struct PathTree {
  std::map<std::string, std::unique_ptr<PathTree>, std::less<>> children;
  size_t offset = std::string_view::npos;

  PathTree* Child(std::string_view part) {
    const auto place = children.find(part);
    return place == children.end() ? nullptr : place->second.get();
  }
};

// No graph is deeper than this, but a hostile key may be millions of slashes.
constexpr size_t kMostParts = 16;

// A path is "/nodes/7/inputs": a key of an object or a number of an array in
// each part. No key of the format holds a slash.
std::vector<std::string_view> Parts(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty() && path[0] == '/' && parts.size() < kMostParts) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    parts.push_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return parts;
}

// Notes where each wanted value begins, and skips everything else. Faults are
// found by path, and need a line only if there are any: the text is read a
// second time then, instead of keeping the place of everything.
class Locator {
 public:
  Locator(std::string_view text, PathTree* root) : cursor_(text), root_(root) {}

  void Locate() {
    nlohmann::json::sax_parse(cursor_.begin(), cursor_.end(), this,
                              nlohmann::json::input_format_t::json,
                              /*strict=*/false);
  }

  bool null() { return Scalar(); }
  bool boolean(bool) { return Scalar(); }
  bool number_integer(int64_t) { return Scalar(); }
  bool number_unsigned(uint64_t) { return Scalar(); }
  bool number_float(double, const std::string&) { return Scalar(); }
  bool string(std::string&) { return Scalar(); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(false); }
  bool start_array(size_t) { return Open(true); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& name) {
    if (!stack_.empty() && skipped_ == 0) stack_.back().key.swap(name);
    last_end_ = cursor_.offset();
    return true;
  }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::json::exception&) {
    return false;
  }

 private:
  struct Frame {
    PathTree* tree;
    bool is_array;
    size_t index = 0;
    std::string key;
  };

  PathTree* Coming() {
    if (stack_.empty()) return root_;
    const Frame& frame = stack_.back();
    return frame.tree->Child(frame.is_array ? std::to_string(frame.index)
                                            : frame.key);
  }
  // Notes where the next value begins: after the last token and what may
  // separate two tokens.
  void Note(PathTree* tree) {
    if (tree == nullptr) return;
    const std::string_view text = cursor_.text();
    tree->offset =
        std::min(text.find_first_not_of(" \t\r\n,:", last_end_), text.size());
  }
  // Inside of a value that is not wanted nothing is counted.
  bool Scalar() {
    if (skipped_ == 0) {
      Note(Coming());
      Advance();
    }
    last_end_ = TokenEnd();
    return true;
  }
  bool Open(bool is_array) {
    PathTree* const tree = skipped_ == 0 ? Coming() : nullptr;
    Note(tree);
    if (tree == nullptr) {
      ++skipped_;
    } else {
      stack_.push_back({tree, is_array, 0, ""});
    }
    last_end_ = cursor_.offset();
    return true;
  }
  bool Close() {
    if (skipped_ > 0) {
      --skipped_;
    } else {
      stack_.pop_back();
    }
    if (skipped_ == 0) Advance();
    last_end_ = cursor_.offset();
    return true;
  }
  void Advance() {
    if (!stack_.empty()) ++stack_.back().index;
  }
  // The parser has looked one character past a number.
  size_t TokenEnd() const {
    const size_t end = cursor_.offset();
    const char last = end > 0 ? cursor_.text()[end - 1] : ' ';
    return last == ',' || last == ']' || last == '}' ? end - 1 : end;
  }

  JsonCursor cursor_;
  PathTree* root_;
  std::vector<Frame> stack_;
  size_t skipped_ = 0;
  size_t last_end_ = 0;
};

struct Spot {
  size_t offset;
  Diagnostic* diagnostic;
};

// Turns offsets into lines in one walk over the text. Sorted by offset, all
// lines are found in the time of one pass, however many faults there are.
void PlaceDiagnostics(std::string_view text, std::vector<Spot> spots) {
  std::ranges::stable_sort(spots, {}, &Spot::offset);
  size_t at = 0;
  size_t line = 1;
  size_t line_start = 0;
  for (const auto& [offset, diagnostic] : spots) {
    for (; at < offset; ++at) {
      if (text[at] != '\n') continue;
      ++line;
      line_start = at + 1;
    }
    diagnostic->line = line;
    diagnostic->column = offset - line_start + 1;
  }
}

}  // namespace

// Diagnostics of other files, and those that have a line, stay as they are.
void LocateDiagnostics(const GraphText& text, DiagnosticList* diagnostics) {
  PathTree root;
  std::vector<Diagnostic*> wanted;
  for (Diagnostic& diagnostic : diagnostics->items()) {
    if (diagnostic.line != 0 || diagnostic.file != text.name) continue;
    if (!diagnostic.path.empty() && diagnostic.path[0] != '/') continue;
    wanted.push_back(&diagnostic);
    PathTree* tree = &root;
    for (const std::string_view part : Parts(diagnostic.path)) {
      auto& child = tree->children[std::string(part)];
      if (child == nullptr) child = std::make_unique<PathTree>();
      tree = child.get();
    }
  }
  if (wanted.empty() || text.text.empty()) return;
  Locator(text.text, &root).Locate();
  std::vector<Spot> spots;
  for (Diagnostic* diagnostic : wanted) {
    // A missing value is shown where it should be: in the nearest value around
    // it.
    const PathTree* tree = &root;
    size_t offset = root.offset;
    for (const std::string_view part : Parts(diagnostic->path)) {
      tree = const_cast<PathTree*>(tree)->Child(part);
      if (tree->offset != std::string_view::npos) offset = tree->offset;
    }
    if (offset != std::string_view::npos) spots.push_back({offset, diagnostic});
  }
  PlaceDiagnostics(text.text, std::move(spots));
}

}  // namespace nodewise
