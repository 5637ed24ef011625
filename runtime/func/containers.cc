#include "nodewise/func/containers.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

std::string Join(absl::Span<const Value> values) {
  return absl::StrJoin(values, ", ", [](std::string* text, const Value& value) {
    absl::StrAppend(text, value.ToText());
  });
}

}  // namespace

std::string ArrayObject::ToText() const {
  return absl::StrCat("[", Join(items), "]");
}

std::string MapObject::ToText() const {
  return absl::StrCat("{",
                      absl::StrJoin(items, ", ",
                                    [](std::string* text, const auto& item) {
                                      absl::StrAppend(text, Quoted(item.first),
                                                      ": ",
                                                      item.second.ToText());
                                    }),
                      "}");
}

std::string ShapeObject::ToText() const {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

std::string AdtObject::ToText() const {
  return fmt::format("ADT({}, [{}])", tag, Join(fields));
}

void MapObject::Set(std::string key, Value value) {
  for (auto& [name, held] : items) {
    if (name != key) continue;
    held = std::move(value);
    return;
  }
  items.emplace_back(std::move(key), std::move(value));
}

const Value* MapObject::Find(std::string_view key) const {
  for (const auto& [name, held] : items) {
    if (name == key) return &held;
  }
  return nullptr;
}

}  // namespace nodewise
