#include "nodewise/module/factory_module.h"

#include <algorithm>
#include <variant>

#include "nodewise/func/containers.h"
#include "nodewise/func/registry.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "runtime/module/elf.h"
#include "runtime/module/module_blob.h"

namespace nodewise {
namespace {

class GraphFactoryModule final : public Module {
 public:
  GraphFactoryModule(std::string graph_json, std::string name,
                     std::vector<NamedTensor> params)
      : graph_json_(std::move(graph_json)),
        name_(std::move(name)),
        params_(std::move(params)) {}

  std::string_view kind() const override { return "GraphExecutorFactory"; }
  int properties() const override { return kModuleIsSerializable; }
  const std::vector<NamedTensor>& params() const { return params_; }

  absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override {
    using Method = absl::StatusOr<Value> (GraphFactoryModule::*)(PackedArgs);
    Method method = nullptr;
    // The fixed names come last, so that a module that is called like one of
    // them does not hide it.
    if (name == name_) method = &GraphFactoryModule::Create;
    if (name == "debug_create") method = &GraphFactoryModule::CreateDebug;
    if (name == "cuda_graph_create") method = &GraphFactoryModule::RefuseCuda;
    if (name == "get_graph_json") method = &GraphFactoryModule::GraphJson;
    if (name == "get_graph_params") method = &GraphFactoryModule::GraphParams;
    if (name == "remove_params") method = &GraphFactoryModule::RemoveParams;
    if (method == nullptr) return PackedFunc();
    Ref<GraphFactoryModule> self(this);
    return PackedFunc::FromBody(
        [self, method](PackedArgs args) { return (*self.*method)(args); });
  }

 private:
  absl::StatusOr<Value> Create(PackedArgs args) {
    return CreateWith("tvm.graph_executor.create", args);
  }

  // TVM gives the name as an argument here, and not as the function's own.
  absl::StatusOr<Value> CreateDebug(PackedArgs args) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(0));
    if (name != name_) {
      return NotFound("debug_create: the factory holds the module {}, not {}",
                      name_, name);
    }
    return CreateWith("tvm.graph_executor_debug.create", args.From(1));
  }

  absl::StatusOr<Value> RefuseCuda(PackedArgs) {
    return Unimplemented("cuda_graph_create: this build has no CUDA graphs");
  }

  absl::StatusOr<Value> GraphJson(PackedArgs) { return Value(graph_json_); }

  // Copies, since the views are at any alignment and live only as long as the
  // library.
  absl::StatusOr<Value> GraphParams(PackedArgs) {
    MapObject::Items items;
    for (const auto& [name, tensor] : params_) {
      NODEWISE_ASSIGN_OR_RETURN(NDArray copy, tensor.CopyToHost());
      items.emplace_back(name, std::move(copy));
    }
    return Value(Ref<Object>(MapObject::Make(std::move(items))));
  }

  // A new factory, because hosts may hold this one with its parameters.
  absl::StatusOr<Value> RemoveParams(PackedArgs) {
    auto bare = MakeRef<GraphFactoryModule>(graph_json_, name_,
                                            std::vector<NamedTensor>());
    for (const Ref<Module>& import : imports()) {
      NODEWISE_RETURN_IF_ERROR(bare->Import(import));
    }
    return Value(Ref<Object>(std::move(bare)));
  }

  // Executors are created by a registered function, so that a library can be
  // loaded where no executor is built in.
  absl::StatusOr<Value> CreateWith(const char* creator, PackedArgs devices) {
    const PackedFunc create = nodewise::FindFunction(creator);
    if (!create) return Unimplemented("this build has no {}", creator);
    if (imports().empty()) {
      return DataLoss("the factory holds no compiled code");
    }
    std::vector<Value> args = {Value(graph_json_), Ref<Object>(imports()[0])};
    for (int i = 0; i < devices.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, devices.At(i));
      NODEWISE_ASSIGN_OR_RETURN(const DLDevice device, arg.AsDevice());
      args.emplace_back(int64_t{DeviceTypeOf(device)});
      args.emplace_back(static_cast<int64_t>(device.device_id));
    }
    NODEWISE_ASSIGN_OR_RETURN(Value executor, create.CallValues(args));
    NODEWISE_RETURN_IF_ERROR(SetParams(executor));
    return executor;
  }

  // Parameters go to the executor by name, and each is checked like any other.
  absl::Status SetParams(const Value& executor) {
    NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module,
                              executor.View().AsObject<Module>("module"));
    NODEWISE_ASSIGN_OR_RETURN(const PackedFunc set_param,
                              module->GetFunction("nodewise.set_param"));
    for (const auto& [name, tensor] : params_) {
      NODEWISE_RETURN_IF_ERROR(set_param.Call(name, tensor).status());
    }
    return absl::OkStatus();
  }

  std::string graph_json_;
  std::string name_;
  // Views of the library's memory, at any alignment, to avoid a second copy.
  std::vector<NamedTensor> params_;
};

// Writes over what the factory holds in a copy of its file. The parser borrows
// the bytes of the file, so that the place of a part in memory gives its place
// in the copy.
void OverwriteFactory(const GraphFactoryItem& factory, std::string_view file,
                      std::string* copy) {
  const auto fill = [&](std::string_view part, char with) {
    std::fill_n(copy->begin() + (part.data() - file.data()), part.size(), with);
  };
  fill(factory.graph_json, ' ');
  fill(factory.module_name, '_');
  for (const auto& [name, tensor] : factory.params) {
    fill(name, '_');
    fill(
        {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()},
        '\0');
  }
}

}  // namespace

Ref<Module> MakeGraphFactory(std::string graph_json, std::string name,
                             std::vector<NamedTensor> params) {
  return MakeRef<GraphFactoryModule>(std::move(graph_json), std::move(name),
                                     std::move(params));
}

std::vector<NamedTensor> FactoryParams(const Module& module) {
  const auto* factory = dynamic_cast<const GraphFactoryModule*>(&module);
  return factory == nullptr ? std::vector<NamedTensor>() : factory->params();
}

// A blob that cannot be read may be of a release that is not known yet: the
// file is then handed back unchanged, and the caller sees that it was not
// blanked.
absl::StatusOr<std::string> WithErasedFactories(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  NODEWISE_ASSIGN_OR_RETURN(const ElfFile elf, ParseElf(file.bytes(), path));
  std::string copy(file.text());
  const ElfSymbol* const symbol = FindSymbol(elf, kBlobName);
  if (symbol == nullptr) return copy;
  NODEWISE_ASSIGN_OR_RETURN(const auto bytes, BytesAt(elf, symbol->value));
  const auto blob = ParseModuleBlob(bytes, path);
  if (!blob.ok()) return copy;
  for (const BlobItem& item : blob->items) {
    const auto* const factory = std::get_if<GraphFactoryItem>(&item.content);
    if (factory != nullptr) OverwriteFactory(*factory, file.text(), &copy);
  }
  return copy;
}

}  // namespace nodewise
