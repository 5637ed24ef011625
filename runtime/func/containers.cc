#include "nodewise/runtime/containers.h"

namespace nodewise {

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
