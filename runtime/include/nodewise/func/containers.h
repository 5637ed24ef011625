#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nodewise/func/packed_func.h"

namespace nodewise {

// The container objects that TVM's functions return and bindings take apart
// through named functions (runtime.ArrayGetItem, runtime.MapItems, ...).

struct StringObject final : Object {
  explicit StringObject(std::string value) : text(std::move(value)) {}
  std::string_view object_type() const override { return "runtime.String"; }
  std::string ToText() const override { return Quoted(text); }

  std::string text;
};

struct ArrayObject final : Object {
  explicit ArrayObject(std::vector<Value> values) : items(std::move(values)) {}
  std::string_view object_type() const override { return "Array"; }
  std::string ToText() const override;

  std::vector<Value> items;
};

// Keys are strings; the order is that of insertion.
struct MapObject final : Object {
  std::string_view object_type() const override { return "Map"; }
  std::string ToText() const override;
  void Set(std::string key, Value value);
  const Value* Find(std::string_view key) const;

  std::vector<std::pair<std::string, Value>> items;
};

struct ShapeObject final : Object {
  explicit ShapeObject(absl::Span<const int64_t> shape)
      : dims(shape.begin(), shape.end()) {}
  std::string_view object_type() const override { return "runtime.ShapeTuple"; }
  std::string ToText() const override;

  std::vector<int64_t> dims;
};

// Values with a tag, which says what they make up; tag 0 is a tuple.
struct AdtObject final : Object {
  AdtObject(int64_t number, std::vector<Value> values)
      : tag(number), fields(std::move(values)) {}
  std::string_view object_type() const override { return "runtime.ADT"; }
  std::string ToText() const override;

  int64_t tag;
  std::vector<Value> fields;
};

}  // namespace nodewise
