// The functions by which bindings take apart what other functions return.

#include "nodewise/func/containers.h"
#include "nodewise/support/status.h"
#include "runtime/builtin/builtin_functions.h"

namespace nodewise {
namespace {

// Indices come from hosts, which also find the end of a container by asking
// past it.
template <typename T>
Result ItemAt(const std::vector<T>& items, int64_t index) {
  if (index >= 0 && index < static_cast<int64_t>(items.size())) {
    return Value(items[static_cast<size_t>(index)]);
  }
  return OutOfRange("index {} is out of range, there are {}", index,
                    items.size());
}

// Messages about a first argument of another type say that it must be one of
// these.
template <typename T>
constexpr const char* kNoun = "object";
template <>
constexpr const char* kNoun<ArrayObject> = "an array";
template <>
constexpr const char* kNoun<MapObject> = "a map";
template <>
constexpr const char* kNoun<ShapeObject> = "a shape";
template <>
constexpr const char* kNoun<AdtObject> = "an ADT";

template <typename T>
absl::StatusOr<Ref<T>> FirstOf(PackedArgs args) {
  return args.ObjectAt<T>(0, kNoun<T>);
}

const auto& ItemsOf(const ArrayObject& array) { return array.items(); }
const auto& ItemsOf(const MapObject& map) { return map.items(); }
const auto& ItemsOf(const ShapeObject& shape) { return shape.dims; }
const auto& ItemsOf(const AdtObject& adt) { return adt.fields; }

template <typename T>
Result SizeOf(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<T> container, FirstOf<T>(args));
  return Value(static_cast<int64_t>(ItemsOf(*container).size()));
}

template <typename T>
Result GetItem(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<T> container, FirstOf<T>(args));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t index, args.IntAt(1));
  return ItemAt(ItemsOf(*container), index);
}

// Counted objects are shared, text is copied: the arguments belong to the
// caller.
absl::StatusOr<std::vector<Value>> CopyAll(PackedArgs args) {
  std::vector<Value> items;
  for (int i = 0; i < args.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i));
    NODEWISE_ASSIGN_OR_RETURN(items.emplace_back(), Value::Copy(arg));
  }
  return items;
}

Result MakeArray(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<Value> items, CopyAll(args));
  return Value(ArrayObject::Make(std::move(items)));
}

// (key, value, key, value, ...): a key without a value at the end is left out.
Result MakeMap(PackedArgs args) {
  MapObject::Items items;
  for (int i = 0; i + 1 < args.size(); i += 2) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(i));
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i + 1));
    NODEWISE_ASSIGN_OR_RETURN(Value item, Value::Copy(arg));
    items.emplace_back(name, std::move(item));
  }
  return Value(MapObject::Make(std::move(items)));
}

Result MapCount(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map, FirstOf<MapObject>(args));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(1));
  return Value(map->Find(name) == nullptr ? 0 : 1);
}

Result MapGetItem(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map, FirstOf<MapObject>(args));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(1));
  if (const Value* const found = map->Find(name)) return *found;
  return NotFound("the map has no such key");
}

// (map) -> [key, value, key, value, ...], as TVM's own function of this name
// returns it.
Result MapItems(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map, FirstOf<MapObject>(args));
  std::vector<Value> items;
  for (const auto& [key, value] : map->items()) {
    items.emplace_back(Ref<Object>(MakeRef<StringObject>(key)));
    items.push_back(value);
  }
  return Value(ArrayObject::Make(std::move(items)));
}

Result MakeString(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, args.TextAt(0));
  return Value(MakeRef<StringObject>(std::string(text)));
}

// Hands out a plain string for a string object, which hosts cannot read by
// themselves.
Result GetString(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, args.TextAt(0));
  return Value(text);
}

Result MakeShape(PackedArgs args) {
  std::vector<int64_t> dims;
  for (int i = 0; i < args.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(dims.emplace_back(), args.IntAt(i));
  }
  return Value(MakeRef<ShapeObject>(dims));
}

Result MakeAdt(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t tag, args.IntAt(0));
  NODEWISE_ASSIGN_OR_RETURN(std::vector<Value> fields, CopyAll(args.From(1)));
  return Value(MakeRef<AdtObject>(tag, std::move(fields)));
}

// A tuple is an ADT whose tag is 0.
Result MakeTuple(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<Value> fields, CopyAll(args));
  return Value(MakeRef<AdtObject>(0, std::move(fields)));
}

Result AdtTag(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<AdtObject> adt, FirstOf<AdtObject>(args));
  return Value(adt->tag);
}

// Python hashes objects by identity.
Result ObjectPtrHash(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  return Value(
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(arg.value().v_handle)));
}

// Several names lead here, since releases of TVM print objects through
// different ones.
Result TextOfObject(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const auto object, FirstOf<Object>(args));
  return Value(object->ToText());
}

// (object, name). Bindings recognise a missing attribute by the first word.
Result GetAttribute(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const auto object, FirstOf<Object>(args));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(1));
  if (name == "type_key") return Value(object->object_type());
  for (Attribute& attribute : object->Attributes()) {
    if (attribute.name == name) return std::move(attribute.value);
  }
  return NotFound("AttributeError: {} has no {}", object->object_type(), name);
}

// Returns a function that maps an index to a name, and -1 to the count.
Result ListAttributes(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const auto object, FirstOf<Object>(args));
  std::vector<std::string> names;
  for (const Attribute& attribute : object->Attributes()) {
    names.emplace_back(attribute.name);
  }
  const auto name_at = [names](PackedArgs call) -> Result {
    NODEWISE_ASSIGN_OR_RETURN(const int64_t index, call.IntAt(0));
    if (index == -1) return Value(static_cast<int64_t>(names.size()));
    return ItemAt(names, index);
  };
  return Value(PackedFunc::FromBody(name_at).object());
}

constexpr FunctionRow kContainerFunctions[] = {
    {"runtime.Array", &MakeArray},
    {"runtime.ArraySize", &SizeOf<ArrayObject>},
    {"runtime.ArrayGetItem", &GetItem<ArrayObject>},
    {"runtime.Map", &MakeMap},
    {"runtime.MapSize", &SizeOf<MapObject>},
    {"runtime.MapCount", &MapCount},
    {"runtime.MapGetItem", &MapGetItem},
    {"runtime.MapItems", &MapItems},
    {"runtime.String", &MakeString},
    {"runtime.GetFFIString", &GetString},
    {"runtime.ShapeTuple", &MakeShape},
    {"runtime.GetShapeTupleSize", &SizeOf<ShapeObject>},
    {"runtime.GetShapeTupleElem", &GetItem<ShapeObject>},
    {"runtime.ADT", &MakeAdt},
    {"runtime.Tuple", &MakeTuple},
    {"runtime.GetADTTag", &AdtTag},
    {"runtime.GetADTSize", &SizeOf<AdtObject>},
    {"runtime.GetADTFields", &GetItem<AdtObject>},
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
