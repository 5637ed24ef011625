#include "apps/python/native/functions.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "apps/python/native/raise.h"
#include "fmt/format.h"
#include "nodewise/func/containers.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/func/registry.h"
#include "nodewise/module/module.h"

namespace nodewise {
namespace {

namespace nb = nanobind;

// nanobind keeps classes, not counted references.
struct HeldObject {
  Ref<Object> object;
};
struct HeldFunction {
  PackedFunc function;
};
struct HeldDevice {
  DLDevice device;
};

std::string TypeNameOf(nb::handle value) {
  return nb::cast<std::string>(value.type().attr("__name__"));
}

Value NumberOf(nb::handle value, size_t place) {
  int64_t number = 0;
  if (nb::try_cast(value, number)) return number;
  Raise(absl::InvalidArgumentError(
      fmt::format("argument {}: is an int of more than 64 bits", place)));
}

Value ValueFromPython(nb::handle value, size_t place) {
  if (value.is_none()) return Value();
  // Booleans are among them, as in TVM up to 0.17.
  if (nb::isinstance<nb::int_>(value)) return NumberOf(value, place);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<nb::bytes>(value)) {
    const auto bytes = nb::cast<nb::bytes>(value);
    return Value::Bytes{std::string(bytes.c_str(), bytes.size())};
  }
  if (nb::isinstance<NDArray>(value)) return nb::cast<const NDArray&>(value);
  if (nb::isinstance<HeldDevice>(value))
    return nb::cast<HeldDevice&>(value).device;
  if (nb::isinstance<HeldObject>(value)) {
    return nb::cast<HeldObject&>(value).object;
  }
  if (nb::isinstance<HeldFunction>(value)) {
    return Ref<Object>(nb::cast<HeldFunction&>(value).function.object());
  }
  if (nb::isinstance<nb::list>(value)) {
    std::vector<Value> items;
    for (const nb::handle item : nb::cast<nb::list>(value)) {
      items.push_back(ValueFromPython(item, place));
    }
    return Ref<Object>(ArrayObject::Make(std::move(items)));
  }
  if (nb::isinstance<nb::dict>(value)) {
    MapObject::Items items;
    for (const auto [key, item] : nb::cast<nb::dict>(value)) {
      items.emplace_back(nb::cast<std::string>(key),
                         ValueFromPython(item, place));
    }
    return Ref<Object>(MapObject::Make(std::move(items)));
  }
  Raise(absl::InvalidArgumentError(fmt::format(
      "argument {}: is a {}, expected a number, text, bytes, a tensor, a "
      "device, a module, a function, or a list or dict of these",
      place, TypeNameOf(value))));
}

nb::object TextOf(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

nb::object PythonFromValue(const Value& value);

// Containers are those of Python here.
nb::object PythonOf(const Ref<Object>& object) {
  Object* const held = object.get();
  if (auto* const function = dynamic_cast<FunctionObject*>(held)) {
    return nb::cast(HeldFunction{PackedFunc(Ref<FunctionObject>(function))});
  }
  if (const auto* const text = dynamic_cast<StringObject*>(held)) {
    return TextOf(text->text);
  }
  if (const auto* const shape = dynamic_cast<ShapeObject*>(held)) {
    return nb::tuple(nb::cast(shape->dims));
  }
  if (const auto* const array = dynamic_cast<ArrayObject*>(held)) {
    nb::list items;
    for (const Value& item : array->items())
      items.append(PythonFromValue(item));
    return items;
  }
  if (const auto* const map = dynamic_cast<MapObject*>(held)) {
    nb::dict items;
    for (const auto& [key, item] : map->items()) {
      items[TextOf(key)] = PythonFromValue(item);
    }
    return items;
  }
  return nb::cast(HeldObject{object});
}

nb::object PythonFromValue(const Value& value) {
  if (value.IsNull()) return nb::none();
  if (const auto* it = value.Get<bool>()) return nb::cast(*it);
  if (const auto* it = value.Get<int64_t>()) return nb::cast(*it);
  if (const auto* it = value.Get<double>()) return nb::cast(*it);
  if (const auto* it = value.Get<std::string>()) return TextOf(*it);
  if (const auto* it = value.Get<Value::Bytes>()) {
    return nb::bytes(it->data.data(), it->data.size());
  }
  if (const auto* it = value.Get<NDArray>()) return nb::cast(*it);
  if (const auto* it = value.Get<Ref<Object>>()) {
    return *it ? PythonOf(*it) : nb::none();
  }
  if (const auto* it = value.Get<DLDataType>()) return nb::cast(ToString(*it));
  if (const auto* it = value.Get<DLDevice>()) return nb::cast(HeldDevice{*it});
  // Bare addresses mean nothing here.
  return nb::none();
}

nb::object CallFunction(const HeldFunction& held, const nb::args& args) {
  std::vector<Value> values;
  for (size_t i = 0; i < args.size(); ++i) {
    values.push_back(ValueFromPython(args[i], i));
  }
  auto result = [&] {
    nb::gil_scoped_release release;
    return held.function.CallValues(values);
  }();
  return PythonFromValue(ValueOf(std::move(result)));
}

nb::object FindGlobal(const std::string& name) {
  PackedFunc function = FindFunction(name);
  if (!function) return nb::none();
  return nb::cast(HeldFunction{std::move(function)});
}

nb::object FunctionOf(const HeldObject& held, const std::string& name) {
  auto* const module = dynamic_cast<Module*>(held.object.get());
  if (module == nullptr) return nb::none();
  PackedFunc function = ValueOf(module->FindFunction(name));
  if (!function) return nb::none();
  return nb::cast(HeldFunction{std::move(function)});
}

std::vector<std::string> FunctionNamesOf(const HeldObject& held) {
  auto* const module = dynamic_cast<Module*>(held.object.get());
  if (module == nullptr) return {};
  return module->AllFunctionNames();
}

HeldObject LoadLibrary(const std::string& path) {
  auto loaded = [&] {
    nb::gil_scoped_release release;
    return LoadModule(path);
  }();
  return {ValueOf(std::move(loaded))};
}

}  // namespace

void BindFunctions(nb::module_& module) {
  nb::class_<HeldDevice>(module, "Device")
      .def("__init__",
           [](HeldDevice* self, int type, int id) {
             new (self) HeldDevice{{static_cast<DLDeviceType>(type), id}};
           })
      .def_prop_ro("type",
                   [](const HeldDevice& self) {
                     return static_cast<int>(self.device.device_type);
                   })
      .def_prop_ro(
          "id", [](const HeldDevice& self) { return self.device.device_id; });
  nb::class_<HeldFunction>(module, "Function").def("__call__", &CallFunction);
  nb::class_<HeldObject>(module, "Object")
      .def("function", &FunctionOf)
      .def("function_names", &FunctionNamesOf)
      .def_prop_ro("kind",
                   [](const HeldObject& self) {
                     return std::string(self.object->object_type());
                   })
      .def("__repr__",
           [](const HeldObject& self) { return self.object->ToText(); });
  module.def("find_function", &FindGlobal);
  module.def("load_library", &LoadLibrary);
}

}  // namespace nodewise
