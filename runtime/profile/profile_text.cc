#include "runtime/profile/profile_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {
namespace {

// Returns the bytes of the character that starts the text; 0 if it is not
// UTF-8.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, UTF-16 surrogates, and numbers beyond the last character.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return bytes;
}

}  // namespace

double MeanOf(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / values.size();
}

std::vector<double> InPlaceUs(const Profile& profile, NodeId node) {
  std::vector<double> times;
  for (const TimedRun& run : profile.runs) {
    if (Index(node) >= run.nodes.size()) continue;
    times.push_back(run.nodes[Index(node)].Duration() / 1e3);
  }
  return times;
}

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

double RoundTo(double value, int digits) {
  if (!std::isfinite(value)) return value;
  const std::string text = fmt::format("{:.{}f}", value, digits);
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

std::string OneLine(std::string_view name) {
  const std::string_view shown = Shortened(name);
  std::string line;
  for (size_t i = 0; i < shown.size();) {
    const size_t bytes = CharacterBytes(shown.substr(i));
    const auto first = static_cast<uint8_t>(shown[i]);
    const bool plain = bytes > 0 && first >= 0x20 && first != 0x7F;
    if (plain) {
      line += shown.substr(i, bytes);
    } else {
      line += fmt::format("\\x{:02x}", first);
    }
    i += std::max<size_t>(bytes, 1);
  }
  return shown.size() < name.size() ? line + "..." : line;
}

std::string CleanUtf8(std::string_view text) {
  std::string clean;
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = CharacterBytes(text.substr(i));
    if (bytes > 0 && text[i] != '\0') {
      clean += text.substr(i, bytes);
    } else {
      clean += "\xEF\xBF\xBD";
    }
    i += std::max<size_t>(bytes, 1);
  }
  return clean;
}

}  // namespace nodewise
