#include "nodewise/graph/executor_module.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/func/containers.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Reads what load_params and share_params take: bytes or a string.
absl::StatusOr<Params> ParamsArgument(PackedArgs args, int index) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView blob, args.At(index));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, blob.AsString());
  return ParseParams(
      {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, "params",
      nullptr);
}

// The executor checks the range; it cannot see a sign.
absl::StatusOr<size_t> CheckedIndex(const char* what, int64_t number,
                                    size_t count) {
  if (number >= 0) return static_cast<size_t>(number);
  return absl::OutOfRangeError(
      fmt::format("{} {}: the graph has {} {}s", what, number, count, what));
}

Value InfoMap(size_t count, const std::function<TensorInfo(size_t)>& info_of) {
  MapObject::Items shapes;
  MapObject::Items dtypes;
  for (size_t i = 0; i < count; ++i) {
    const TensorInfo info = info_of(i);
    if (info.is_param) continue;
    shapes.emplace_back(info.name,
                        Ref<Object>(MakeRef<ShapeObject>(info.shape)));
    dtypes.emplace_back(
        info.name, Ref<Object>(MakeRef<StringObject>(ToString(info.dtype))));
  }
  return Value(Ref<Object>(MapObject::Make(
      {{"shape", Ref<Object>(MapObject::Make(std::move(shapes)))},
       {"dtype", Ref<Object>(MapObject::Make(std::move(dtypes)))}})));
}

// Takes the host's own lookup of linked parameters, if it gave one:
// (module, storage id, a tensor like it, device) -> array or null.
absl::Status TakeLookup(const ArgView& argument, const Ref<Module>& module,
                        GraphExecutor::Options* options) {
  if (argument.IsNull()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(
      Ref<FunctionObject> function,
      argument.AsObject<FunctionObject>("a lookup function or a device type"));
  const PackedFunc lookup(std::move(function));
  options->linked_param = [lookup, module](
                              int64_t id,
                              const DLTensor& like) -> absl::StatusOr<NDArray> {
    NODEWISE_ASSIGN_OR_RETURN(
        const Value found,
        lookup.Call(Ref<Object>(module), id, NDArray::Borrow(like, nullptr),
                    like.device));
    const NDArray* array = found.Get<NDArray>();
    return array == nullptr ? NDArray() : *array;
  };
  return absl::OkStatus();
}

// Reads a device from two numbers: its type and its id.
absl::StatusOr<DLDevice> DeviceAt(PackedArgs args, int index) {
  NODEWISE_ASSIGN_OR_RETURN(const int type, args.SmallIntAt(index));
  NODEWISE_ASSIGN_OR_RETURN(const int number, args.SmallIntAt(index + 1));
  return MakeDevice(type, number);
}

absl::Status TakeDevices(PackedArgs args, GraphExecutor::Options* options) {
  options->devices.clear();
  for (int i = 0; i < args.size(); i += 2) {
    NODEWISE_ASSIGN_OR_RETURN(const DLDevice device, DeviceAt(args, i));
    options->devices.push_back(device);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> ExecutorModule::InputArgument(PackedArgs args,
                                                     int index) const {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView key, args.At(index));
  if (key.IsText()) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, key.AsString());
    return executor_->InputIndex(name);
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t number, key.AsInt());
  return CheckedIndex("input", number, executor_->NumInputs());
}

// A host program may use our name for an output, or TVM's.
absl::StatusOr<size_t> ExecutorModule::OutputNamed(
    std::string_view name) const {
  NODEWISE_ASSIGN_OR_RETURN(const size_t ours, executor_->OutputIndex(name));
  const size_t tvms = executor_->OutputByTvmsName(name).value_or(ours);
  if (ours == tvms) return ours;
  return absl::InvalidArgumentError(fmt::format(
      "output {}: may be output {}, or output {}, which TVM calls so (give the "
      "number)",
      name, ours, tvms));
}

absl::StatusOr<size_t> ExecutorModule::OutputArgument(PackedArgs args,
                                                      int index) const {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView key, args.At(index));
  if (key.IsText()) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, key.AsString());
    return OutputNamed(name);
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t number, key.AsInt());
  return CheckedIndex("output", number, executor_->NumOutputs());
}

absl::StatusOr<Value> ExecutorModule::SetInput(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t input, InputArgument(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(1));
  NODEWISE_ASSIGN_OR_RETURN(const DLTensor* tensor, arg.AsTensor());
  NODEWISE_RETURN_IF_ERROR(executor_->SetInput(input, *tensor));
  return Value();
}

// (name, tensor, name, tensor, ...): all of them, or none.
absl::StatusOr<Value> ExecutorModule::SetInputs(PackedArgs args) {
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < args.size(); i += 2) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView name, args.At(i));
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, name.AsString());
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i + 1));
    NODEWISE_ASSIGN_OR_RETURN(const DLTensor* tensor, arg.AsTensor());
    tensors.push_back({std::string(text), NDArray::Borrow(*tensor, nullptr)});
  }
  NODEWISE_RETURN_IF_ERROR(executor_->SetInputs(tensors));
  return Value();
}

absl::StatusOr<Value> ExecutorModule::SetParam(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView name, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, name.AsString());
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(1));
  NODEWISE_ASSIGN_OR_RETURN(const DLTensor* tensor, arg.AsTensor());
  NODEWISE_RETURN_IF_ERROR(executor_->SetParam(text, *tensor));
  return Value();
}

absl::StatusOr<Value> ExecutorModule::SetInputZeroCopy(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t input, InputArgument(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(1));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, arg.AsNDArray());
  NODEWISE_RETURN_IF_ERROR(executor_->SetInputZeroCopy(input, tensor));
  return Value();
}

absl::StatusOr<Value> ExecutorModule::SetOutputZeroCopy(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t output, OutputArgument(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(1));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, arg.AsNDArray());
  NODEWISE_RETURN_IF_ERROR(executor_->SetOutputZeroCopy(output, tensor));
  return Value();
}

absl::StatusOr<Value> ExecutorModule::GetInput(PackedArgs args) {
  const auto input = InputArgument(args, 0);
  // Bindings ask in this way whether an input exists.
  if (absl::IsNotFound(input.status())) return Value();
  NODEWISE_RETURN_IF_ERROR(input.status());
  NODEWISE_ASSIGN_OR_RETURN(NDArray array, executor_->GetInput(*input));
  return Value(std::move(array));
}

absl::StatusOr<Value> ExecutorModule::GetOutput(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t output, OutputArgument(args, 0));
  if (args.size() == 1) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray array, executor_->GetOutput(output));
    return Value(std::move(array));
  }
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(1));
  NODEWISE_ASSIGN_OR_RETURN(const DLTensor* tensor, arg.AsTensor());
  NODEWISE_RETURN_IF_ERROR(executor_->CopyOutput(output, *tensor));
  return Value();
}

absl::StatusOr<Value> ExecutorModule::GetInputIndex(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView key, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, key.AsString());
  const auto index = executor_->InputIndex(name);
  if (absl::IsNotFound(index.status())) return Value(-1);
  NODEWISE_RETURN_IF_ERROR(index.status());
  return Value(static_cast<int64_t>(*index));
}

absl::StatusOr<Value> ExecutorModule::GetNumInputs(PackedArgs) {
  return Value(static_cast<int64_t>(executor_->NumInputs()));
}

absl::StatusOr<Value> ExecutorModule::GetNumOutputs(PackedArgs) {
  return Value(static_cast<int64_t>(executor_->NumOutputs()));
}

absl::StatusOr<Value> ExecutorModule::GetInputInfo(PackedArgs) {
  return InfoMap(executor_->NumInputs(),
                 [this](size_t i) { return executor_->InputInfo(i); });
}

absl::StatusOr<Value> ExecutorModule::GetOutputInfo(PackedArgs) {
  return InfoMap(executor_->NumOutputs(),
                 [this](size_t i) { return executor_->OutputInfo(i); });
}

absl::StatusOr<Value> ExecutorModule::Run(PackedArgs) {
  NODEWISE_RETURN_IF_ERROR(executor_->Run());
  return Value();
}

absl::StatusOr<Value> ExecutorModule::RunFromInputs(PackedArgs args) {
  if (args.size() < 2 || args.size() % 2 != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "run_from_inputs: got {} arguments, expected a device type, a device "
        "number and pairs of an input and a tensor",
        args.size()));
  }
  NODEWISE_ASSIGN_OR_RETURN(const DLDevice host, DeviceAt(args, 0));
  for (int i = 2; i < args.size(); i += 2) {
    NODEWISE_RETURN_IF_ERROR(SetInput(args.From(i)).status());
  }
  NODEWISE_RETURN_IF_ERROR(executor_->Run());
  std::vector<Value> outputs;
  for (size_t i = 0; i < executor_->NumOutputs(); ++i) {
    const TensorInfo info = executor_->OutputInfo(i);
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy,
                              NDArray::Empty(info.shape, info.dtype, host));
    NODEWISE_RETURN_IF_ERROR(executor_->CopyOutput(i, *copy));
    outputs.emplace_back(std::move(copy));
  }
  return Value(Ref<Object>(ArrayObject::Make(std::move(outputs))));
}

absl::StatusOr<Value> ExecutorModule::LoadParams(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Params params, ParamsArgument(args, 0));
  // Names that the graph does not have are skipped, as in TVM: hosts load one
  // file into several graphs.
  NODEWISE_ASSIGN_OR_RETURN(const LoadedParams loaded,
                            executor_->LoadParams(params));
  return Value(static_cast<int64_t>(loaded.set));
}

absl::StatusOr<Value> ExecutorModule::ShareParams(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView module, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(
      const Ref<ExecutorModule> other,
      module.AsObject<ExecutorModule>("a graph executor module"));
  NODEWISE_ASSIGN_OR_RETURN(const ArgView blob, args.At(1));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, blob.AsString());
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<std::string> names,
      ParseParamNames(
          {reinterpret_cast<const uint8_t*>(text.data()), text.size()},
          "params"));
  NODEWISE_RETURN_IF_ERROR(executor_->ShareParams(*other->executor_, names));
  return Value();
}

const ExecutorModule::MethodRow ExecutorModule::kMethods[] = {
    {"set_input", &ExecutorModule::SetInput},
    {"set_input_zero_copy", &ExecutorModule::SetInputZeroCopy},
    {"set_output_zero_copy", &ExecutorModule::SetOutputZeroCopy},
    {"get_input", &ExecutorModule::GetInput},
    {"get_output", &ExecutorModule::GetOutput},
    {"get_input_index", &ExecutorModule::GetInputIndex},
    {"get_num_inputs", &ExecutorModule::GetNumInputs},
    {"get_num_outputs", &ExecutorModule::GetNumOutputs},
    {"get_input_info", &ExecutorModule::GetInputInfo},
    {"get_output_info", &ExecutorModule::GetOutputInfo},
    {"run", &ExecutorModule::Run},
    {"run_from_inputs", &ExecutorModule::RunFromInputs},
    {"load_params", &ExecutorModule::LoadParams},
    {"share_params", &ExecutorModule::ShareParams},
    {"nodewise.set_inputs", &ExecutorModule::SetInputs},
    {"nodewise.set_param", &ExecutorModule::SetParam},
};

std::vector<std::string> ExecutorModule::FunctionNames() const {
  std::vector<std::string> names;
  for (const MethodRow& row : kMethods) names.emplace_back(row.name);
  return names;
}

absl::StatusOr<PackedFunc> ExecutorModule::GetFunction(std::string_view name) {
  for (const MethodRow& row : kMethods) {
    if (name != row.name) continue;
    // The function keeps the executor alive, as hosts expect.
    Ref<ExecutorModule> self(this);
    const Method method = row.method;
    return PackedFunc::FromBody(
        [self, method](PackedArgs args) { return (*self.*method)(args); });
  }
  return PackedFunc();
}

absl::StatusOr<CreateArguments> TakeCreateArguments(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView json, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, json.AsString());
  NODEWISE_ASSIGN_OR_RETURN(const ArgView code, args.At(1));
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module,
                            code.AsObject<Module>("module"));
  CreateArguments create;
  NODEWISE_ASSIGN_OR_RETURN(const ArgView third, args.At(2));
  const bool has_lookup = third.code() != kTVMArgInt;
  if (has_lookup) {
    NODEWISE_RETURN_IF_ERROR(TakeLookup(third, module, &create.options));
  }
  NODEWISE_RETURN_IF_ERROR(
      TakeDevices(args.From(has_lookup ? 3 : 2), &create.options));
  NODEWISE_ASSIGN_OR_RETURN(
      create.graph,
      ParseGraph(GraphText::FromString("graph JSON", std::string(text))));
  create.library = LibraryOf(module);
  return create;
}

absl::StatusOr<Value> CreateGraphExecutor(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(CreateArguments create, TakeCreateArguments(args));
  NODEWISE_ASSIGN_OR_RETURN(
      std::unique_ptr<GraphExecutor> executor,
      GraphExecutor::Create(std::move(create.graph), std::move(create.library),
                            std::move(create.options)));
  return Value(Ref<Object>(MakeRef<ExecutorModule>(std::move(executor))));
}

}  // namespace nodewise
