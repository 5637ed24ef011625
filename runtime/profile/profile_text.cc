#include "runtime/profile/profile_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Keeps the characters of UTF-8 whose first byte `keeps` accepts; `stand_in`
// gives the text in place of any other byte.
template <typename Keeps, typename StandIn>
std::string CopyCharacters(std::string_view text, Keeps keeps,
                           StandIn stand_in) {
  std::string copy;
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = CharacterBytes(text.substr(i));
    const auto first = static_cast<uint8_t>(text[i]);
    if (bytes > 0 && keeps(first)) {
      copy += text.substr(i, bytes);
    } else {
      copy += stand_in(first);
    }
    i += std::max<size_t>(bytes, 1);
  }
  return copy;
}

}  // namespace

// Summed in the order of the runs, so that the figures of one profile never
// differ in the last digit.
double MeanOf(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / values.size();
}

// A run whose list of times is too short for the node says nothing of it.
std::vector<double> InPlaceUs(const Profile& profile, NodeId node) {
  std::vector<double> times;
  for (const TimedRun& run : profile.runs) {
    if (Index(node) >= run.nodes.size()) continue;
    times.push_back(run.nodes[Index(node)].Duration() / 1e3);
  }
  return times;
}

// std::to_chars writes the fewest digits that read back as the number, as
// repr() does; the two differ in where exponents begin and in the final ".0".
std::string PythonFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::fabs(value);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  char text[64];
  const auto [end, error] = std::to_chars(
      text, text + sizeof(text), value,
      fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string written(text, end);
  if (fixed && written.find('.') == std::string::npos) written += ".0";
  return written;
}

// Going through decimal text rounds the exact binary value, which multiplying
// and dividing by a power of ten would not.
double RoundTo(double value, int digits) {
  if (!std::isfinite(value)) return value;
  const std::string text = fmt::format("{:.{}f}", value, digits);
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

// Reports must stay one line a node even if a file names its nodes with line
// breaks or terminal escapes.
std::string OneLine(std::string_view name) {
  const std::string_view shown = Shortened(name);
  const std::string line = CopyCharacters(
      shown, [](uint8_t first) { return first >= 0x20 && first != 0x7F; },
      [](uint8_t byte) { return fmt::format("\\x{:02x}", byte); });
  return shown.size() < name.size() ? line + "..." : line;
}

// NUL is replaced too, since it would end the text for hosts written in C.
std::string CleanUtf8(std::string_view text) {
  return CopyCharacters(
      text, [](uint8_t first) { return first != 0; },
      [](uint8_t) { return "\xEF\xBF\xBD"; });
}

std::vector<EntryId> InputsIn(const Graph& graph, NodeId node) {
  std::vector<EntryId> entries;
  for (const EntryRef& ref : graph.node(node).inputs) {
    entries.push_back(graph.EntryOf(ref));
  }
  return entries;
}

}  // namespace nodewise
