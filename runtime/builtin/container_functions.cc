// The functions by which bindings take apart what other functions return.

#include "fmt/format.h"
#include "nodewise/func/containers.h"
#include "nodewise/support/status_macros.h"
#include "runtime/builtin/function_tables.h"

namespace nodewise {
namespace {

template <typename T>
absl::StatusOr<Value> ItemAt(const std::vector<T>& items, int64_t index) {
  if (index >= 0 && index < static_cast<int64_t>(items.size())) {
    return Value(items[static_cast<size_t>(index)]);
  }
  return absl::OutOfRangeError(fmt::format(
      "index {} is out of range, there are {}", index, items.size()));
}

absl::StatusOr<std::vector<Value>> CopyAll(PackedArgs args) {
  std::vector<Value> items;
  for (int i = 0; i < args.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i));
    NODEWISE_ASSIGN_OR_RETURN(Value item, Value::Copy(arg));
    items.push_back(std::move(item));
  }
  return items;
}

absl::StatusOr<Value> MakeArray(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<Value> items, CopyAll(args));
  return Value(Ref<Object>(ArrayObject::Make(std::move(items))));
}

absl::StatusOr<Value> ArraySize(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<ArrayObject> array,
                            args.ObjectAt<ArrayObject>(0, "an array"));
  return Value(static_cast<int64_t>(array->items().size()));
}

absl::StatusOr<Value> ArrayGetItem(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<ArrayObject> array,
                            args.ObjectAt<ArrayObject>(0, "an array"));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t index, args.IntAt(1));
  return ItemAt(array->items(), index);
}

absl::StatusOr<Value> MakeMap(PackedArgs args) {
  MapObject::Items items;
  for (int i = 0; i + 1 < args.size(); i += 2) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(i));
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i + 1));
    NODEWISE_ASSIGN_OR_RETURN(Value item, Value::Copy(arg));
    items.emplace_back(name, std::move(item));
  }
  return Value(Ref<Object>(MapObject::Make(std::move(items))));
}

absl::StatusOr<Value> MapSize(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map,
                            args.ObjectAt<MapObject>(0, "a map"));
  return Value(static_cast<int64_t>(map->items().size()));
}

absl::StatusOr<const Value*> FindInMap(const MapObject& map, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(1));
  return map.Find(name);
}

absl::StatusOr<Value> MapCount(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map,
                            args.ObjectAt<MapObject>(0, "a map"));
  NODEWISE_ASSIGN_OR_RETURN(const Value* found, FindInMap(*map, args));
  return Value(found == nullptr ? 0 : 1);
}

absl::StatusOr<Value> MapGetItem(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map,
                            args.ObjectAt<MapObject>(0, "a map"));
  NODEWISE_ASSIGN_OR_RETURN(const Value* found, FindInMap(*map, args));
  if (found == nullptr) return absl::NotFoundError("the map has no such key");
  return *found;
}

// Keys and values in turn.
absl::StatusOr<Value> MapItems(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map,
                            args.ObjectAt<MapObject>(0, "a map"));
  std::vector<Value> items;
  for (const auto& [key, value] : map->items()) {
    items.emplace_back(Ref<Object>(MakeRef<StringObject>(key)));
    items.push_back(value);
  }
  return Value(Ref<Object>(ArrayObject::Make(std::move(items))));
}

absl::StatusOr<Value> MakeString(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, args.TextAt(0));
  return Value(Ref<Object>(MakeRef<StringObject>(std::string(text))));
}

absl::StatusOr<Value> GetString(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, args.TextAt(0));
  return Value(text);
}

absl::StatusOr<Value> MakeShape(PackedArgs args) {
  std::vector<int64_t> dims;
  for (int i = 0; i < args.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const int64_t dim, args.IntAt(i));
    dims.push_back(dim);
  }
  return Value(Ref<Object>(MakeRef<ShapeObject>(dims)));
}

absl::StatusOr<Value> ShapeSize(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<ShapeObject> shape,
                            args.ObjectAt<ShapeObject>(0, "a shape"));
  return Value(static_cast<int64_t>(shape->dims.size()));
}

absl::StatusOr<Value> ShapeItem(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<ShapeObject> shape,
                            args.ObjectAt<ShapeObject>(0, "a shape"));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t index, args.IntAt(1));
  return ItemAt(shape->dims, index);
}

// (tag, field...)
absl::StatusOr<Value> MakeAdt(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t tag, args.IntAt(0));
  NODEWISE_ASSIGN_OR_RETURN(std::vector<Value> fields, CopyAll(args.From(1)));
  return Value(Ref<Object>(MakeRef<AdtObject>(tag, std::move(fields))));
}

absl::StatusOr<Value> MakeTuple(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<Value> fields, CopyAll(args));
  return Value(Ref<Object>(MakeRef<AdtObject>(0, std::move(fields))));
}

absl::StatusOr<Value> AdtTag(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<AdtObject> adt,
                            args.ObjectAt<AdtObject>(0, "an ADT"));
  return Value(adt->tag);
}

absl::StatusOr<Value> AdtSize(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<AdtObject> adt,
                            args.ObjectAt<AdtObject>(0, "an ADT"));
  return Value(static_cast<int64_t>(adt->fields.size()));
}

absl::StatusOr<Value> AdtField(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<AdtObject> adt,
                            args.ObjectAt<AdtObject>(0, "an ADT"));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t index, args.IntAt(1));
  return ItemAt(adt->fields, index);
}

// Python hashes objects by identity.
absl::StatusOr<Value> ObjectPtrHash(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  return Value(
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(arg.value().v_handle)));
}

absl::StatusOr<Value> TextOfObject(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const auto object,
                            args.ObjectAt<Object>(0, "object"));
  return Value(object->ToText());
}

// (object, name). Bindings recognise a missing attribute by the first word.
absl::StatusOr<Value> GetAttribute(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const auto object,
                            args.ObjectAt<Object>(0, "object"));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(1));
  if (name == "type_key") return Value(object->object_type());
  for (Attribute& attribute : object->Attributes()) {
    if (attribute.name == name) return std::move(attribute.value);
  }
  return absl::NotFoundError(
      fmt::format("AttributeError: {} has no {}", object->object_type(), name));
}

// Returns a function that maps an index to a name, and -1 to the count.
absl::StatusOr<Value> ListAttributes(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const auto object,
                            args.ObjectAt<Object>(0, "object"));
  std::vector<std::string> names;
  for (const Attribute& attribute : object->Attributes()) {
    names.emplace_back(attribute.name);
  }
  const auto name_at = [names](PackedArgs call) -> absl::StatusOr<Value> {
    NODEWISE_ASSIGN_OR_RETURN(const int64_t index, call.IntAt(0));
    if (index == -1) return Value(static_cast<int64_t>(names.size()));
    return ItemAt(names, index);
  };
  return Value(Ref<Object>(PackedFunc::FromBody(name_at).object()));
}

constexpr FunctionRow kContainerFunctions[] = {
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
    {"runtime.ADT", &MakeAdt},
    {"runtime.Tuple", &MakeTuple},
    {"runtime.GetADTTag", &AdtTag},
    {"runtime.GetADTSize", &AdtSize},
    {"runtime.GetADTFields", &AdtField},
    {"runtime.ObjectPtrHash", &ObjectPtrHash},
    {"node.NodeGetAttr", &GetAttribute},
    {"node.NodeListAttrNames", &ListAttributes},
    {"node.AsRepr", &TextOfObject},
    {"node.AsLegacyRepr", &TextOfObject},
    {"ir.DebugPrint", &TextOfObject},  // By which TVM's Rust crate prints.
};

}  // namespace

absl::Span<const FunctionRow> ContainerFunctions() {
  return kContainerFunctions;
}

}  // namespace nodewise
