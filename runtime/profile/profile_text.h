#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/profile/profile.h"

namespace nodewise {

// What the forms of a profile share: figures, and how figures and names are
// written.

// Returns the mean; 0 if there are no values.
double MeanOf(const std::vector<double>& values);

// Returns the times of a node in the in-place runs.
std::vector<double> InPlaceUs(const Profile& profile, NodeId node);

// Returns the entries that a node reads, in order, one that it reads twice
// twice.
std::vector<EntryId> InputsIn(const Graph& graph, NodeId node);

// Returns what `write` makes of each entry, in order, with the separator
// between.
template <typename Entries, typename Write>
std::string JoinEntries(const Graph& graph, const Entries& entries,
                        std::string_view separator, Write write) {
  std::string text;
  bool is_first = true;
  for (const EntryId id : entries) {
    if (!std::exchange(is_first, false)) text += separator;
    text += write(graph.entry(id));
  }
  return text;
}

// Returns a float as Python writes it: the fewest digits that read back as the
// same number, at least one after the point, an exponent from 1e+16 and below
// 0.0001.
std::string PythonFloat(double value);

// Rounds as Python's round() does: the binary value, not its decimal text.
double RoundTo(double value, int digits);

// Returns a name as part of one line: control characters and invalid UTF-8 as
// \xNN, and only its first 500 bytes.
std::string OneLine(std::string_view name);

// Returns the text with U+FFFD for NUL and for each byte that is not UTF-8.
std::string CleanUtf8(std::string_view text);

}  // namespace nodewise
