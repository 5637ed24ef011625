#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/node_times.h"
#include "nodewise/profile/profile.h"

namespace nodewise {

// What the forms of a profile share: figures, and how they and names are
// written.

// 0 of none.
double MeanOf(const std::vector<double>& values);

// The times of a node in the in-place runs.
std::vector<double> InPlaceUs(const Profile& profile, NodeId node);

// A float as Python writes it: the fewest digits that give it back, at least
// one after the point, an exponent from 1e+16 and below 0.0001.
std::string PythonFloat(double value);

// As Python's round(): the binary value, not what it prints as, is rounded.
double RoundTo(double value, int digits);

// A name as part of one line: control characters and bytes that are no UTF-8
// as \xNN, and no more than its first 500 bytes.
std::string OneLine(std::string_view name);

// Characters of a text in UTF-8.
size_t WidthOf(std::string_view text);

// The text with U+FFFD for NUL and for each byte that is no UTF-8.
std::string CleanUtf8(std::string_view text);

}  // namespace nodewise
