#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/support/fault.h"

namespace nodewise {

// Writes the members of one JSON object in the order in which they are added,
// so that two runs can be compared with `diff`. Text that is not UTF-8 gets
// U+FFFD where it is not.
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
  void Add(std::string_view key, double value);
  // On one line.
  void Add(std::string_view key, absl::Span<const int64_t> numbers);
  void Add(std::string_view key, const std::vector<std::string>& texts);
  // A value that has been made into text: as it is if it is a number, true,
  // false or null, else in quotes.
  void AddScalar(std::string_view key, std::string_view text);
  void AddScalars(std::string_view key, const std::vector<std::string>& texts);

  // A JSON document made elsewhere.
  void AddRaw(std::string_view key, std::string_view json);

  // Between Begin and End, members go into the array or the object. Objects in
  // an array have no key.
  void BeginObject(std::string_view key = {});
  void EndObject() { End('}'); }
  void BeginArray(std::string_view key) { Begin(key, '['); }
  void EndArray() { End(']'); }

  // Those of where, found, expected and hint, each.
  void AddFaults(std::string_view key, const std::vector<Fault>& faults);
  // The members that `other` holds, behind those of this one.
  void Append(const JsonWriter& other);

  // The object, with a newline behind it.
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
