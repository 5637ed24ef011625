// The functions by which bindings take apart what other functions return.

#include "absl/strings/str_format.h"
#include "nodewise/runtime/containers.h"
#include "nodewise/support/status_macros.h"
#include "runtime/builtin/function_tables.h"

namespace nodewise {
namespace {

template <typename T>
absl::StatusOr<Ref<T>> ObjectAt(PackedArgs args, int index, const char* what) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(index));
  return arg.AsObject<T>(what);
}

absl::StatusOr<int64_t> IntAt(PackedArgs args, int index) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(index));
  return arg.AsInt();
}

absl::Status OutOfRange(int64_t index, size_t size) {
  return absl::OutOfRangeError(
      absl::StrFormat("index %d is out of range, there are %d", index, size));
}

absl::StatusOr<Value> MakeArray(PackedArgs args) {
  std::vector<Value> items;
  for (int i = 0; i < args.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i));
    NODEWISE_ASSIGN_OR_RETURN(Value item, Value::Copy(arg));
    items.push_back(std::move(item));
  }
  return Value(Ref<Object>(MakeRef<ArrayObject>(std::move(items))));
}

absl::StatusOr<Value> ArraySize(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<ArrayObject> array,
                            ObjectAt<ArrayObject>(args, 0, "an array"));
  return Value(static_cast<int64_t>(array->items.size()));
}

absl::StatusOr<Value> ArrayGetItem(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<ArrayObject> array,
                            ObjectAt<ArrayObject>(args, 0, "an array"));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t index, IntAt(args, 1));
  if (index < 0 || index >= static_cast<int64_t>(array->items.size())) {
    return OutOfRange(index, array->items.size());
  }
  return array->items[static_cast<size_t>(index)];
}

absl::StatusOr<Value> MakeMap(PackedArgs args) {
  auto map = MakeRef<MapObject>();
  for (int i = 0; i + 1 < args.size(); i += 2) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView key, args.At(i));
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, key.AsString());
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i + 1));
    NODEWISE_ASSIGN_OR_RETURN(Value item, Value::Copy(arg));
    map->Set(std::string(name), std::move(item));
  }
  return Value(Ref<Object>(std::move(map)));
}

absl::StatusOr<Value> MapSize(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map,
                            ObjectAt<MapObject>(args, 0, "a map"));
  return Value(static_cast<int64_t>(map->items.size()));
}

absl::StatusOr<const Value*> FindInMap(const MapObject& map, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView key, args.At(1));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, key.AsString());
  return map.Find(name);
}

absl::StatusOr<Value> MapCount(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map,
                            ObjectAt<MapObject>(args, 0, "a map"));
  NODEWISE_ASSIGN_OR_RETURN(const Value* found, FindInMap(*map, args));
  return Value(found == nullptr ? 0 : 1);
}

absl::StatusOr<Value> MapGetItem(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map,
                            ObjectAt<MapObject>(args, 0, "a map"));
  NODEWISE_ASSIGN_OR_RETURN(const Value* found, FindInMap(*map, args));
  if (found == nullptr) return absl::NotFoundError("the map has no such key");
  return *found;
}

// Keys and values in turn.
absl::StatusOr<Value> MapItems(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map,
                            ObjectAt<MapObject>(args, 0, "a map"));
  std::vector<Value> items;
  for (const auto& [key, value] : map->items) {
    items.emplace_back(Ref<Object>(MakeRef<StringObject>(key)));
    items.push_back(value);
  }
  return Value(Ref<Object>(MakeRef<ArrayObject>(std::move(items))));
}

absl::StatusOr<Value> MakeString(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, arg.AsString());
  return Value(Ref<Object>(MakeRef<StringObject>(std::string(text))));
}

absl::StatusOr<Value> GetString(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, arg.AsString());
  return Value(text);
}

absl::StatusOr<Value> MakeShape(PackedArgs args) {
  std::vector<int64_t> dims;
  for (int i = 0; i < args.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const int64_t dim, IntAt(args, i));
    dims.push_back(dim);
  }
  return Value(Ref<Object>(MakeRef<ShapeObject>(dims)));
}

absl::StatusOr<Value> ShapeSize(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<ShapeObject> shape,
                            ObjectAt<ShapeObject>(args, 0, "a shape"));
  return Value(static_cast<int64_t>(shape->dims.size()));
}

absl::StatusOr<Value> ShapeItem(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<ShapeObject> shape,
                            ObjectAt<ShapeObject>(args, 0, "a shape"));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t index, IntAt(args, 1));
  if (index < 0 || index >= static_cast<int64_t>(shape->dims.size())) {
    return OutOfRange(index, shape->dims.size());
  }
  return Value(shape->dims[static_cast<size_t>(index)]);
}

constexpr FunctionRow kRows[] = {
    {"runtime.Array", &MakeArray},
    {"runtime.ArraySize", &ArraySize},
    {"runtime.ArrayGetItem", &ArrayGetItem},
    {"runtime.Map", &MakeMap},
    {"runtime.MapSize", &MapSize},
    {"runtime.MapCount", &MapCount},
    {"runtime.MapGetItem", &MapGetItem},
    {"runtime.MapItems", &MapItems},
    {"runtime.String", &MakeString},
    {"runtime.GetFFIString", &GetString},
    {"runtime.ShapeTuple", &MakeShape},
    {"runtime.GetShapeTupleSize", &ShapeSize},
    {"runtime.GetShapeTupleElem", &ShapeItem},
};

}  // namespace

absl::Span<const FunctionRow> ContainerFunctions() { return kRows; }

}  // namespace nodewise
