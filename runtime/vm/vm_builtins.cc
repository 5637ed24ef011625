#include <limits>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status.h"
#include "runtime/vm/vm_reader.h"

namespace nodewise {
namespace {

constexpr size_t kAny = SIZE_MAX;
// Tuples in tuples would otherwise be followed as deep as the bytecode says.
constexpr uint32_t kMostDepth = 8;

// The codes of match_shape and of make_shape. TVM's numbers.
enum MatchCode : int64_t {
  kEqualsNumber = 0,
  kStore = 1,
  kIgnore = 2,
  kEqualsSlot = 3
};
enum MakeCode : int64_t { kUseNumber = 0, kLoad = 1 };

// Compiled code works on a heap in memory, so its size is limited there.
constexpr int64_t kMostComputed = 65536;

}  // namespace

// The names, the fewest and the most arguments, and what reads them. A function
// that is listed without a method belongs to programs that a graph cannot
// express; one that is not listed at all is newer than this reader.
const VmReader::BuiltinRow VmReader::kBuiltins[] = {
    {"vm.builtin.null_value", 0, 0, &VmReader::Nothing},
    {"vm.builtin.copy", 1, 1, &VmReader::First},
    // No tensor of a graph has an offset of its own.
    {"vm.builtin.ensure_zero_offset", 1, 1, &VmReader::First},
    {"vm.builtin.check_tensor_info", 3, 4, &VmReader::CheckTensorInfo},
    {"vm.builtin.check_shape_info", 3, 3, &VmReader::CheckShapeInfo},
    {"vm.builtin.check_prim_value_info", 3, 3, &VmReader::CheckNumberInfo},
    {"vm.builtin.check_tuple_info", 3, 3, &VmReader::CheckTupleInfo},
    {"vm.builtin.match_shape", 4, kAny, &VmReader::MatchShape},
    {"vm.builtin.match_prim_value", 5, 5, &VmReader::MatchNumber},
    {"vm.builtin.make_shape", 2, kAny, &VmReader::MakeShape},
    {"vm.builtin.make_prim_value", 3, 3, &VmReader::MakeNumber},
    {"vm.builtin.alloc_shape_heap", 2, 2, &VmReader::AllocShapeHeap},
    {"vm.builtin.alloc_storage", 4, 5, &VmReader::AllocStorage},
    {"vm.builtin.alloc_tensor", 4, 5, &VmReader::AllocTensor},
    {"vm.builtin.reshape", 2, 2, &VmReader::Reshape},
    {"vm.builtin.shape_of", 1, 1, &VmReader::ShapeOfTensor},
    {"vm.builtin.make_tuple", 0, kAny, &VmReader::MakeTuple},
    {"vm.builtin.tuple_getitem", 2, 2, &VmReader::TupleItem},
    {"vm.builtin.tuple_reset_item", 2, 2, &VmReader::TupleResetItem},
    {"vm.builtin.call_tir_dyn", 2, kAny, &VmReader::CallWithDims},
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

VmReader::Result VmReader::Nothing(const Call&) { return Value(); }

// A copy of a value is the value: nothing here changes one in place.
VmReader::Result VmReader::First(const Call& call) { return call.args[0]; }

// TensorBytes() refuses dimensions whose product no memory holds.
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
  return BadBytecode(MessageOf(size.status()), "dimensions of a tensor");
}

// (vm, shape, device index, type, memory scope) Its shape is that of a block of
// bytes, and only its size counts.
VmReader::Result VmReader::AllocStorage(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType* dtype, DTypeOf(call, 3));
  VmStorage storage;
  NODEWISE_RETURN_IF_ERROR(
      ShapeArgument(call, 1, *dtype, &storage.bytes).status());
  NODEWISE_ASSIGN_OR_RETURN(const int64_t device, IntOf(call, 2));
  // -1 is the host, 0 what the network runs on.
  if (device != 0 && device != -1) {
    Refuse(fmt::format("a storage on device {} of the VM", device));
  }
  const auto* scope = call.args.size() > 4
                          ? ConstantOf<std::string_view>(call.args[4])
                          : nullptr;
  if (scope != nullptr && !IsGlobal(*scope)) {
    Refuse(fmt::format("a storage in memory \"{}\"", Shortened(*scope)));
  }
  return Keep(Kind::kStorage, storage, &program_.storages);
}

// (storage, offset in bytes, shape, type, memory scope) TVM plans storages that
// several tensors share one after the other, at offsets.
VmReader::Result VmReader::AllocTensor(const Call& call) {
  if (!Is(call, 0, Kind::kStorage)) {
    return BadBytecode(fmt::format("a tensor in {}", Describe(call.args[0])),
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
    return BadBytecode(MessageOf(is_type), "a type of tensors");
  }
  uint64_t bytes = 0;
  NODEWISE_ASSIGN_OR_RETURN(tensor.shape,
                            ShapeArgument(call, 2, tensor.dtype, &bytes));
  // The difference cannot wrap around, while a sum of the two could.
  const uint64_t room = program_.storages[tensor.source].bytes;
  if (offset < 0 || static_cast<uint64_t>(offset) > room ||
      bytes > room - static_cast<uint64_t>(offset)) {
    return BadBytecode(
        fmt::format("a tensor of {} bytes at byte {} of a storage", bytes,
                    offset),
        fmt::format("at most the {} bytes of the storage", room));
  }
  tensor.offset = static_cast<uint64_t>(offset);
  return Value{Kind::kTensor, AddTensor(std::move(tensor))};
}

// A new shape is a node without a function of its own, which shares the memory
// of its input. Where the old shape is still open, the result is unknown, and
// the input is asked for.
VmReader::Result VmReader::Reshape(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t from, TensorOf(call, 0));
  const VmTensor base = program_.tensors[from];
  uint64_t bytes = 0;
  VmTensor tensor;
  NODEWISE_ASSIGN_OR_RETURN(
      tensor.shape,
      ShapeArgument(call, 1, base.has_dtype ? base.dtype : kFloat32, &bytes));
  if (!base.has_shape || !base.has_dtype || base.HasOpenDims()) {
    program_.tensors[from].is_used = true;
    return Value{Kind::kUnknown};
  }
  const auto wanted = TensorBytes(base.shape, base.dtype);
  if (!wanted.ok() || bytes > *wanted) {
    return BadBytecode(
        fmt::format("{} for a tensor of shape {}", ShapeToString(tensor.shape),
                    ShapeToString(base.shape)),
        "a shape of as many elements");
  }
  if (bytes < *wanted) return Refuse("a part of a tensor as another tensor");
  if (!base.is_written) {
    return Refuse("another shape of a tensor that nothing has written yet");
  }
  tensor.origin = VmTensor::Origin::kView;
  tensor.source = from;
  tensor.has_shape = tensor.has_dtype = tensor.is_written = true;
  tensor.dtype = base.dtype;
  program_.tensors[from].is_used = true;
  const uint32_t view = AddTensor(std::move(tensor));
  program_.calls.push_back({"", {from}, {view}, {}});
  return Value{Kind::kTensor, view};
}

VmReader::Result VmReader::ShapeOfTensor(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t number, TensorOf(call, 0));
  VmTensor& tensor = program_.tensors[number];
  if (!tensor.has_shape || tensor.HasOpenDims()) {
    tensor.is_used = true;  // Open dimensions are to be reported.
    return Value{Kind::kUnknown};
  }
  return Keep(Kind::kShape, tensor.shape, &shapes_);
}

// Items may be unknown: a tuple may hold what is never read.
VmReader::Result VmReader::MakeTuple(const Call& call) {
  return Keep(Kind::kTuple, call.args, &tuples_);
}

// Each item of an input that is a tuple is an input too. The map keeps these,
// since bytecode takes the same item out again and again.
absl::StatusOr<uint32_t> VmReader::ItemOf(VmInput* tuple, int64_t item) {
  const auto known = tuple->items.find(item);
  if (known != tuple->items.end()) return known->second;
  if (item < 0 || tuple->depth >= kMostDepth) {
    return BadBytecode(
        fmt::format("item {} of a tuple in {} tuples", item, tuple->depth),
        fmt::format("one of 0 or more, {} deep", kMostDepth));
  }
  // AddInput() may move the inputs, and `tuple` with them.
  const auto place = static_cast<size_t>(tuple - program_.inputs.data());
  const uint32_t made =
      AddInput(fmt::format("{}[{}]", tuple->name, item), tuple->depth + 1);
  program_.inputs[place].items.emplace(item, made);
  return made;
}

// That an input is a tuple may show only here, where an item is taken out.
VmReader::Result VmReader::TupleItem(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t item, IntOf(call, 1));
  if (VmInput* const input = InputOf(call.args[0])) {
    NODEWISE_RETURN_IF_ERROR(ReinterpretAsTuple(input).status());
    NODEWISE_ASSIGN_OR_RETURN(const uint32_t made, ItemOf(input, item));
    return Value{Kind::kTensor, program_.inputs[made].tensor};
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto* const items, TupleOf(call, 0));
  if (item >= 0 && static_cast<uint64_t>(item) < items->size()) {
    return (*items)[static_cast<size_t>(item)];
  }
  return BadBytecode(fmt::format("item {} of a tuple", item),
                     fmt::format("one of its {}", items->size()));
}

// Bytecode frees an item early with this, which a plan of storages makes
// needless.
VmReader::Result VmReader::TupleResetItem(const Call& call) {
  if (InputOf(call.args[0]) != nullptr) return Value();
  NODEWISE_RETURN_IF_ERROR(TupleItem(call).status());
  NODEWISE_ASSIGN_OR_RETURN(auto* const items, TupleOf(call, 0));
  (*items)[call.args[1].index()] = Value();
  return Value();
}

// (kernel, its tensors, a shape whose dimensions are its last arguments) A
// kernel for open shapes gets the dimensions as numbers behind its tensors.
VmReader::Result VmReader::CallWithDims(const Call& call) {
  if (!Is(call, 0, Kind::kFunction)) {
    return BadBytecode(fmt::format("a call of {}", Describe(call.args[0])),
                       "a function");
  }
  Call inner{executable_.functions[call.args[0].index()].name,
             {call.args.begin() + 1, call.args.end() - 1}};
  const size_t last = call.args.size() - 1;
  if (Is(call, last, Kind::kUnknown)) {
    inner.args.push_back({Kind::kUnknown});
    return CallKernel(inner);
  }
  NODEWISE_ASSIGN_OR_RETURN(const Dims dims, DimsOf(call, last));
  for (const int64_t dim : dims) inner.args.push_back({Kind::kInt, dim});
  return CallKernel(inner);
}

// The functions below return an argument of the kind that is wanted, or an
// error that says what it is instead.
absl::StatusOr<int64_t> VmReader::IntOf(const Call& call, size_t index) const {
  if (Is(call, index, Kind::kInt)) return call.args[index].number;
  return WrongArgument(call, index, "a number");
}

// A shape is computed by other instructions, or a constant.
absl::StatusOr<VmReader::Dims> VmReader::DimsOf(const Call& call,
                                                size_t index) const {
  const Value& value = call.args[index];
  if (value.kind == Kind::kShape) return shapes_[value.index()];
  const auto* const shape = ConstantOf<VmShape>(value);
  if (shape == nullptr) return WrongArgument(call, index, "a shape");
  if (shape->dims.size() <= kMostDims) return shape->dims;
  return BadBytecode(
      fmt::format("a shape of {} dimensions", shape->dims.size()),
      fmt::format("at most {}", kMostDims));
}

absl::StatusOr<const DLDataType*> VmReader::DTypeOf(const Call& call,
                                                    size_t index) const {
  if (const auto* dtype = ConstantOf<DLDataType>(call.args[index])) {
    return dtype;
  }
  return WrongArgument(call, index, "a type");
}

absl::StatusOr<uint32_t> VmReader::TensorOf(const Call& call,
                                            size_t index) const {
  const Value& value = call.args[index];
  if (value.kind == Kind::kTensor && !IsTupleInput(value)) {
    return static_cast<uint32_t>(value.number);
  }
  return WrongArgument(call, index, "a tensor");
}

absl::StatusOr<std::vector<VmReader::Value>*> VmReader::TupleOf(
    const Call& call, size_t index) {
  const Value& value = call.args[index];
  if (value.kind == Kind::kTuple) return &tuples_[value.index()];
  return WrongArgument(call, index, "a tuple");
}

// Bytecode passes None where no slot is used. The pointer is valid until the
// next heap is made.
absl::StatusOr<VmReader::Heap*> VmReader::HeapOf(const Call& call,
                                                 size_t index) {
  const Value& value = call.args[index];
  if (value.kind == Kind::kNone) return nullptr;
  if (value.kind == Kind::kHeap) return &heaps_[value.index()];
  return WrongArgument(call, index, "the heap of computed dimensions");
}

// The bytecode may give a heap any size; slots are kept in a map, so that a
// huge one costs nothing.
absl::Status VmReader::CheckSlot(const Heap* heap, int64_t slot) const {
  const int64_t size = heap == nullptr ? 0 : heap->size;
  if (slot >= 0 && slot < size) return absl::OkStatus();
  return BadBytecode(fmt::format("place {} of the heap", slot),
                     fmt::format("one of the {}", size));
}

// A given type of another rank does not fit this function, and the check in the
// bytecode will say so.
const VmInputType* VmReader::GivenFor(const VmInput& input) const {
  const VmTensor& tensor = program_.tensors[input.tensor];
  for (const VmInputType& given : binding_.inputs) {
    if (given.name != input.name) continue;
    return given.shape.size() == tensor.shape.size() ? &given : nullptr;
  }
  return nullptr;
}

// Gives an input that nothing is known of yet a shape with all dimensions open.
absl::Status VmReader::LearnShape(VmInput* input, size_t rank) {
  input->checked_at = at_;
  VmTensor& tensor = program_.tensors[input->tensor];
  if (tensor.has_shape) return absl::OkStatus();
  if (rank > kMostDims) {
    return BadBytecode(fmt::format("a rank of {}", rank),
                       fmt::format("at most {}", kMostDims));
  }
  tensor.has_shape = true;
  tensor.shape.assign(rank, -1);
  return absl::OkStatus();
}

absl::Status VmReader::CheckRank(const Dims& dims, int64_t rank) const {
  if (static_cast<int64_t>(dims.size()) == rank) return absl::OkStatus();
  return BadBytecode(fmt::format("a check for {} dimensions", rank),
                     fmt::format("{}, as the tensor has", dims.size()));
}

// The compiler puts such checks at the front of a function: what the VM would
// check at run time is how the type of an input is known here.
VmReader::Result VmReader::CheckTensorInfo(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t number, TensorOf(call, 0));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t rank, IntOf(call, 1));
  if (VmInput* const input = InputOf(call.args[0])) {
    input->checked_at = at_;
    if (rank >= 0) {
      NODEWISE_RETURN_IF_ERROR(LearnShape(input, static_cast<size_t>(rank)));
    }
  }
  VmTensor& tensor = program_.tensors[number];
  if (tensor.has_shape && rank != -1) {
    NODEWISE_RETURN_IF_ERROR(CheckRank(tensor.shape, rank));
  }
  if (call.args.size() == 3 || Is(call, 2, Kind::kNone)) return Value();
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType* named, DTypeOf(call, 2));
  if (named->bits == 0) return Value();  // "void": any type.
  const DLDataType dtype = VmDType(*named, executable_.era);
  if (tensor.has_dtype && !(tensor.dtype == dtype)) {
    return BadBytecode(
        fmt::format("a check for {}", ToString(dtype)),
        fmt::format("{}, as the tensor has", ToString(tensor.dtype)));
  }
  tensor.has_dtype = true;
  tensor.dtype = dtype;
  return Value();
}

VmReader::Value VmReader::RefuseInput(const VmInput& input, const char* what) {
  return Refuse(
      fmt::format("input {}, which is {}", Shortened(input.name), what),
      "a graph's inputs are tensors");
}

VmReader::Result VmReader::CheckShapeInfo(const Call& call) {
  if (const VmInput* const input = InputOf(call.args[0])) {
    return RefuseInput(*input, "a shape");
  }
  NODEWISE_RETURN_IF_ERROR(DimsOf(call, 0).status());
  return Value();
}

// A number that the function computes itself needs no check.
VmReader::Result VmReader::CheckNumberInfo(const Call& call) {
  if (const VmInput* const input = InputOf(call.args[0])) {
    return RefuseInput(*input, "a number");
  }
  return Value();
}

// What was read as a tensor before cannot be a tuple now.
VmReader::Result VmReader::ReinterpretAsTuple(VmInput* input) {
  const VmTensor& tensor = program_.tensors[input->tensor];
  if (tensor.has_shape || tensor.has_dtype || tensor.is_used) {
    return BadBytecode("a tensor", "a tuple");
  }
  input->is_tuple = true;
  input->checked_at = at_;
  return Value();
}

VmReader::Result VmReader::CheckTupleInfo(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t size, IntOf(call, 1));
  if (VmInput* const input = InputOf(call.args[0]))
    return ReinterpretAsTuple(input);
  NODEWISE_ASSIGN_OR_RETURN(const auto* const items, TupleOf(call, 0));
  if (size == static_cast<int64_t>(items->size())) return Value();
  return BadBytecode(fmt::format("a check for a tuple of {}", size),
                     fmt::format("{}, as it has", items->size()));
}

// Checks one dimension against its code and number, or learns it: below 0 it is
// not known yet. What the bytecode says takes precedence over `given`. A
// dimension may stay open, as it may never be needed. Each use of it then is
// unknown, too.
absl::Status VmReader::MatchDim(const Call& call, size_t place, Heap* heap,
                                int64_t given, int64_t* dim) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t code, IntOf(call, place));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t number, IntOf(call, place + 1));
  if (*dim < 0 && (code == kStore || code == kIgnore)) *dim = given;
  int64_t wanted = *dim;
  if (code == kStore || code == kEqualsSlot) {
    NODEWISE_RETURN_IF_ERROR(CheckSlot(heap, number));
  }
  if (code == kStore) {
    has_open_dims_ = has_open_dims_ || *dim < 0;
    if (*dim >= 0) heap->slots[number] = *dim;
    return absl::OkStatus();
  }
  if (code == kEqualsNumber) {
    wanted = number;
  } else if (code == kEqualsSlot) {
    const auto slot = heap->slots.find(number);
    if (slot != heap->slots.end()) wanted = slot->second;
  } else if (code != kIgnore) {
    return BadBytecode(fmt::format("dimension code {}", code), "0 to 3");
  }
  if (*dim < 0) *dim = wanted;
  if (*dim == wanted) return absl::OkStatus();
  return BadBytecode(fmt::format("a check for dimension {}", wanted),
                     fmt::format("{}, as the tensor has", *dim));
}

// (tensor or shape, heap, rank, then a code and a number for each dimension)
VmReader::Result VmReader::MatchShape(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(Heap* const heap, HeapOf(call, 1));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t rank, IntOf(call, 2));
  if (rank < 0 || static_cast<uint64_t>(rank) > (call.args.size() - 3) / 2) {
    return BadBytecode(
        fmt::format("{} arguments for a rank of {}", call.args.size(), rank),
        "two for each dimension");
  }
  Dims* dims = nullptr;
  Dims copy;
  const VmInputType* given = nullptr;
  if (Is(call, 0, Kind::kTensor)) {
    NODEWISE_ASSIGN_OR_RETURN(const uint32_t tensor, TensorOf(call, 0));
    if (VmInput* const input = InputOf(call.args[0])) {
      NODEWISE_RETURN_IF_ERROR(LearnShape(input, static_cast<size_t>(rank)));
      given = GivenFor(*input);
    }
    dims = &program_.tensors[tensor].shape;
  } else {
    NODEWISE_ASSIGN_OR_RETURN(copy, DimsOf(call, 0));
    dims = &copy;
  }
  NODEWISE_RETURN_IF_ERROR(CheckRank(*dims, rank));
  for (size_t d = 0; d < dims->size(); ++d) {
    const int64_t open = given == nullptr ? -1 : given->shape[d];
    NODEWISE_RETURN_IF_ERROR(
        MatchDim(call, 3 + 2 * d, heap, open, &(*dims)[d]));
  }
  return Value();
}

// A binding gives shapes and no numbers, so the number itself stands in for
// what would be given.
VmReader::Result VmReader::MatchNumber(const Call& call) {
  if (InputOf(call.args[0]) != nullptr) return CheckNumberInfo(call);
  NODEWISE_ASSIGN_OR_RETURN(int64_t number, IntOf(call, 0));
  NODEWISE_ASSIGN_OR_RETURN(Heap* const heap, HeapOf(call, 1));
  NODEWISE_RETURN_IF_ERROR(MatchDim(call, 2, heap, number, &number));
  return Value();
}

// (heap, rank, then a code and a number for each dimension)
VmReader::Result VmReader::MakeShape(const Call& call) {
  NODEWISE_RETURN_IF_ERROR(HeapOf(call, 0).status());
  NODEWISE_ASSIGN_OR_RETURN(const int64_t rank, IntOf(call, 1));
  if (rank < 0 || static_cast<uint64_t>(rank) != (call.args.size() - 2) / 2 ||
      static_cast<uint64_t>(rank) > kMostDims) {
    return BadBytecode(
        fmt::format("{} arguments for a rank of {}", call.args.size(), rank),
        fmt::format("two for each of at most {} dimensions", kMostDims));
  }
  Dims dims;
  bool is_known = true;
  for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
    const Call number{
        call.name, {call.args[0], call.args[2 + 2 * d], call.args[3 + 2 * d]}};
    NODEWISE_ASSIGN_OR_RETURN(const Value made, MakeNumber(number));
    is_known = is_known && made.kind == Kind::kInt;
    dims.push_back(made.number);
  }
  if (!is_known) return Value{Kind::kUnknown};
  return Keep(Kind::kShape, std::move(dims), &shapes_);
}

// (heap, code, number or slot)
VmReader::Result VmReader::MakeNumber(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(Heap* const heap, HeapOf(call, 0));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t code, IntOf(call, 1));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t number, IntOf(call, 2));
  if (code == kUseNumber) return Value{Kind::kInt, number};
  if (code != kLoad) {
    return BadBytecode(fmt::format("dimension code {}", code), "0 or 1");
  }
  NODEWISE_RETURN_IF_ERROR(CheckSlot(heap, number));
  const auto slot = heap->slots.find(number);
  // The instruction that left the slot open has been refused, or will be.
  if (slot == heap->slots.end()) return Value{Kind::kUnknown};
  return Value{Kind::kInt, slot->second};
}

// The compiler makes a kernel of arithmetic on dimensions. It is run once,
// here, on the numbers of this binding; all of them must be known, or it would
// compute with what is not there.
VmReader::Result VmReader::ComputeDims(const Call& call) {
  if (binding_.compute == nullptr || has_open_dims_) {
    return Refuse(fmt::format("a call of {}, which computes dimensions",
                              Shortened(call.name)),
                  "known at run time only: give the inputs");
  }
  Heap& heap = heaps_[call.args[0].index()];
  if (heap.size > kMostComputed) {
    return BadBytecode(fmt::format("a heap of {} places", heap.size),
                       fmt::format("at most {}", kMostComputed));
  }
  // An impossible dimension, which shows what the kernel does not write.
  constexpr int64_t kOpen = std::numeric_limits<int64_t>::min();
  std::vector<int64_t> numbers(static_cast<size_t>(heap.size), kOpen);
  for (const auto& [slot, number] : heap.slots) {
    numbers[static_cast<size_t>(slot)] = number;
  }
  NODEWISE_RETURN_IF_ERROR(
      At(Place(), binding_.compute(call.name, absl::MakeSpan(numbers))));
  for (size_t slot = 0; slot < numbers.size(); ++slot) {
    if (numbers[slot] == kOpen) continue;
    heap.slots[static_cast<int64_t>(slot)] = numbers[slot];
  }
  return Value();
}

// A heap of any size costs nothing, since no memory is taken for it.
VmReader::Result VmReader::AllocShapeHeap(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t size, IntOf(call, 1));
  if (size < 0) {
    return BadBytecode(fmt::format("a heap of {}", size),
                       "none or more places");
  }
  return Keep(Kind::kHeap, Heap{size, {}}, &heaps_);
}

}  // namespace nodewise
