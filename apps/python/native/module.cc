// The native half of the Python package: what it binds for the modules of
// Python, which give it names, defaults and documentation.

#include "nodewise/module/module.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apps/python/native/loaded_network.h"
#include "apps/python/native/raise.h"
#include "nodewise/func/containers.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/func/registry.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {
namespace {

namespace nb = nanobind;

// Does something without Python's lock, for which other threads may wait.
template <typename Work>
auto Unlocked(Work&& work) {
  const nb::gil_scoped_release release;
  return work();
}

// --- Tensors: memory with a type, shared with Python in both directions -----

using Array = nb::ndarray<nb::ro, nb::device::cpu>;

// DLPack has booleans of a byte since its first version; ours are older.
DLDataType FromPython(nb::dlpack::dtype type) {
  if (type.code == kDTypeBool && type.bits == 8) return kBool;
  return {type.code, type.bits, type.lanes};
}

// Booleans of both kinds leave as those that numpy and torch know.
nb::dlpack::dtype ToPython(DLDataType type) {
  if (type == kBool || type == kFfiBool) return {kDTypeBool, 8, 1};
  return {type.code, type.bits, type.lanes};
}

// Borrows the array's memory. `type` is the elements' type where the array has
// only bytes of that size, since numpy has no name for it.
NDArray FromArray(const Array& array, const std::optional<std::string>& type) {
  DLTensor tensor{};
  // DLTensor has no const for memory that may only be read.
  tensor.data = const_cast<void*>(array.data_handle());
  tensor.byte_offset = array.byte_offset();
  tensor.device = kCpu;
  tensor.ndim = static_cast<int32_t>(array.ndim());
  tensor.dtype = FromPython(array.dtype());
  if (type.has_value()) {
    const DLDataType stated = ValueOf(ParseDType(*type));
    if (ElementBytes(stated) != array.itemsize()) {
      Raise(InvalidArgument(
          "tensor: has elements of {} bytes, expected {} for {}",
          array.itemsize(), ElementBytes(stated), *type));
    }
    tensor.dtype = stated;
  }
  tensor.shape = const_cast<int64_t*>(array.shape_ptr());
  tensor.strides = const_cast<int64_t*>(array.stride_ptr());
  Check(CheckDType(tensor.dtype));
  Check(CheckDLTensor(tensor));
  // The last of the owners may be a run, which has given up the lock of Python;
  // nanobind takes it again.
  return NDArray::Borrow(tensor, std::make_shared<Array>(array));
}

// The caller may be numpy, torch or anything else that takes DLPack. Hands the
// memory to Python, as long as `self` lives. `is_raw` gives elements
// as unsigned integers of their size, regardless of their type.
nb::object Lend(nb::handle self, bool is_raw) {
  const auto& array = nb::cast<const NDArray&>(self);
  if (array.device().device_type != kDLCPU) {
    Raise(
        Unimplemented("tensor: lies on another device, expected one in host "
                      "memory (copy it)"));
  }
  const absl::Span<const int64_t> sides = array.shape();
  const std::vector<size_t> shape(sides.begin(), sides.end());
  nb::dlpack::dtype type = ToPython(array.dtype());
  if (is_raw) {
    const size_t bits = ElementBytes(array.dtype()) * 8;
    type = {kDLUInt, static_cast<uint8_t>(bits), 1};
  }
  const int64_t* const strides = array->strides;
  const auto lent = [&]<typename... Kind>() {
    return nb::cast(nb::ndarray<nb::array_api, Kind...>(
        array.data(), shape.size(), shape.data(), self, strides, type, kDLCPU));
  };
  return array.is_read_only() ? lent.template operator()<nb::ro>()
                              : lent.template operator()<>();
}

// _tensors.py gives these numpy's names and types.
void BindTensor(nb::module_& module) {
  nb::class_<NDArray>(module, "Tensor")
      .def_static("of", &FromArray, nb::arg("array").noconvert(),
                  nb::arg("type").none() = nb::none())
      .def_prop_ro("shape",
                   [](const NDArray& array) {
                     return nb::tuple(nb::cast(std::vector<int64_t>(
                         array.shape().begin(), array.shape().end())));
                   })
      .def_prop_ro("dtype",
                   [](const NDArray& array) { return ToString(array.dtype()); })
      .def_prop_ro("nbytes", [](const NDArray& array) { return array.bytes(); })
      .def_prop_ro("is_read_only", &NDArray::is_read_only)
      .def_prop_ro("address",
                   [](const NDArray& array) {
                     return reinterpret_cast<uintptr_t>(array.data());
                   })
      .def("copy",
           [](const NDArray& array) {
             return ValueOf(Unlocked([&] { return array.CopyToHost(); }));
           })
      .def("lend", &Lend);
}

// The names of a source's tensors, and each tensor when it is asked for. Any
// thread may call.
class TensorFile : private TensorSink {
 public:
  static absl::StatusOr<std::unique_ptr<TensorFile>> Open(
      const std::string& path) {
    NODEWISE_ASSIGN_OR_RETURN(auto source, OpenTensorSource(path));
    std::unique_ptr<TensorFile> file(new TensorFile(std::move(source)));
    NODEWISE_RETURN_IF_ERROR(file->source_->Visit(*file));
    return file;
  }

  const std::string& name() const { return source_->name(); }
  const std::vector<std::string>& names() const { return names_; }

  absl::StatusOr<NDArray> Find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(name);
    if (found != known_.end()) {
      const Known& known = found->second;
      return known.lasting.defined() ? known.lasting : source_->Find(known.key);
    }
    return NotFound("{}: has no tensor \"{}\"{}", source_->name(), name,
                    DidYouMean(name, names_));
  }

 private:
  struct Known {
    TensorKey key;
    // The tensor itself, where that takes no copy: in a mapped file.
    NDArray lasting;
  };

  // Visits the source, so that it must be whole before that.
  explicit TensorFile(std::unique_ptr<TensorSource> source)
      : source_(std::move(source)) {}

  // An item without contents is not a tensor to be had.
  absl::Status Consume(const TensorItem& item) override {
    if (item.tensor == nullptr) return absl::OkStatus();
    std::string name = item.key.Name();
    const bool is_new = !known_.contains(name);
    // If several have one name, the last counts.
    known_[name] = {item.key, item.lasting};
    if (is_new) names_.push_back(std::move(name));
    return absl::OkStatus();
  }

  std::mutex mutex_;
  const std::unique_ptr<TensorSource> source_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Known> known_;
};

std::unique_ptr<TensorFile> OpenTensors(const std::string& path) {
  return ValueOf(Unlocked([&] { return TensorFile::Open(path); }));
}

NDArray FindTensor(TensorFile& file, const std::string& name) {
  return ValueOf(Unlocked([&] { return file.Find(name); }));
}

// _tensors.py makes a mapping of it.
void BindTensorFiles(nb::module_& module) {
  nb::class_<TensorFile>(module, "TensorFile")
      .def_prop_ro("name", &TensorFile::name)
      .def("names", &TensorFile::names)
      .def("find", &FindTensor);
  module.def("open_tensors", &OpenTensors);
}

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

// For messages: "list", not "<class 'list'>".
std::string TypeNameOf(nb::handle value) {
  return nb::cast<std::string>(value.type().attr("__name__"));
}

// Python's numbers have no bounds, those of the runtime have 64 bits.
Value NumberOf(nb::handle value, size_t place) {
  int64_t number = 0;
  if (nb::try_cast(value, number)) return number;
  Raise(InvalidArgument("argument {}: is an int of more than 64 bits", place));
}

// The order matters: a bool is an int of Python's, and a tensor of ours may
// look like other things, too.
Value ValueFromPython(nb::handle value, size_t place) {
  if (value.is_none()) return Value();
  // Booleans count as ints, as in TVM up to 0.17.
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
  Raise(InvalidArgument(
      "argument {}: is a {}, expected a number, text, bytes, a tensor, a "
      "device, a module, a function, or a list or dict of these",
      place, TypeNameOf(value)));
}

// Bytes that are not UTF-8 come back as they were when the text is passed on.
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

// Values are made of Python's while its lock is held, and the call runs without
// it, as it may take long.
nb::object CallFunction(const HeldFunction& held, const nb::args& args) {
  std::vector<Value> values;
  for (size_t i = 0; i < args.size(); ++i) {
    values.push_back(ValueFromPython(args[i], i));
  }
  return PythonFromValue(
      ValueOf(Unlocked([&] { return held.function.CallValues(values); })));
}

// None stands for what is not there; Python raises where that is an error.
nb::object FindGlobal(const std::string& name) {
  PackedFunc function = FindFunction(name);
  if (!function) return nb::none();
  return nb::cast(HeldFunction{std::move(function)});
}

// Objects that are not modules have no functions; host code asks all the same.
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

// The contents of the file decide what becomes of it, not its name.
HeldObject LoadLibrary(const std::string& path) {
  return {ValueOf(Unlocked([&] { return LoadModule(path); }))};
}

// nodewise.tvm gives these the names that TVM has for them.
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

using Named = std::vector<std::pair<std::string, NDArray>>;

// Tensors are counted references, so that no element is copied.
std::vector<NamedTensor> TensorsOf(const Named& named) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(named.size());
  for (const auto& [name, tensor] : named) tensors.push_back({name, tensor});
  return tensors;
}

// A closed network fails in every call, so that even methods which cannot fail
// have a status here.
template <typename T>
absl::StatusOr<T> Fallible(T value) {
  return value;
}
template <typename T>
absl::StatusOr<T> Fallible(absl::StatusOr<T> value) {
  return value;
}
absl::Status Fallible(absl::Status status) { return status; }

// A loaded network as Python has it: one call at a time, whichever thread makes
// it, and none after close().
class HeldNetwork {
 public:
  explicit HeldNetwork(std::unique_ptr<LoadedNetwork> loaded)
      : name_(loaded->name()), loaded_(std::move(loaded)) {}

  const std::string& name() const { return name_; }

  void Close() {
    Unlocked([&] {
      const std::lock_guard lock(mutex_);
      loaded_ = nullptr;
    });
  }

  // Python's lock is given up before the mutex is waited for: a thread that
  // kept it during another's run would stop all of Python. Raising needs the
  // lock, so it comes after.
  template <typename Run>
  auto Do(Run&& run) {
    using Result = decltype(Fallible(run(std::declval<LoadedNetwork&>())));
    auto result = Unlocked([&]() -> Result {
      const std::lock_guard lock(mutex_);
      if (loaded_ == nullptr) {
        return absl::FailedPreconditionError(
            name_ + ": is closed, expected one that is open (load it again)");
      }
      const InterruptibleRun interruptible;
      return Fallible(run(*loaded_));
    });
    if constexpr (std::is_same_v<Result, absl::Status>) {
      Check(result);
    } else {
      return ValueOf(std::move(result));
    }
  }

 private:
  const std::string name_;  // Stays known after close().
  std::mutex mutex_;
  std::unique_ptr<LoadedNetwork> loaded_;
};

// Makes a method of HeldNetwork of one of LoadedNetwork.
template <typename Result, typename... Values>
auto Locked(Result (LoadedNetwork::*method)(Values...)) {
  return [method](HeldNetwork& self, Values... values) {
    return self.Do(
        [&](LoadedNetwork& network) { return (network.*method)(values...); });
  };
}
template <typename Result, typename... Values>
auto Locked(Result (LoadedNetwork::*method)(Values...) const) {
  return [method](HeldNetwork& self, Values... values) {
    return self.Do(
        [&](LoadedNetwork& network) { return (network.*method)(values...); });
  };
}

// load() of _session.py has checked the options, and says what is wrong in the
// words of Python.
TargetSpec SpecOf(const std::string& path, const Named& inputs,
                  const Named& frozen, const nb::dict& options) {
  const auto text = [&](const char* name) {
    return options.contains(name) ? nb::cast<std::string>(options[name]) : "";
  };
  const auto is_set = [&](const char* name) {
    return options.contains(name) && nb::cast<bool>(options[name]);
  };
  TargetSpec spec;
  spec.path = path;
  spec.library = text("lib");
  spec.params = text("params");
  spec.function = text("function");
  spec.inputs.tensors = TensorsOf(inputs);
  spec.model.freeze = TensorsOf(frozen);
  if (options.contains("dim")) {
    spec.model.dims =
        nb::cast<std::vector<std::pair<std::string, int64_t>>>(options["dim"]);
  }
  if (options.contains("seed")) {
    spec.model.seed = nb::cast<uint64_t>(options["seed"]);
  }
  // Without a backend the session chooses, by what the model has.
  if (text("backend") == "reference") {
    spec.lowering.backend = Backend::kReference;
  } else if (text("backend") == "onednn") {
    spec.lowering.backend = Backend::kFastest;
  }
  spec.lowering.fuses = !is_set("no_fuse");
  spec.lowering.reuses_storage = !is_set("no_reuse");
  return spec;
}

std::unique_ptr<HeldNetwork> Open(const std::string& path, const Named& inputs,
                                  const Named& frozen,
                                  const nb::dict& options) {
  TargetSpec spec = SpecOf(path, inputs, frozen, options);
  // Python's own handler may have come after the module was imported.
  WatchInterrupts();
  DiagnosticList diagnostics;
  auto opened = Unlocked([&] {
    const InterruptibleRun interruptible;
    return LoadedNetwork::Open(
        std::move(spec), &InterruptibleRun::is_interrupted(), &diagnostics);
  });
  if (!opened.ok()) Raise(opened.status(), diagnostics);
  return std::make_unique<HeldNetwork>(*std::move(opened));
}

std::vector<std::pair<std::string, std::string>> InputsOf(
    LoadedNetwork& network) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const LoadedNetwork::Input& input : network.Inputs()) {
    // Parameters can be set as well, and no run waits for them.
    if (!input.is_needed) continue;
    rows.emplace_back(input.name, ToString(input.type));
  }
  return rows;
}

void BindNetwork(nb::module_& module) {
  using Net = LoadedNetwork;
  nb::class_<HeldNetwork>(module, "Network")
      .def_prop_ro("name", &HeldNetwork::name)
      .def("close", &HeldNetwork::Close)
      .def("notes", Locked(&Net::notes))
      .def("inputs", [](HeldNetwork& self) { return self.Do(InputsOf); })
      .def("outputs", Locked(&Net::Outputs))
      .def("nodes", Locked(&Net::Nodes))
      // The list of Python is read before its lock is given up.
      .def("set",
           [](HeldNetwork& self, const Named& inputs) {
             const std::vector<NamedTensor> tensors = TensorsOf(inputs);
             self.Do([&](Net& net) { return net.Set(tensors); });
           })
      .def("bind",
           [](HeldNetwork& self, const std::string& name,
              const NDArray& tensor) {
             self.Do([&](Net& net) { return net.Bind({name, tensor}); });
           })
      .def("input_memory", Locked(&Net::InputMemory))
      .def("run", Locked(&Net::Run))
      .def("time_runs", Locked(&Net::TimeRuns))
      .def("times", Locked(&Net::Times))
      .def("read", Locked(&Net::Read))
      .def("patch", Locked(&Net::Patch))
      .def("clear_patches", Locked(&Net::ClearPatches))
      .def("restart", Locked(&Net::Restart))
      .def("step", Locked(&Net::Step))
      .def("run_until", Locked(&Net::RunUntil))
      .def("resume", Locked(&Net::Continue))
      .def("recompute", Locked(&Net::Recompute))
      .def("position", Locked(&Net::Position))
      .def("record", Locked(&Net::Record))
      .def("dump_folder", Locked(&Net::DumpFolder));
}

}  // namespace

}  // namespace nodewise

NB_MODULE(_native, module) {
  // Objects may outlive the interpreter's modules at its end.
  nanobind::set_leak_warnings(false);
  nodewise::BindTensor(module);
  nodewise::BindTensorFiles(module);
  nodewise::BindNetwork(module);
  nodewise::BindFunctions(module);
  module.def("open", &nodewise::Open);
}
