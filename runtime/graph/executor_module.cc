#include "nodewise/graph/executor_module.h"

#include "nodewise/func/containers.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Result = absl::StatusOr<Value>;

// load_params and share_params take bytes or a string.
absl::Span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Result Done(const absl::Status& status) {
  if (!status.ok()) return status;
  return Value();
}

// TVM's get_input_info and get_output_info return a map of two maps, "shape"
// and "dtype", by name. Parameters are not among the inputs there.
Value InfoMap(const GraphExecutor& executor, size_t count,
              TensorInfo (GraphExecutor::*info_of)(size_t port) const) {
  MapObject::Items shapes;
  MapObject::Items dtypes;
  for (size_t i = 0; i < count; ++i) {
    const TensorInfo info = (executor.*info_of)(i);
    if (info.is_param) continue;
    shapes.emplace_back(info.name, MakeRef<ShapeObject>(info.shape));
    dtypes.emplace_back(info.name, MakeRef<StringObject>(ToString(info.dtype)));
  }
  return Value(
      MapObject::Make({{"shape", Value(MapObject::Make(std::move(shapes)))},
                       {"dtype", Value(MapObject::Make(std::move(dtypes)))}}));
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

// The first device is where entries live that name none.
absl::Status TakeDevices(PackedArgs args, GraphExecutor::Options* options) {
  options->devices.clear();
  for (int i = 0; i < args.size(); i += 2) {
    NODEWISE_ASSIGN_OR_RETURN(options->devices.emplace_back(),
                              args.DeviceAt(i));
  }
  return absl::OkStatus();
}

// Reads an index or a name, which `find` looks up. The executor checks the
// range of an index; it cannot see a sign.
template <typename Find>
absl::StatusOr<size_t> PortArgument(const char* what, size_t count,
                                    PackedArgs args, Find find) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView key, args.At(0));
  if (key.IsText()) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, key.AsString());
    return find(name);
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t number, key.AsInt());
  if (number >= 0) return static_cast<size_t>(number);
  return OutOfRange("{} {}: the graph has {} {}s", what, number, count, what);
}

absl::StatusOr<size_t> InputArg(const GraphExecutor& executor,
                                PackedArgs args) {
  return PortArgument(
      "input", executor.NumInputs(), args,
      [&](std::string_view name) { return executor.InputIndex(name); });
}

// A host program may use our name for an output, or TVM's.
absl::StatusOr<size_t> OutputNamed(const GraphExecutor& executor,
                                   std::string_view name) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t ours, executor.OutputIndex(name));
  const size_t tvms = executor.FindOutputByTvmName(name).value_or(ours);
  if (ours == tvms) return ours;
  return InvalidArgument(
      "output {}: may be output {}, or output {}, which TVM calls so (give the "
      "number)",
      name, ours, tvms);
}

absl::StatusOr<size_t> OutputArg(const GraphExecutor& executor,
                                 PackedArgs args) {
  return PortArgument(
      "output", executor.NumOutputs(), args,
      [&](std::string_view name) { return OutputNamed(executor, name); });
}

// TVM returns nothing from the functions that set; neither do these.
Result SetInput(GraphExecutor& executor, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t input, InputArg(executor, args));
  NODEWISE_ASSIGN_OR_RETURN(const DLTensor* tensor, args.TensorAt(1));
  return Done(executor.SetInput(input, *tensor));
}

// (name, tensor, name, tensor, ...): all of them, or none.
Result SetInputs(GraphExecutor& executor, PackedArgs args) {
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < args.size(); i += 2) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, args.TextAt(i));
    NODEWISE_ASSIGN_OR_RETURN(const DLTensor* tensor, args.TensorAt(i + 1));
    tensors.push_back({std::string(text), NDArray::Borrow(*tensor, nullptr)});
  }
  return Done(executor.SetInputs(tensors));
}

Result SetParam(GraphExecutor& executor, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(0));
  NODEWISE_ASSIGN_OR_RETURN(const DLTensor* tensor, args.TensorAt(1));
  return Done(executor.SetParam(name, *tensor));
}

Result SetInputZeroCopy(GraphExecutor& executor, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t input, InputArg(executor, args));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, args.ArrayAt(1));
  return Done(executor.SetInputZeroCopy(input, tensor));
}

Result SetOutputZeroCopy(GraphExecutor& executor, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t output, OutputArg(executor, args));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, args.ArrayAt(1));
  return Done(executor.SetOutputZeroCopy(output, tensor));
}

Result GetInput(GraphExecutor& executor, PackedArgs args) {
  const auto input = InputArg(executor, args);
  // Bindings ask in this way whether an input exists.
  if (absl::IsNotFound(input.status())) return Value();
  NODEWISE_RETURN_IF_ERROR(input.status());
  return executor.GetInput(*input);
}

// With a second argument the output is copied there, and nothing is returned.
Result GetOutput(GraphExecutor& executor, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t output, OutputArg(executor, args));
  if (args.size() == 1) return executor.GetOutput(output);
  NODEWISE_ASSIGN_OR_RETURN(const DLTensor* tensor, args.TensorAt(1));
  return Done(executor.CopyOutput(output, *tensor));
}

// -1 says that there is no such input, as in TVM.
Result GetInputIndex(GraphExecutor& executor, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(0));
  const auto index = executor.InputIndex(name);
  if (absl::IsNotFound(index.status())) return Value(-1);
  NODEWISE_RETURN_IF_ERROR(index.status());
  return Value(static_cast<int64_t>(*index));
}

Result GetNumInputs(GraphExecutor& executor, PackedArgs) {
  return Value(static_cast<int64_t>(executor.NumInputs()));
}

Result GetNumOutputs(GraphExecutor& executor, PackedArgs) {
  return Value(static_cast<int64_t>(executor.NumOutputs()));
}

Result GetInputInfo(GraphExecutor& executor, PackedArgs) {
  return InfoMap(executor, executor.NumInputs(), &GraphExecutor::InputInfo);
}

Result GetOutputInfo(GraphExecutor& executor, PackedArgs) {
  return InfoMap(executor, executor.NumOutputs(), &GraphExecutor::OutputInfo);
}

Result RunOnce(GraphExecutor& executor, PackedArgs) {
  return Done(executor.Run());
}

Result RunFromInputs(GraphExecutor& executor, PackedArgs args) {
  if (args.size() < 2 || args.size() % 2 != 0) {
    return InvalidArgument(
        "run_from_inputs: got {} arguments, expected a device type, a device "
        "number and pairs of an input and a tensor",
        args.size());
  }
  NODEWISE_ASSIGN_OR_RETURN(const DLDevice host, args.DeviceAt(0));
  for (int i = 2; i < args.size(); i += 2) {
    NODEWISE_RETURN_IF_ERROR(SetInput(executor, args.From(i)).status());
  }
  NODEWISE_RETURN_IF_ERROR(executor.Run());
  // Copies, since the next run overwrites the executor's own memory.
  std::vector<Value> outputs;
  for (size_t i = 0; i < executor.NumOutputs(); ++i) {
    const TensorInfo info = executor.OutputInfo(i);
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy,
                              NDArray::Empty(info.shape, info.dtype, host));
    NODEWISE_RETURN_IF_ERROR(executor.CopyOutput(i, *copy));
    outputs.emplace_back(std::move(copy));
  }
  return Value(ArrayObject::Make(std::move(outputs)));
}

Result LoadParams(GraphExecutor& executor, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, args.TextAt(0));
  NODEWISE_ASSIGN_OR_RETURN(const Params params,
                            ParseParams(BytesOf(text), "params", nullptr));
  // Names that the graph does not have are skipped, as in TVM: hosts load one
  // file into several graphs.
  NODEWISE_ASSIGN_OR_RETURN(const LoadedParams loaded,
                            executor.LoadParams(params));
  return Value(static_cast<int64_t>(loaded.set));
}

// TVM passes the whole file of parameters, of which only the names count here.
Result ShareParams(GraphExecutor& executor, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(
      const Ref<ExecutorModule> other,
      args.ObjectAt<ExecutorModule>(0, "a graph executor module"));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, args.TextAt(1));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            ParseParamNames(BytesOf(text), "params"));
  return Done(executor.ShareParams(other->executor(), names));
}

// The names are TVM's; bindings of our own call those that begin with ours.
struct MethodRow {
  std::string_view name;
  Result (*method)(GraphExecutor& executor, PackedArgs args);
};
constexpr MethodRow kMethods[] = {
    {"set_input", &SetInput},
    {"set_input_zero_copy", &SetInputZeroCopy},
    {"set_output_zero_copy", &SetOutputZeroCopy},
    {"get_input", &GetInput},
    {"get_output", &GetOutput},
    {"get_input_index", &GetInputIndex},
    {"get_num_inputs", &GetNumInputs},
    {"get_num_outputs", &GetNumOutputs},
    {"get_input_info", &GetInputInfo},
    {"get_output_info", &GetOutputInfo},
    {"run", &RunOnce},
    {"run_from_inputs", &RunFromInputs},
    {"load_params", &LoadParams},
    {"share_params", &ShareParams},
    {"nodewise.set_inputs", &SetInputs},
    {"nodewise.set_param", &SetParam},
};

}  // namespace

std::vector<std::string> ExecutorModule::FunctionNames() const {
  std::vector<std::string> names;
  for (const MethodRow& row : kMethods) names.emplace_back(row.name);
  return names;
}

absl::StatusOr<PackedFunc> ExecutorModule::GetFunction(std::string_view name) {
  for (const MethodRow& row : kMethods) {
    if (name != row.name) continue;
    // The function keeps the executor alive, as hosts expect.
    return PackedFunc::FromBody([self = Ref<ExecutorModule>(this),
                                 method = row.method](PackedArgs args) {
      return method(*self->executor_, args);
    });
  }
  return PackedFunc();
}

absl::StatusOr<CreateArguments> TakeCreateArguments(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, args.TextAt(0));
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module,
                            args.ObjectAt<Module>(1, "module"));
  CreateArguments create;
  NODEWISE_ASSIGN_OR_RETURN(const ArgView third, args.At(2));
  // TVM's own hosts pass no lookup function, so that the devices come third.
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
  return Value(MakeRef<ExecutorModule>(std::move(executor)));
}

}  // namespace nodewise
