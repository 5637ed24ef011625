// Checks and shapes: what bytecode knows of its inputs and computes with
// dimensions.

#include <algorithm>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status_macros.h"
#include "runtime/vm/vm_reader.h"

namespace nodewise {
namespace {

// The codes of match_shape and of make_shape.
enum MatchCode : int64_t {
  kEqualsNumber = 0,
  kStore = 1,
  kIgnore = 2,
  kEqualsSlot = 3
};
enum MakeCode : int64_t { kUseNumber = 0, kLoad = 1 };

// The maximum size of a heap that compiled code works on.
constexpr int64_t kMostComputed = 65536;

}  // namespace

absl::StatusOr<int64_t> VmReader::IntOf(const Call& call, size_t index) const {
  if (Is(call, index, Value::Kind::kInt)) return call.args[index].number;
  return BadBytecode(call.instruction,
                     fmt::format("argument {} of {}, which is {}", index,
                                 call.name, Describe(call.args[index])),
                     "a number");
}

absl::StatusOr<VmReader::Dims> VmReader::DimsOf(const Call& call,
                                                size_t index) const {
  const Value& value = call.args[index];
  if (value.kind == Value::Kind::kShape) {
    return shapes_[static_cast<size_t>(value.number)];
  }
  const VmShape* shape = nullptr;
  if (value.kind == Value::Kind::kConstant) {
    shape = std::get_if<VmShape>(
        &executable_.constants[static_cast<size_t>(value.number)]);
  }
  if (shape == nullptr) {
    return BadBytecode(call.instruction,
                       fmt::format("argument {} of {}, which is {}", index,
                                   call.name, Describe(value)),
                       "a shape");
  }
  if (shape->dims.size() <= kMostDims) return shape->dims;
  return BadBytecode(
      call.instruction,
      fmt::format("a shape of {} dimensions", shape->dims.size()),
      fmt::format("at most {}", kMostDims));
}

absl::StatusOr<const DLDataType*> VmReader::DTypeOf(const Call& call,
                                                    size_t index) const {
  const Value& value = call.args[index];
  const DLDataType* dtype = nullptr;
  if (value.kind == Value::Kind::kConstant) {
    dtype = std::get_if<DLDataType>(
        &executable_.constants[static_cast<size_t>(value.number)]);
  }
  if (dtype != nullptr) return dtype;
  return BadBytecode(call.instruction,
                     fmt::format("argument {} of {}, which is {}", index,
                                 call.name, Describe(value)),
                     "a type");
}

absl::StatusOr<uint32_t> VmReader::TensorOf(const Call& call,
                                            size_t index) const {
  const Value& value = call.args[index];
  if (value.kind == Value::Kind::kTensor && !IsTupleInput(value)) {
    return static_cast<uint32_t>(value.number);
  }
  return BadBytecode(call.instruction,
                     fmt::format("argument {} of {}, which is {}", index,
                                 call.name, Describe(value)),
                     "a tensor");
}

absl::StatusOr<uint32_t> VmReader::TupleOf(const Call& call,
                                           size_t index) const {
  const Value& value = call.args[index];
  if (value.kind == Value::Kind::kTuple) {
    return static_cast<uint32_t>(value.number);
  }
  return BadBytecode(call.instruction,
                     fmt::format("argument {} of {}, which is {}", index,
                                 call.name, Describe(value)),
                     "a tuple");
}

absl::StatusOr<VmReader::Heap*> VmReader::HeapOf(const Call& call,
                                                 size_t index) {
  const Value& value = call.args[index];
  if (value.kind == Value::Kind::kNone) return nullptr;
  if (value.kind == Value::Kind::kHeap) {
    return &heaps_[static_cast<size_t>(value.number)];
  }
  return BadBytecode(call.instruction,
                     fmt::format("argument {} of {}, which is {}", index,
                                 call.name, Describe(value)),
                     "the heap of computed dimensions");
}

absl::Status VmReader::CheckSlot(const Call& call, const Heap* heap,
                                 int64_t slot) const {
  const int64_t size = heap == nullptr ? 0 : heap->size;
  if (slot >= 0 && slot < size) return absl::OkStatus();
  return BadBytecode(call.instruction,
                     fmt::format("place {} of the heap", slot),
                     fmt::format("one of the {}", size));
}

const VmInputType* VmReader::GivenFor(const VmInput& input) const {
  const VmTensor& tensor = program_.tensors[input.tensor];
  for (const VmInputType& given : binding_.inputs) {
    if (given.name != input.name) continue;
    return given.shape.size() == tensor.shape.size() ? &given : nullptr;
  }
  return nullptr;
}

// Gives an input that nothing is known of yet a shape with all dimensions open.
absl::Status VmReader::LearnShape(const Call& call, VmInput* input,
                                  size_t rank) {
  input->checked_at = call.instruction;
  VmTensor& tensor = program_.tensors[input->tensor];
  if (tensor.has_shape) return absl::OkStatus();
  if (rank > kMostDims) {
    return BadBytecode(call.instruction, fmt::format("a rank of {}", rank),
                       fmt::format("at most {}", kMostDims));
  }
  tensor.has_shape = true;
  tensor.shape.assign(rank, -1);
  return absl::OkStatus();
}

absl::StatusOr<VmReader::Value> VmReader::CheckTensorInfo(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t number, TensorOf(call, 0));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t rank, IntOf(call, 1));
  if (VmInput* input = InputOf(call.args[0]); input != nullptr) {
    input->checked_at = call.instruction;
    if (rank >= 0) {
      NODEWISE_RETURN_IF_ERROR(
          LearnShape(call, input, static_cast<size_t>(rank)));
    }
  }
  VmTensor& tensor = program_.tensors[number];
  if (tensor.has_shape && rank != -1 &&
      rank != static_cast<int64_t>(tensor.shape.size())) {
    return BadBytecode(
        call.instruction, fmt::format("a check for {} dimensions", rank),
        fmt::format("{}, as the tensor has", tensor.shape.size()));
  }
  if (call.args.size() == 3 || Is(call, 2, Value::Kind::kNone)) return Value();
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType* named, DTypeOf(call, 2));
  if (named->bits == 0) return Value();  // "void": any type.
  const DLDataType dtype = VmDType(*named, executable_.era);
  if (tensor.has_dtype && !(tensor.dtype == dtype)) {
    return BadBytecode(
        call.instruction, fmt::format("a check for {}", ToString(dtype)),
        fmt::format("{}, as the tensor has", ToString(tensor.dtype)));
  }
  tensor.has_dtype = true;
  tensor.dtype = dtype;
  return Value();
}

absl::StatusOr<VmReader::Value> VmReader::CheckShapeInfo(const Call& call) {
  if (const VmInput* input = InputOf(call.args[0]); input != nullptr) {
    return Refuse(
        call.instruction,
        fmt::format("input {}, which is a shape", Shortened(input->name)),
        "a graph's inputs are tensors");
  }
  NODEWISE_RETURN_IF_ERROR(DimsOf(call, 0).status());
  return Value();
}

absl::StatusOr<VmReader::Value> VmReader::CheckNumberInfo(const Call& call) {
  if (const VmInput* input = InputOf(call.args[0]); input != nullptr) {
    return Refuse(
        call.instruction,
        fmt::format("input {}, which is a number", Shortened(input->name)),
        "a graph's inputs are tensors");
  }
  return Value();
}

absl::StatusOr<VmReader::Value> VmReader::BecomeTuple(const Call& call,
                                                      VmInput* input) {
  const VmTensor& tensor = program_.tensors[input->tensor];
  if (tensor.has_shape || tensor.has_dtype || tensor.is_used) {
    return BadBytecode(call.instruction, "a tensor", "a tuple");
  }
  input->is_tuple = true;
  input->checked_at = call.instruction;
  return Value();
}

absl::StatusOr<VmReader::Value> VmReader::CheckTupleInfo(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t size, IntOf(call, 1));
  if (VmInput* input = InputOf(call.args[0]); input != nullptr) {
    return BecomeTuple(call, input);
  }
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t tuple, TupleOf(call, 0));
  const size_t items = tuples_[tuple].size();
  if (size == static_cast<int64_t>(items)) return Value();
  return BadBytecode(call.instruction,
                     fmt::format("a check for a tuple of {}", size),
                     fmt::format("{}, as it has", items));
}

// Checks one dimension against its code and number, or learns it: below 0 it is
// not known yet. What the bytecode says takes precedence over `given`.
absl::Status VmReader::MatchDim(const Call& call, size_t place, Heap* heap,
                                int64_t given, int64_t* dim) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t code, IntOf(call, place));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t number, IntOf(call, place + 1));
  if (*dim < 0 && (code == kStore || code == kIgnore)) *dim = given;
  int64_t wanted = *dim;
  if (code == kStore || code == kEqualsSlot) {
    NODEWISE_RETURN_IF_ERROR(CheckSlot(call, heap, number));
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
    return BadBytecode(call.instruction, fmt::format("dimension code {}", code),
                       "0 to 3");
  }
  if (*dim < 0) *dim = wanted;
  if (*dim == wanted) return absl::OkStatus();
  return BadBytecode(call.instruction,
                     fmt::format("a check for dimension {}", wanted),
                     fmt::format("{}, as the tensor has", *dim));
}

absl::StatusOr<VmReader::Value> VmReader::MatchShape(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(Heap* const heap, HeapOf(call, 1));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t rank, IntOf(call, 2));
  if (rank < 0 || static_cast<uint64_t>(rank) > (call.args.size() - 3) / 2) {
    return BadBytecode(
        call.instruction,
        fmt::format("{} arguments for a rank of {}", call.args.size(), rank),
        "two for each dimension");
  }
  Dims* dims = nullptr;
  Dims copy;
  const VmInputType* given = nullptr;
  if (Is(call, 0, Value::Kind::kTensor)) {
    NODEWISE_ASSIGN_OR_RETURN(const uint32_t tensor, TensorOf(call, 0));
    if (VmInput* input = InputOf(call.args[0]); input != nullptr) {
      NODEWISE_RETURN_IF_ERROR(
          LearnShape(call, input, static_cast<size_t>(rank)));
      given = GivenFor(*input);
    }
    dims = &program_.tensors[tensor].shape;
  } else {
    NODEWISE_ASSIGN_OR_RETURN(copy, DimsOf(call, 0));
    dims = &copy;
  }
  if (static_cast<int64_t>(dims->size()) != rank) {
    return BadBytecode(call.instruction,
                       fmt::format("a check for {} dimensions", rank),
                       fmt::format("{}, as the tensor has", dims->size()));
  }
  for (size_t d = 0; d < dims->size(); ++d) {
    const int64_t open = given == nullptr ? -1 : given->shape[d];
    NODEWISE_RETURN_IF_ERROR(
        MatchDim(call, 3 + 2 * d, heap, open, &(*dims)[d]));
  }
  return Value();
}

absl::StatusOr<VmReader::Value> VmReader::MatchNumber(const Call& call) {
  if (const VmInput* input = InputOf(call.args[0]); input != nullptr) {
    return CheckNumberInfo(call);
  }
  NODEWISE_ASSIGN_OR_RETURN(int64_t number, IntOf(call, 0));
  NODEWISE_ASSIGN_OR_RETURN(Heap* const heap, HeapOf(call, 1));
  NODEWISE_RETURN_IF_ERROR(MatchDim(call, 2, heap, number, &number));
  return Value();
}

absl::StatusOr<VmReader::Value> VmReader::MakeShape(const Call& call) {
  NODEWISE_RETURN_IF_ERROR(HeapOf(call, 0).status());
  NODEWISE_ASSIGN_OR_RETURN(const int64_t rank, IntOf(call, 1));
  if (rank < 0 || static_cast<uint64_t>(rank) != (call.args.size() - 2) / 2 ||
      static_cast<uint64_t>(rank) > kMostDims) {
    return BadBytecode(
        call.instruction,
        fmt::format("{} arguments for a rank of {}", call.args.size(), rank),
        fmt::format("two for each of at most {} dimensions", kMostDims));
  }
  Dims dims;
  bool is_known = true;
  for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
    Call number{call.instruction,
                call.name,
                {call.args[0], call.args[2 + 2 * d], call.args[3 + 2 * d]}};
    NODEWISE_ASSIGN_OR_RETURN(const Value made, MakeNumber(number));
    is_known = is_known && made.kind == Value::Kind::kInt;
    dims.push_back(made.number);
  }
  if (!is_known) return Value{Value::Kind::kUnknown};
  shapes_.push_back(std::move(dims));
  return Value{Value::Kind::kShape, static_cast<int64_t>(shapes_.size() - 1)};
}

absl::StatusOr<VmReader::Value> VmReader::MakeNumber(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(Heap* const heap, HeapOf(call, 0));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t code, IntOf(call, 1));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t number, IntOf(call, 2));
  if (code == kUseNumber) return Value{Value::Kind::kInt, number};
  if (code != kLoad) {
    return BadBytecode(call.instruction, fmt::format("dimension code {}", code),
                       "0 or 1");
  }
  NODEWISE_RETURN_IF_ERROR(CheckSlot(call, heap, number));
  const auto slot = heap->slots.find(number);
  // The instruction that left it open has been refused, or will be.
  if (slot == heap->slots.end()) return Value{Value::Kind::kUnknown};
  return Value{Value::Kind::kInt, slot->second};
}

absl::StatusOr<VmReader::Value> VmReader::ComputeDims(const Call& call) {
  if (binding_.compute == nullptr || has_open_dims_) {
    return Refuse(call.instruction,
                  fmt::format("a call of {}, which computes dimensions",
                              Shortened(call.name)),
                  "known at run time only: give the inputs");
  }
  Heap& heap = heaps_[static_cast<size_t>(call.args[0].number)];
  if (heap.size > kMostComputed) {
    return BadBytecode(call.instruction,
                       fmt::format("a heap of {} places", heap.size),
                       fmt::format("at most {}", kMostComputed));
  }
  // An impossible dimension, which shows what the kernel does not write.
  constexpr int64_t kOpen = std::numeric_limits<int64_t>::min();
  std::vector<int64_t> numbers(static_cast<size_t>(heap.size), kOpen);
  for (const auto& [slot, number] : heap.slots) {
    numbers[static_cast<size_t>(slot)] = number;
  }
  NODEWISE_RETURN_IF_ERROR(
      At(Place(call.instruction),
         binding_.compute(call.name, absl::MakeSpan(numbers))));
  for (size_t slot = 0; slot < numbers.size(); ++slot) {
    if (numbers[slot] == kOpen) continue;
    heap.slots[static_cast<int64_t>(slot)] = numbers[slot];
  }
  return Value();
}

absl::StatusOr<VmReader::Value> VmReader::AllocShapeHeap(const Call& call) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t size, IntOf(call, 1));
  if (size < 0) {
    return BadBytecode(call.instruction, fmt::format("a heap of {}", size),
                       "none or more places");
  }
  heaps_.push_back({size, {}});
  return Value{Value::Kind::kHeap, static_cast<int64_t>(heaps_.size() - 1)};
}

}  // namespace nodewise
