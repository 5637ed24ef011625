#include "runtime/vm/vm_reader.h"

#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The limit for a function whose table entry names no parameters; nothing else
// bounds it.
constexpr int64_t kMostUnnamedArgs = 4096;
// Tuples may hold themselves many times over.
constexpr size_t kMostResults = 65536;
constexpr std::string_view kBuiltinPrefix = "vm.builtin.";

}  // namespace

// The reader runs the function in its mind: registers hold what is known of
// their values, and each call either computes such a value or becomes a node. A
// value that depends on what was refused is unknown, and nothing that gets it
// is refused again, so that the user sees causes only.
absl::Status VmReader::Read() {
  if (function_.kind != VmFunction::Kind::kBytecode) {
    Refuse("a function that is compiled and has no bytecode",
           "compile with exec_mode=\"bytecode\"");
    return absl::OkStatus();
  }
  NODEWISE_RETURN_IF_ERROR(AddParameters());
  for (at_ = function_.first; at_ < function_.end && !has_returned_; ++at_) {
    NODEWISE_RETURN_IF_ERROR(ReadInstruction());
  }
  if (!is_straight_) return absl::OkStatus();
  if (!has_returned_) {
    at_ = function_.end - 1;
    return BadBytecode("the last instruction", "one that returns");
  }
  CheckInputs();
  return absl::OkStatus();
}

// Until a check says otherwise, each argument is taken for a tensor.
absl::Status VmReader::AddParameters() {
  if (function_.params.empty() && function_.num_args > kMostUnnamedArgs) {
    return BadBytecode(
        fmt::format("{} arguments", function_.num_args),
        fmt::format("at most {} without names", kMostUnnamedArgs));
  }
  for (int64_t i = 0; i < function_.num_args; ++i) {
    const std::string name =
        function_.params.empty()
            ? fmt::format("input_{}", i)
            : std::string(function_.params[static_cast<size_t>(i)]);
    const uint32_t input = AddInput(name, 0);
    program_.parameters.push_back(input);
    registers_[i] = {Kind::kTensor, program_.inputs[input].tensor};
  }
  return absl::OkStatus();
}

// After a branch no register is known any more. The rest is only looked through
// for what else a graph could not express.
absl::Status VmReader::ReadInstruction() {
  const auto decoded = DecodeVmInstruction(executable_, at_);
  if (!decoded.ok()) {
    return At(fmt::format("{}: {}", executable_.where, Place()),
              decoded.status());
  }
  switch (decoded->opcode) {
    case VmInstruction::Opcode::kCall:
      if (is_straight_) return ReadCall(*decoded);
      ListCall(*decoded);
      return absl::OkStatus();
    case VmInstruction::Opcode::kReturn: {
      if (!is_straight_) return absl::OkStatus();
      NODEWISE_ASSIGN_OR_RETURN(const Value value, Register(decoded->target));
      Return(value);
      return absl::OkStatus();
    }
    case VmInstruction::Opcode::kGoto:
    case VmInstruction::Opcode::kIf:
      break;
  }
  Refuse(decoded->opcode == VmInstruction::Opcode::kIf
             ? "a branch on a value that is computed"
             : "a jump");
  is_straight_ = false;
  return absl::OkStatus();
}

// Arguments are read in their order, since reading a constant may add a tensor.
absl::Status VmReader::ReadCall(const VmInstruction& instruction) {
  const VmFunction& callee =
      executable_.functions[static_cast<size_t>(instruction.function)];
  Call call{callee.name, {}};
  call.args.reserve(instruction.args.size());
  for (const VmArgument& argument : instruction.args) {
    NODEWISE_ASSIGN_OR_RETURN(call.args.emplace_back(), ValueOf(argument));
  }
  NODEWISE_ASSIGN_OR_RETURN(const Value result, Evaluate(call, callee));
  return SetRegister(instruction.target, result);
}

// After a branch the arguments are not known, so nothing is said of a callee
// that a graph could call.
void VmReader::ListCall(const VmInstruction& instruction) {
  const VmFunction& callee =
      executable_.functions[static_cast<size_t>(instruction.function)];
  const BuiltinRow* row = FindBuiltin(callee.name);
  const bool is_fine = callee.kind == VmFunction::Kind::kPacked &&
                       (row == nullptr ? library_.HasKernel(callee.name)
                                       : row->method != nullptr);
  if (is_fine) return;
  Refuse(fmt::format("a call of {}", Shortened(callee.name)),
         row == nullptr ? "" : row->reason);
}

// A tuple may hold unknown values, and a kernel reports its unknown arguments
// itself; all other functions need known ones.
VmReader::Result VmReader::Evaluate(const Call& call,
                                    const VmFunction& callee) {
  if (callee.kind != VmFunction::Kind::kPacked) {
    return Refuse(
        fmt::format("a call of the VM function {}", Shortened(call.name)));
  }
  const BuiltinRow* row = FindBuiltin(call.name);
  if (row == nullptr && !call.name.starts_with(kBuiltinPrefix)) {
    return CallKernel(call);
  }
  if (row == nullptr || row->method == nullptr) {
    return Refuse(fmt::format("a call of {}", Shortened(call.name)),
                  row == nullptr ? "" : row->reason);
  }
  if (call.args.size() < row->least_args || call.args.size() > row->most_args) {
    return BadBytecode(
        fmt::format("{} arguments for {}", call.args.size(), call.name),
        fmt::format("{}{}", row->most_args > row->least_args ? "at least " : "",
                    row->least_args));
  }
  const bool may_be_unknown = row->method == &VmReader::MakeTuple ||
                              row->method == &VmReader::CallWithDims;
  if (!may_be_unknown &&
      std::ranges::count(call.args, Kind::kUnknown, &Value::kind) > 0) {
    return Value{Kind::kUnknown};
  }
  return (this->*row->method)(call);
}

// Returns an argument that a node can read, or nothing once it is refused.
std::optional<uint32_t> VmReader::KernelInput(const Call& call, size_t index) {
  const Value& value = call.args[index];
  if (value.kind == Kind::kUnknown) return std::nullopt;
  const auto refuse = [&](std::string_view what) {
    Refuse(fmt::format("argument {} of {}, which is {}", index,
                       Shortened(call.name), what),
           "a graph's functions take tensors that an earlier one wrote");
    return std::nullopt;
  };
  if (value.kind != Kind::kTensor) return refuse(Describe(value));
  const auto tensor = static_cast<uint32_t>(value.number);
  if (IsTupleInput(value)) return refuse("a tuple");
  if (!program_.tensors[tensor].is_written) {
    return refuse("a tensor that nothing has written");
  }
  program_.tensors[tensor].is_used = true;
  return tensor;
}

// A kernel that gets nothing but the heap computes dimensions.
VmReader::Result VmReader::CallKernel(const Call& call) {
  if (!library_.HasKernel(call.name)) {
    return Refuse(
        fmt::format("a call of {}, which is not a kernel of the library",
                    Shortened(call.name)));
  }
  if (call.args.size() == 1 && Is(call, 0, Kind::kHeap)) {
    return ComputeDims(call);
  }
  // Kernels write to their last tensors: those that nothing has written yet.
  VmCall node{call.name, {}, {}, {}};
  size_t first_output = call.args.size();
  for (; first_output > 0; --first_output) {
    const Value& value = call.args[first_output - 1];
    if (value.kind == Kind::kInt || value.kind == Kind::kUnknown) continue;
    if (value.kind != Kind::kTensor) break;
    const auto tensor = static_cast<uint32_t>(value.number);
    if (program_.tensors[tensor].is_written) break;
    program_.tensors[tensor].is_written = true;
    node.outputs.push_back(tensor);
  }
  std::ranges::reverse(node.outputs);
  // Numbers keep their places among the arguments; the tensors fill the others.
  bool is_refused = false;
  for (size_t i = 0; i < call.args.size(); ++i) {
    if (Is(call, i, Kind::kInt)) {
      node.numbers.push_back({static_cast<uint32_t>(i), call.args[i].number});
    } else if (Is(call, i, Kind::kUnknown)) {
      is_refused = true;
    } else if (i < first_output) {
      const std::optional<uint32_t> input = KernelInput(call, i);
      is_refused = is_refused || !input.has_value();
      if (input.has_value()) node.inputs.push_back(*input);
    }
  }
  // A refused argument is reason enough.
  if (node.outputs.empty() && !is_refused) {
    return Refuse(fmt::format("a call of {} without a new tensor to write to",
                              Shortened(call.name)),
                  "it works in place, or is called for what it does");
  }
  program_.calls.push_back(std::move(node));
  return Value();
}

// The results are the tensors in the tuples, from left to right: the stack
// holds what is still to be taken apart.
void VmReader::Return(const Value& value) {
  has_returned_ = true;
  std::vector<Value> left = {value};
  for (size_t seen = 0; !left.empty(); ++seen) {
    const Value next = left.back();
    left.pop_back();
    if (seen + left.size() > kMostResults) {
      Refuse(fmt::format("more than {} results", kMostResults));
      return;
    }
    if (next.kind == Kind::kTuple) {
      const auto& items = tuples_[next.index()];
      left.insert(left.end(), items.rbegin(), items.rend());
      continue;
    }
    if (next.kind == Kind::kUnknown) continue;
    if (next.kind != Kind::kTensor || IsTupleInput(next)) {
      Refuse(fmt::format("a result that is {}", Describe(next)));
      continue;
    }
    VmTensor& tensor = program_.tensors[next.index()];
    if (!tensor.is_written) Refuse("a result that nothing has written");
    tensor.is_used = true;
    program_.heads.push_back(static_cast<uint32_t>(next.number));
  }
  if (program_.heads.empty() && !reasons_->HasErrors()) Refuse("no result");
}

// Refuses inputs that the checks at the front of the function leave unknown.
// Inputs that nothing reads may stay unknown; they are left out of the graph.
void VmReader::CheckInputs() {
  for (const VmInput& input : program_.inputs) {
    at_ = input.checked_at;
    VmTensor& tensor = program_.tensors[input.tensor];
    const VmInputType* given = GivenFor(input);
    for (size_t d = 0; given != nullptr && d < tensor.shape.size(); ++d) {
      if (tensor.shape[d] < 0) tensor.shape[d] = given->shape[d];
    }
    if (input.is_tuple || !tensor.is_used) continue;
    if (!tensor.has_shape || !tensor.has_dtype) {
      Refuse(fmt::format("input {}, whose {} is not in the bytecode",
                         Shortened(input.name),
                         tensor.has_shape ? "type" : "shape"));
      continue;
    }
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      if (tensor.shape[d] >= 0) continue;
      Refuse(
          fmt::format("input {}, whose dimension {} is known at run time only",
                      Shortened(input.name), d),
          "give the input");
    }
  }
}

// An int among the constants is read like one in the instruction itself.
VmReader::Result VmReader::ValueOf(const VmArgument& argument) {
  switch (argument.kind) {
    case VmArgument::Kind::kRegister:
      return Register(argument.value);
    case VmArgument::Kind::kImmediate:
      return Value{Kind::kInt, argument.value};
    case VmArgument::Kind::kFunction:
      return Value{Kind::kFunction, argument.value};
    case VmArgument::Kind::kConstant:
      break;
  }
  const VmConstant& constant =
      executable_.constants[static_cast<size_t>(argument.value)];
  if (const auto* number = std::get_if<int64_t>(&constant)) {
    return Value{Kind::kInt, *number};
  }
  if (std::holds_alternative<TensorRecord>(constant)) {
    return Value{Kind::kTensor, ConstantTensor(argument.value)};
  }
  return Value{Kind::kConstant, argument.value};
}

// Reading what was never written would give a number that means nothing.
VmReader::Result VmReader::Register(int64_t number) const {
  if (number == kVmVoidRegister) return Value();
  if (number == kVmContextRegister) return Value{Kind::kMachine};
  if (number < 0 || number >= function_.num_registers) {
    return BadBytecode(fmt::format("register {}", number),
                       fmt::format("one of the {}", function_.num_registers));
  }
  const auto place = registers_.find(number);
  if (place != registers_.end()) return place->second;
  return BadBytecode(
      fmt::format("register {}, which was never written", number),
      "one that was");
}

// A call whose result is not wanted writes to the void register.
absl::Status VmReader::SetRegister(int64_t number, const Value& value) {
  if (number == kVmVoidRegister) return absl::OkStatus();
  if (number < 0 || number >= function_.num_registers) {
    return BadBytecode(fmt::format("a result for register {}", number),
                       fmt::format("one of the {}", function_.num_registers));
  }
  registers_[number] = value;
  return absl::OkStatus();
}

// One tensor for all uses: each would become a parameter of the graph
// otherwise.
uint32_t VmReader::ConstantTensor(int64_t constant) {
  const auto known = constant_tensors_.find(constant);
  if (known != constant_tensors_.end()) return known->second;
  const auto& record = std::get<TensorRecord>(
      executable_.constants[static_cast<size_t>(constant)]);
  VmTensor tensor;
  tensor.origin = VmTensor::Origin::kConstant;
  tensor.source = static_cast<uint32_t>(constant);
  tensor.has_shape = tensor.has_dtype = tensor.is_written = true;
  tensor.dtype = VmDType(record.dtype, executable_.era);
  if (record.shape.size() <= kMostDims) {
    tensor.shape = record.shape;
  } else {
    Refuse(fmt::format("constant {} of {} dimensions", constant,
                       record.shape.size()));
  }
  CheckMemoryOf(constant);
  const uint32_t made = AddTensor(std::move(tensor));
  constant_tensors_.emplace(constant, made);
  return made;
}

// Other memories belong to devices that the graph executor does not have.
void VmReader::CheckMemoryOf(int64_t constant) {
  const auto& scopes = executable_.memory_scopes;
  const auto scope = std::ranges::lower_bound(
      scopes, constant, {}, &std::pair<int64_t, std::string_view>::first);
  if (scope == scopes.end() || scope->first != constant ||
      IsGlobal(scope->second)) {
    return;
  }
  Refuse(fmt::format("constant {} in memory \"{}\"", constant,
                     Shortened(scope->second)));
}

uint32_t VmReader::AddTensor(VmTensor tensor) {
  program_.tensors.push_back(std::move(tensor));
  return static_cast<uint32_t>(program_.tensors.size() - 1);
}

// An input has contents from the beginning, even while its type is not known.
uint32_t VmReader::AddInput(std::string name, uint32_t depth) {
  VmTensor tensor;
  tensor.origin = VmTensor::Origin::kInput;
  tensor.source = static_cast<uint32_t>(program_.inputs.size());
  tensor.is_written = true;
  VmInput input;
  input.name = std::move(name);
  input.tensor = AddTensor(std::move(tensor));
  input.depth = depth;
  program_.inputs.push_back(std::move(input));
  return static_cast<uint32_t>(program_.inputs.size() - 1);
}

// Returns the place, counting instructions from the function's first.
std::string VmReader::Place() const {
  std::string place = fmt::format("function {}", Shortened(function_.name));
  if (at_ < 0) return place;
  return place + fmt::format(": instruction {}", at_ - function_.first);
}

absl::Status VmReader::BadBytecode(std::string_view found,
                                   std::string_view expected) const {
  return DataLoss("{}: {}: {}, expected {}", executable_.where, Place(), found,
                  expected);
}

absl::Status VmReader::WrongArgument(const Call& call, size_t index,
                                     std::string_view expected) const {
  return BadBytecode(fmt::format("argument {} of {}, which is {}", index,
                                 call.name, Describe(call.args[index])),
                     expected);
}

VmReader::Value VmReader::Refuse(std::string found, std::string_view hint) {
  reasons_->Add({Severity::kError, library_.path, Place(), 0, 0,
                 std::move(found), "", std::string(hint)});
  return {Kind::kUnknown};
}

std::string VmReader::Describe(const Value& value) const {
  // In the order of Value::Kind.
  constexpr std::string_view kNames[] = {"None",
                                         "unknown",
                                         "the VM itself",
                                         "the number {}",
                                         "constant {}",
                                         "a function",
                                         "a tensor",
                                         "a storage",
                                         "a shape",
                                         "a tuple",
                                         "the heap of computed dimensions"};
  static_assert(std::size(kNames) == static_cast<size_t>(Kind::kHeap) + 1);
  if (IsTupleInput(value)) return "a tuple";
  return fmt::format(fmt::runtime(kNames[static_cast<size_t>(value.kind)]),
                     value.number);
}

const VmInput* VmReader::InputOf(const Value& value) const {
  if (value.kind != Kind::kTensor) return nullptr;
  const VmTensor& tensor = program_.tensors[value.index()];
  if (tensor.origin != VmTensor::Origin::kInput) return nullptr;
  return &program_.inputs[tensor.source];
}

bool VmReader::IsTupleInput(const Value& value) const {
  const VmInput* const input = InputOf(value);
  return input != nullptr && input->is_tuple;
}

}  // namespace nodewise
