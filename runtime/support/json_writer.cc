#include "nodewise/support/json_writer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "nodewise/support/foreign_words.h"

namespace nodewise {
namespace {

std::string Quoted(std::string_view text) {
  // By default dump() throws on invalid UTF-8, which names in hostile files may
  // have.
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool IsScalar(std::string_view text) {
  const auto value = nlohmann::json::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() || value.is_null();
}

std::string ScalarText(std::string_view text) {
  return IsScalar(text) ? std::string(text) : Quoted(text);
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

void JsonWriter::End(char bracket) {
  --depth_;
  if (!is_first_) {
    text_ += '\n';
    text_.append(2 * depth_, ' ');
  }
  text_ += bracket;
  is_first_ = false;
}

void JsonWriter::BeginObject(std::string_view key) { Begin(key, '{'); }

void JsonWriter::Add(std::string_view key, std::string_view text) {
  NextMember(key);
  text_ += Quoted(text);
}

void JsonWriter::Add(std::string_view key, bool value) {
  NextMember(key);
  text_ += value ? "true" : "false";
}

void JsonWriter::Add(std::string_view key, uint64_t value) {
  NextMember(key);
  text_ += absl::StrCat(value);
}

void JsonWriter::Add(std::string_view key, int64_t value) {
  NextMember(key);
  text_ += absl::StrCat(value);
}

void JsonWriter::Add(std::string_view key, double value) {
  NextMember(key);
  text_ += std::isfinite(value) ? nlohmann::json(value).dump() : "null";
}

void JsonWriter::Add(std::string_view key, absl::Span<const int64_t> numbers) {
  NextMember(key);
  text_ += '[';
  for (size_t i = 0; i < numbers.size(); ++i) {
    text_ += absl::StrCat(i == 0 ? "" : ", ", numbers[i]);
  }
  text_ += ']';
}

void JsonWriter::Add(std::string_view key,
                     const std::vector<std::string>& texts) {
  BeginArray(key);
  for (const std::string& text : texts) {
    NextMember({});
    text_ += Quoted(text);
  }
  EndArray();
}

void JsonWriter::AddTexts(std::string_view key,
                          const std::vector<std::string>& texts) {
  NextMember(key);
  text_ += '[';
  for (size_t i = 0; i < texts.size(); ++i) {
    text_ += (i == 0 ? "" : ", ") + Quoted(texts[i]);
  }
  text_ += ']';
}

void JsonWriter::AddScalar(std::string_view key, std::string_view text) {
  NextMember(key);
  text_ += ScalarText(text);
}

void JsonWriter::AddRaw(std::string_view key, std::string_view json) {
  NextMember(key);
  text_ += json;
}

void JsonWriter::AddScalars(std::string_view key,
                            const std::vector<std::string>& texts) {
  NextMember(key);
  text_ += '[';
  for (size_t i = 0; i < texts.size(); ++i) {
    text_ += (i == 0 ? "" : ", ") + ScalarText(texts[i]);
  }
  text_ += ']';
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

std::string JsonWriter::Document() const {
  return PrintableJson("{" + text_ + "\n}\n");
}

}  // namespace nodewise
