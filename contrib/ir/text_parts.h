#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

namespace nodewise {

// Parts of what exporters write.

// Returns what follows the last separator, or all.
inline std::string_view LastPart(std::string_view text, char separator) {
  const size_t at = text.rfind(separator);
  return at == std::string_view::npos ? text : text.substr(at + 1);
}

inline std::vector<std::string_view> Split(std::string_view text,
                                           char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

inline bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Lines are counted from 1.
inline bool ReadLineNumber(std::string_view text, uint32_t* line) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, *line);
  return read.ec == std::errc() && read.ptr == end && *line > 0;
}

}  // namespace nodewise
