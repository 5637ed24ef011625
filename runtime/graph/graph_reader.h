#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// The lists of a graph's attributes that are there, before they are known to
// agree.
struct GraphLists {
  std::optional<std::vector<std::vector<int64_t>>> shapes;
  std::optional<std::vector<DLDataType>> dtypes;
  std::optional<std::vector<int64_t>> storage_ids;
  std::optional<std::vector<int64_t>> device_types;
  std::optional<std::vector<std::string>> scopes;
};

// Reads the JSON into the graph and the lists, and reports what is not of the
// right kind, missing or doubled. Returns false if the text is not JSON at all.
bool ReadGraphJson(const GraphText& text, Graph* graph, GraphLists* lists,
                   DiagnosticList* diagnostics);

// Lets a SAX handler know how far the parser has read: nlohmann's parser tells
// what it found, but not where.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text), at_(text.data()) {}

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    Iterator(const char* at, const char** shared) : at_(at), shared_(shared) {}
    reference operator*() const { return *at_; }
    Iterator& operator++() {
      *shared_ = ++at_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const char* at_;
    const char** shared_;
  };

  Iterator begin() { return {text_.data(), &at_}; }
  Iterator end() { return {text_.data() + text_.size(), &at_}; }

  std::string_view text() const { return text_; }
  // Returns the offset just after the token that was reported last; after a
  // number it may be one character further.
  size_t offset() const { return static_cast<size_t>(at_ - text_.data()); }

 private:
  std::string_view text_;
  const char* at_;
};

}  // namespace nodewise
