#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace nodewise {

// Writes the members of one JSON object in the order in which they are added,
// so that two runs can be compared with `diff`. Invalid UTF-8 in a text becomes
// U+FFFD.
class JsonWriter {
 public:
  void Add(std::string_view key, std::string_view text);
  void Add(std::string_view key, const char* text) {
    Add(key, std::string_view(text));
  }
  void Add(std::string_view key, const std::string& text) {
    Add(key, std::string_view(text));
  }
  void Add(std::string_view key, bool value);
  void Add(std::string_view key, uint64_t value);
  void Add(std::string_view key, int64_t value);
  void Add(std::string_view key, double value);  // NaN, infinities: null.
  // Writes the array on one line.
  void Add(std::string_view key, absl::Span<const int64_t> numbers);
  void Add(std::string_view key, const std::vector<std::string>& texts);
  // Writes such an array on one line.
  void AddTexts(std::string_view key, const std::vector<std::string>& texts);
  // Adds a value that is text already: as it is if it is a number, true, false
  // or null, else in quotes.
  void AddScalar(std::string_view key, std::string_view text);
  void AddScalars(std::string_view key, const std::vector<std::string>& texts);

  // Adds a JSON document made elsewhere.
  void AddRaw(std::string_view key, std::string_view json);

  // Between Begin and End, members go into the array or the object. Objects in
  // an array have no key.
  void BeginObject(std::string_view key = {}) { Begin(key, '{'); }
  void EndObject() { End('}'); }
  void BeginArray(std::string_view key) { Begin(key, '['); }
  void EndArray() { End(']'); }

  // Adds the members that `other` holds, after those of this one.
  void Append(const JsonWriter& other);

  // Returns the object, followed by a newline.
  std::string Document() const;

 private:
  void NextMember(std::string_view key);
  void Begin(std::string_view key, char bracket);
  void End(char bracket);

  std::string text_;
  size_t depth_ = 1;
  bool is_first_ = true;
};

}  // namespace nodewise
