#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "nodewise/func/prepared_call.h"
#include "nodewise/vm/vm_graph.h"

namespace nodewise {

// What a straight-line VM function does, once registers, tuples and shapes are
// resolved. Tensors, inputs and storages are referred to by number.

struct VmTensor {
  enum class Origin {
    kInput,     // source: an input
    kConstant,  // source: a constant of the executable
    kStorage,   // source: a storage
    kView,      // source: a tensor; the same memory under another shape
  };
  Origin origin = Origin::kStorage;
  uint32_t source = 0;
  // For an input, these are learnt from its checks.
  bool has_shape = false;
  bool has_dtype = false;
  std::vector<int64_t> shape;  // Below 0: known only at run time.
  DLDataType dtype{};
  uint64_t offset = 0;      // Its place in the storage.
  bool is_written = false;  // It has contents, initial or from a kernel.
  bool is_used = false;     // Whether a kernel reads it, or it is returned.

  bool HasOpenDims() const {
    return std::ranges::any_of(shape, [](int64_t dim) { return dim < 0; });
  }
};

struct VmInput {
  std::string name;
  uint32_t tensor = 0;
  int64_t rank = -1;        // Below 0: not known.
  int64_t checked_at = -1;  // The instruction that checks it.
  uint32_t depth = 0;       // How many tuples it is in.
  bool is_tuple = false;
  std::map<int64_t, uint32_t> items;  // A tuple's items, which are inputs.
};

struct VmStorage {
  uint64_t bytes = 0;
};

// A kernel's call, or a change of shape where `function` is empty.
struct VmCall {
  std::string_view function;
  std::vector<uint32_t> inputs;  // Tensors.
  std::vector<uint32_t> outputs;
  std::vector<CallNumber> numbers;  // The numbers among its arguments.
};

struct VmProgram {
  std::vector<VmTensor> tensors;
  std::vector<VmInput> inputs;
  std::vector<uint32_t> parameters;  // The function's own inputs, in order.
  std::vector<VmStorage> storages;
  std::vector<VmCall> calls;
  std::vector<uint32_t> heads;  // Tensors.
};

// Follows the instructions of one function, keeping what is known of each
// register: the values of numbers, shapes and tuples, descriptions of tensors.
class VmReader {
 public:
  // All arguments must outlive the reader.
  VmReader(const VmLibrary& library, const VmFunction& function,
           const VmBinding& binding, DiagnosticList* reasons)
      : library_(library),
        executable_(library.executable),
        function_(function),
        binding_(binding),
        reasons_(reasons) {}

  // Fails with kDataLoss if the bytecode cannot be valid. `reasons` gets all
  // that a graph cannot express; the program is complete only if there is none.
  absl::Status Read();
  const VmProgram& program() const { return program_; }

 private:
  // What a register holds.
  struct Value {
    enum class Kind {
      kNone,      // TVM's None.
      kUnknown,   // Depends on what was refused; never refused again.
      kMachine,   // The VM itself.
      kInt,       // number
      kConstant,  // number: of a constant that is neither a tensor nor an int
      kFunction,  // number: of a function
      kTensor,    // number: in the program
      kStorage,   // number: in the program
      kShape,     // number: in shapes_
      kTuple,     // number: in tuples_
      kHeap,      // number: in heaps_
    };
    Kind kind = Kind::kNone;
    int64_t number = 0;

    // REQUIRES: the kind is one whose number is a place in a list.
    size_t index() const { return static_cast<size_t>(number); }
  };
  using Kind = Value::Kind;
  using Result = absl::StatusOr<Value>;
  using Dims = std::vector<int64_t>;
  // Code from TVM has a handful; each costs memory for every tensor.
  static constexpr size_t kMostDims = 32;

  // Numbers that are computed from shapes; `slots` has those that are known.
  struct Heap {
    int64_t size = 0;
    std::unordered_map<int64_t, int64_t> slots;
  };

  // A call with its arguments read.
  struct Call {
    std::string_view name;
    std::vector<Value> args;
  };

  // How a function of TVM's runtime is read; `method` is null for one that a
  // graph cannot express, and `reason` says why.
  struct BuiltinRow {
    std::string_view name;
    size_t least_args;
    size_t most_args;
    Result (VmReader::*method)(const Call& call);
    std::string_view reason = "";
  };
  static const BuiltinRow kBuiltins[];
  static const BuiltinRow* FindBuiltin(std::string_view name);

  // vm_reader.cc
  absl::Status AddParameters();
  absl::Status ReadInstruction();
  absl::Status ReadCall(const VmInstruction& instruction);
  // Checks only the callee of a call after a branch, where registers are
  // unknown.
  void ListCall(const VmInstruction& instruction);
  Result Evaluate(const Call& call, const VmFunction& callee);
  Result CallKernel(const Call& call);
  std::optional<uint32_t> KernelInput(const Call& call, size_t index);
  void Return(const Value& value);
  void CheckInputs();
  Result ValueOf(const VmArgument& argument);
  Result Register(int64_t number) const;
  absl::Status SetRegister(int64_t number, const Value& value);
  uint32_t ConstantTensor(int64_t constant);
  void CheckMemoryOf(int64_t constant);
  uint32_t AddTensor(VmTensor tensor);
  uint32_t AddInput(std::string name, uint32_t depth);

  // Keeps an item in a list, and returns the value that means it.
  template <typename T>
  static Value Keep(Value::Kind kind, T item, std::vector<T>* list) {
    list->push_back(std::move(item));
    return {kind, static_cast<int64_t>(list->size() - 1)};
  }
  // Returns the constant that a value is, or null if it is none of this type.
  template <typename T>
  const T* ConstantOf(const Value& value) const {
    if (value.kind != Kind::kConstant) return nullptr;
    return std::get_if<T>(&executable_.constants[value.index()]);
  }
  static bool IsGlobal(std::string_view scope) {
    return scope.empty() || scope == "global";
  }
  std::string Place() const;
  absl::Status BadBytecode(std::string_view found,
                           std::string_view expected) const;
  absl::Status WrongArgument(const Call& call, size_t index,
                             std::string_view expected) const;
  // Adds a reason and returns an unknown value.
  Value Refuse(std::string found, std::string_view hint = "");
  std::string Describe(const Value& value) const;
  static bool Is(const Call& call, size_t index, Kind kind) {
    return call.args[index].kind == kind;
  }
  // Returns the input that a value is, or null.
  const VmInput* InputOf(const Value& value) const;
  VmInput* InputOf(const Value& value) {
    return const_cast<VmInput*>(std::as_const(*this).InputOf(value));
  }
  bool IsTupleInput(const Value& value) const;

  // vm_builtins.cc: checks and shapes, then the other functions.
  absl::StatusOr<int64_t> IntOf(const Call& call, size_t index) const;
  absl::StatusOr<Dims> DimsOf(const Call& call, size_t index) const;
  absl::StatusOr<const DLDataType*> DTypeOf(const Call& call,
                                            size_t index) const;
  absl::StatusOr<uint32_t> TensorOf(const Call& call, size_t index) const;
  absl::StatusOr<std::vector<Value>*> TupleOf(const Call& call, size_t index);
  // Returns the heap, or null where the call has None.
  absl::StatusOr<Heap*> HeapOf(const Call& call, size_t index);
  absl::Status CheckSlot(const Heap* heap, int64_t slot) const;
  // Returns what the binding gives for an input, if it has its rank, or null.
  const VmInputType* GivenFor(const VmInput& input) const;
  absl::Status LearnShape(VmInput* input, size_t rank);
  absl::Status MatchDim(const Call& call, size_t place, Heap* heap,
                        int64_t given, int64_t* dim);
  Result ReinterpretAsTuple(VmInput* input);
  Result CheckTensorInfo(const Call& call);
  absl::Status CheckRank(const Dims& dims, int64_t rank) const;
  Value RefuseInput(const VmInput& input, const char* what);
  Result CheckShapeInfo(const Call& call);
  Result CheckNumberInfo(const Call& call);
  Result CheckTupleInfo(const Call& call);
  Result MatchShape(const Call& call);
  Result MatchNumber(const Call& call);
  Result MakeShape(const Call& call);
  Result MakeNumber(const Call& call);
  Result AllocShapeHeap(const Call& call);
  // Runs a kernel that reads and writes the heap.
  Result ComputeDims(const Call& call);

  absl::StatusOr<uint32_t> ItemOf(VmInput* tuple, int64_t item);
  absl::StatusOr<Dims> ShapeArgument(const Call& call, size_t index,
                                     DLDataType dtype, uint64_t* bytes) const;
  Result Nothing(const Call& call);
  Result First(const Call& call);
  Result AllocStorage(const Call& call);
  Result AllocTensor(const Call& call);
  Result Reshape(const Call& call);
  Result ShapeOfTensor(const Call& call);
  Result MakeTuple(const Call& call);
  Result TupleItem(const Call& call);
  Result TupleResetItem(const Call& call);
  Result CallWithDims(const Call& call);

  const VmLibrary& library_;
  const VmExecutable& executable_;
  const VmFunction& function_;
  const VmBinding& binding_;
  DiagnosticList* reasons_;
  // The instruction that is being read, which messages name; below 0: none.
  int64_t at_ = -1;
  VmProgram program_;
  std::unordered_map<int64_t, Value> registers_;
  std::unordered_map<int64_t, uint32_t> constant_tensors_;
  std::vector<Dims> shapes_;
  std::vector<std::vector<Value>> tuples_;
  std::vector<Heap> heaps_;
  bool has_open_dims_ = false;  // Some dimensions of the heap are open.
  bool is_straight_ = true;
  bool has_returned_ = false;
};

}  // namespace nodewise
