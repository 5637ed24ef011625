#include "nodewise/support/json_writer.h"

#include <cmath>

#include "nlohmann/json.hpp"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

std::string Quoted(std::string_view text) {
  // By default dump() throws on invalid UTF-8, which names in hostile files may
  // have.
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The parser decides what is a number, so that "1e5" is one and "0x10" a text.
std::string ScalarText(std::string_view text) {
  const auto value = nlohmann::json::parse(text, nullptr, false);
  const bool is_scalar =
      value.is_number() || value.is_boolean() || value.is_null();
  return is_scalar ? std::string(text) : Quoted(text);
}

template <typename Items, typename TextOf>
std::string ArrayOf(const Items& items, TextOf text_of) {
  std::string array = "[";
  for (const auto& item : items) {
    if (array.size() > 1) array += ", ";
    array += text_of(item);
  }
  return array + ']';
}

}  // namespace

void JsonWriter::NextMember(std::string_view key) {
  text_ += is_first_ ? "\n" : ",\n";
  text_.append(2 * depth_, ' ');
  if (!key.empty()) text_ += Quoted(key) + ": ";
  is_first_ = false;
}

void JsonWriter::Begin(std::string_view key, char bracket) {
  NextMember(key);
  text_ += bracket;
  ++depth_;
  is_first_ = true;
}

// An object or array without members stays on one line.
void JsonWriter::End(char bracket) {
  --depth_;
  if (!is_first_) {
    text_ += '\n';
    text_.append(2 * depth_, ' ');
  }
  text_ += bracket;
  is_first_ = false;
}

void JsonWriter::Add(std::string_view key, std::string_view text) {
  AddRaw(key, Quoted(text));
}

void JsonWriter::Add(std::string_view key, bool value) {
  AddRaw(key, value ? "true" : "false");
}

void JsonWriter::Add(std::string_view key, uint64_t value) {
  AddRaw(key, std::to_string(value));
}

void JsonWriter::Add(std::string_view key, int64_t value) {
  AddRaw(key, std::to_string(value));
}

// JSON has neither infinity nor NaN.
void JsonWriter::Add(std::string_view key, double value) {
  AddRaw(key, std::isfinite(value) ? nlohmann::json(value).dump() : "null");
}

void JsonWriter::Add(std::string_view key, absl::Span<const int64_t> numbers) {
  AddRaw(key, ArrayOf(numbers, [](int64_t n) { return std::to_string(n); }));
}

void JsonWriter::Add(std::string_view key,
                     const std::vector<std::string>& texts) {
  BeginArray(key);
  for (const std::string& text : texts) Add({}, text);
  EndArray();
}

void JsonWriter::AddTexts(std::string_view key,
                          const std::vector<std::string>& texts) {
  AddRaw(key, ArrayOf(texts, &Quoted));
}

void JsonWriter::AddScalar(std::string_view key, std::string_view text) {
  AddRaw(key, ScalarText(text));
}

void JsonWriter::AddRaw(std::string_view key, std::string_view json) {
  NextMember(key);
  text_ += json;
}

void JsonWriter::AddScalars(std::string_view key,
                            const std::vector<std::string>& texts) {
  AddRaw(key, ArrayOf(texts, &ScalarText));
}

void JsonWriter::Append(const JsonWriter& other) {
  if (other.text_.empty()) return;
  if (!is_first_) text_ += ',';
  // It was indented for depth 1. No text holds a newline: they are escaped.
  const std::string shift(2 * (depth_ - 1), ' ');
  for (const char c : other.text_) {
    text_ += c;
    if (c == '\n') text_ += shift;
  }
  is_first_ = false;
}

// A name may hold what a terminal obeys; in JSON it can be written as an
// escape.
std::string JsonWriter::Document() const {
  return PrintableJson("{" + text_ + "\n}\n");
}

}  // namespace nodewise
