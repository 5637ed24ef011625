// The functions of TVM's own runtime that bytecode calls.

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status_macros.h"
#include "runtime/vm/vm_reader.h"

namespace nodewise {
namespace {

constexpr size_t kAny = SIZE_MAX;
constexpr uint32_t kMostDepth = 8;

}  // namespace

const VmReader::BuiltinRow VmReader::kBuiltins[] = {
    {"vm.builtin.null_value", 0, 0, &VmReader::Nothing, ""},
    {"vm.builtin.copy", 1, 1, &VmReader::First, ""},
    // No tensor of a graph has an offset of its own.
    {"vm.builtin.ensure_zero_offset", 1, 1, &VmReader::First, ""},
    {"vm.builtin.check_tensor_info", 3, 4, &VmReader::CheckTensorInfo, ""},
    {"vm.builtin.check_shape_info", 3, 3, &VmReader::CheckShapeInfo, ""},
    {"vm.builtin.check_prim_value_info", 3, 3, &VmReader::CheckNumberInfo, ""},
    {"vm.builtin.check_tuple_info", 3, 3, &VmReader::CheckTupleInfo, ""},
    {"vm.builtin.match_shape", 4, kAny, &VmReader::MatchShape, ""},
    {"vm.builtin.match_prim_value", 5, 5, &VmReader::MatchNumber, ""},
    {"vm.builtin.make_shape", 2, kAny, &VmReader::MakeShape, ""},
    {"vm.builtin.make_prim_value", 3, 3, &VmReader::MakeNumber, ""},
    {"vm.builtin.alloc_shape_heap", 2, 2, &VmReader::AllocShapeHeap, ""},
    {"vm.builtin.alloc_storage", 4, 5, &VmReader::AllocStorage, ""},
    {"vm.builtin.alloc_tensor", 4, 5, &VmReader::AllocTensor, ""},
    {"vm.builtin.reshape", 2, 2, &VmReader::Reshape, ""},
    {"vm.builtin.shape_of", 1, 1, &VmReader::ShapeOfTensor, ""},
    {"vm.builtin.make_tuple", 0, kAny, &VmReader::MakeTuple, ""},
    {"vm.builtin.tuple_getitem", 2, 2, &VmReader::TupleItem, ""},
    {"vm.builtin.tuple_reset_item", 2, 2, &VmReader::TupleResetItem, ""},
    {"vm.builtin.call_tir_dyn", 2, kAny, &VmReader::CallWithDims, ""},
    {"vm.builtin.check_func_info", 0, kAny, nullptr, "functions as values"},
    {"vm.builtin.make_closure", 0, kAny, nullptr, "functions as values"},
    {"vm.builtin.invoke_closure", 0, kAny, nullptr, "functions as values"},
    {"vm.builtin.call_py_func", 0, kAny, nullptr, "code in Python"},
    {"vm.builtin.invoke_debug_func", 0, kAny, nullptr,
     "a function of the host program"},
    {"vm.builtin.read_if_cond", 0, kAny, nullptr,
     "a branch on a value that is computed"},
    {"vm.builtin.tensor_to_shape", 0, kAny, nullptr,
     "a shape that is computed as a tensor"},
    {"vm.builtin.compute_alloc_shape", 0, kAny, nullptr,
     "a shape that is known at run time only"},
    {"vm.builtin.to_device", 0, kAny, nullptr, "a copy between devices"},
};

const VmReader::BuiltinRow* VmReader::FindBuiltin(std::string_view name) {
  for (const BuiltinRow& row : kBuiltins) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

absl::StatusOr<VmReader::Value> VmReader::Nothing(const Call&) {
  return Value();
}

absl::StatusOr<VmReader::Value> VmReader::First(const Call& call) {
  return call.args[0];
}

absl::StatusOr<VmReader::Dims> VmReader::ShapeArgument(const Call& call,
                                                       size_t index,
                                                       DLDataType dtype,
                                                       uint64_t* bytes) const {
  NODEWISE_ASSIGN_OR_RETURN(Dims dims, DimsOf(call, index));
  const auto size = TensorBytes(dims, dtype);
  if (size.ok()) {
    *bytes = *size;
    return dims;
  }
  return BadBytecode(call.instruction, std::string(MessageOf(size.status())),
                     "dimensions of a tensor");
}

// (vm, shape, device index, type, memory scope)
absl::StatusOr<VmReader::Value> VmReader::AllocStorage(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType* dtype, DTypeOf(call, 3));
  VmStorage storage;
  NODEWISE_RETURN_IF_ERROR(
      ShapeArgument(call, 1, *dtype, &storage.bytes).status());
  NODEWISE_ASSIGN_OR_RETURN(const int64_t device, IntOf(call, 2));
  // -1 is the host, 0 what the network runs on.
  if (device != 0 && device != -1) {
    Refuse(call.instruction,
           fmt::format("a storage on device {} of the VM", device));
  }
  if (call.args.size() > 4 && Is(call, 4, Value::Kind::kConstant)) {
    const auto* scope = std::get_if<std::string_view>(
        &executable_.constants[static_cast<size_t>(call.args[4].number)]);
    if (scope != nullptr && !IsGlobal(*scope)) {
      Refuse(call.instruction,
             fmt::format("a storage in memory \"{}\"", Shortened(*scope)));
    }
  }
  program_.storages.push_back(storage);
  return Value{Value::Kind::kStorage,
               static_cast<int64_t>(program_.storages.size() - 1)};
}

// (storage, offset in bytes, shape, type, memory scope)
absl::StatusOr<VmReader::Value> VmReader::AllocTensor(const Call& call) {
  if (!Is(call, 0, Value::Kind::kStorage)) {
    return BadBytecode(call.instruction,
                       fmt::format("a tensor in {}", Describe(call.args[0])),
                       "a storage");
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t offset, IntOf(call, 1));
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType* named, DTypeOf(call, 3));
  VmTensor tensor;
  tensor.source = static_cast<uint32_t>(call.args[0].number);
  tensor.has_shape = tensor.has_dtype = true;
  tensor.dtype = VmDType(*named, executable_.era);
  const absl::Status is_type = CheckDType(tensor.dtype);
  if (!is_type.ok()) {
    return BadBytecode(call.instruction, std::string(MessageOf(is_type)),
                       "a type of tensors");
  }
  uint64_t bytes = 0;
  NODEWISE_ASSIGN_OR_RETURN(tensor.shape,
                            ShapeArgument(call, 2, tensor.dtype, &bytes));
  const uint64_t room = program_.storages[tensor.source].bytes;
  if (offset < 0 || static_cast<uint64_t>(offset) > room ||
      bytes > room - static_cast<uint64_t>(offset)) {
    return BadBytecode(
        call.instruction,
        fmt::format("a tensor of {} bytes at byte {} of a storage", bytes,
                    offset),
        fmt::format("at most the {} bytes of the storage", room));
  }
  tensor.offset = static_cast<uint64_t>(offset);
  return Value{Value::Kind::kTensor, AddTensor(std::move(tensor))};
}

absl::StatusOr<VmReader::Value> VmReader::Reshape(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t from, TensorOf(call, 0));
  const VmTensor base = program_.tensors[from];
  uint64_t bytes = 0;
  VmTensor tensor;
  NODEWISE_ASSIGN_OR_RETURN(
      tensor.shape,
      ShapeArgument(call, 1, base.has_dtype ? base.dtype : kFloat32, &bytes));
  if (!base.has_shape || !base.has_dtype ||
      std::any_of(base.shape.begin(), base.shape.end(),
                  [](int64_t dim) { return dim < 0; })) {
    program_.tensors[from].is_used = true;
    return Value{Value::Kind::kUnknown};
  }
  const auto wanted = TensorBytes(base.shape, base.dtype);
  if (!wanted.ok() || bytes > *wanted) {
    return BadBytecode(
        call.instruction,
        fmt::format("{} for a tensor of shape {}", ShapeToString(tensor.shape),
                    ShapeToString(base.shape)),
        "a shape of as many elements");
  }
  if (bytes < *wanted) {
    return Refuse(call.instruction, "a part of a tensor as another tensor");
  }
  if (!base.is_written) {
    return Refuse(call.instruction,
                  "another shape of a tensor that nothing "
                  "has written yet");
  }
  tensor.origin = VmTensor::Origin::kView;
  tensor.source = from;
  tensor.has_shape = tensor.has_dtype = tensor.is_written = true;
  tensor.dtype = base.dtype;
  program_.tensors[from].is_used = true;
  const uint32_t view = AddTensor(std::move(tensor));
  program_.calls.push_back({"", {from}, {view}, {}});
  return Value{Value::Kind::kTensor, view};
}

absl::StatusOr<VmReader::Value> VmReader::ShapeOfTensor(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t number, TensorOf(call, 0));
  VmTensor& tensor = program_.tensors[number];
  if (!tensor.has_shape || std::any_of(tensor.shape.begin(), tensor.shape.end(),
                                       [](int64_t dim) { return dim < 0; })) {
    tensor.is_used = true;  // Open dimensions are to be reported.
    return Value{Value::Kind::kUnknown};
  }
  shapes_.push_back(tensor.shape);
  return Value{Value::Kind::kShape, static_cast<int64_t>(shapes_.size() - 1)};
}

absl::StatusOr<VmReader::Value> VmReader::MakeTuple(const Call& call) {
  tuples_.push_back(call.args);
  return Value{Value::Kind::kTuple, static_cast<int64_t>(tuples_.size() - 1)};
}

// Each item of an input that is a tuple is an input too.
absl::StatusOr<uint32_t> VmReader::ItemOf(const Call& call, VmInput* tuple,
                                          int64_t item) {
  const auto known = tuple->items.find(item);
  if (known != tuple->items.end()) return known->second;
  if (item < 0 || tuple->depth >= kMostDepth) {
    return BadBytecode(
        call.instruction,
        fmt::format("item {} of a tuple in {} tuples", item, tuple->depth),
        fmt::format("one of 0 or more, {} deep", kMostDepth));
  }
  const auto place = static_cast<size_t>(tuple - program_.inputs.data());
  const uint32_t made =
      AddInput(fmt::format("{}[{}]", tuple->name, item), tuple->depth + 1);
  program_.inputs[place].items.emplace(item, made);
  return made;
}

absl::StatusOr<VmReader::Value> VmReader::TupleItem(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t item, IntOf(call, 1));
  if (VmInput* input = InputOf(call.args[0]); input != nullptr) {
    NODEWISE_RETURN_IF_ERROR(BecomeTuple(call, input).status());
    NODEWISE_ASSIGN_OR_RETURN(const uint32_t made, ItemOf(call, input, item));
    return Value{Value::Kind::kTensor, program_.inputs[made].tensor};
  }
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t tuple, TupleOf(call, 0));
  const std::vector<Value>& items = tuples_[tuple];
  if (item >= 0 && static_cast<uint64_t>(item) < items.size()) {
    return items[static_cast<size_t>(item)];
  }
  return BadBytecode(call.instruction, fmt::format("item {} of a tuple", item),
                     fmt::format("one of its {}", items.size()));
}

absl::StatusOr<VmReader::Value> VmReader::TupleResetItem(const Call& call) {
  if (InputOf(call.args[0]) != nullptr) return Value();
  NODEWISE_ASSIGN_OR_RETURN(const Value item, TupleItem(call));
  static_cast<void>(item);
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t tuple, TupleOf(call, 0));
  tuples_[tuple][static_cast<size_t>(call.args[1].number)] = Value();
  return Value();
}

// (kernel, its tensors, a shape whose dimensions are its last arguments)
absl::StatusOr<VmReader::Value> VmReader::CallWithDims(const Call& call) {
  if (!Is(call, 0, Value::Kind::kFunction)) {
    return BadBytecode(call.instruction,
                       fmt::format("a call of {}", Describe(call.args[0])),
                       "a function");
  }
  Call inner{
      call.instruction,
      executable_.functions[static_cast<size_t>(call.args[0].number)].name,
      {call.args.begin() + 1, call.args.end() - 1}};
  const size_t last = call.args.size() - 1;
  if (Is(call, last, Value::Kind::kUnknown)) {
    inner.args.push_back({Value::Kind::kUnknown});
    return CallKernel(inner);
  }
  NODEWISE_ASSIGN_OR_RETURN(const Dims dims, DimsOf(call, last));
  for (const int64_t dim : dims) {
    inner.args.push_back({Value::Kind::kInt, dim});
  }
  return CallKernel(inner);
}

}  // namespace nodewise
