#include "runtime/module/blob_modules.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "fmt/format.h"
#include "nodewise/func/containers.h"
#include "nodewise/module/factory_module.h"
#include "nodewise/support/status_macros.h"
#include "runtime/module/library_module.h"

namespace nodewise {
namespace {

// Constants for the functions of a vendor compiler's module: handed to
// `__init_SYMBOL` before SYMBOL is first used.
class ConstantsModule final : public Module {
 public:
  ConstantsModule(const ConstantsItem& item, std::string kind,
                  const Ref<Symbols>& owner)
      : kind_(std::move(kind)), item_(item), owner_(owner) {}

  std::string_view kind() const override { return kind_; }
  int properties() const override { return kModuleIsSerializable; }

  absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override {
    for (const auto& [symbol, wanted] : item_.symbols) {
      if (symbol == name) NODEWISE_RETURN_IF_ERROR(InitOnce(symbol, wanted));
    }
    return PackedFunc();  // The imports have the function itself.
  }

 private:
  absl::Status InitOnce(std::string_view symbol,
                        const std::vector<std::string_view>& wanted) {
    const std::lock_guard lock(mutex_);
    const auto known =
        std::find(initialised_.begin(), initialised_.end(), symbol);
    if (known != initialised_.end()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const PackedFunc init, FindInit(symbol));
    if (init) NODEWISE_RETURN_IF_ERROR(Initialise(symbol, wanted, init));
    // Marked even if there is nothing to call, so as not to ask again.
    initialised_.push_back(symbol);
    return absl::OkStatus();
  }

  absl::Status Initialise(std::string_view symbol,
                          const std::vector<std::string_view>& wanted,
                          const PackedFunc& init) const {
    std::vector<Value> constants;
    for (const std::string_view name : wanted) {
      NODEWISE_ASSIGN_OR_RETURN(NDArray constant, CopyConstant(symbol, name));
      constants.emplace_back(std::move(constant));
    }
    const Ref<Object> array = ArrayObject::Make(std::move(constants));
    NODEWISE_ASSIGN_OR_RETURN(const Value result, init.Call(array));
    const auto* code = result.Get<int64_t>();
    if (code != nullptr && *code == 0) return absl::OkStatus();
    return absl::InternalError(
        fmt::format("__init_{} did not return 0", symbol));
  }

  absl::StatusOr<PackedFunc> FindInit(std::string_view symbol) {
    const std::string name = fmt::format("__init_{}", symbol);
    for (const Ref<Module>& import : imports()) {
      NODEWISE_ASSIGN_OR_RETURN(PackedFunc init, import->FindFunction(name));
      if (init) return init;
    }
    return PackedFunc();
  }

  absl::StatusOr<NDArray> CopyConstant(std::string_view symbol,
                                       std::string_view name) const {
    for (const auto& [known, record] : item_.constants) {
      if (known != name) continue;
      return NDArray::Borrow(record.ToTensor(), nullptr).CopyToHost();
    }
    return absl::DataLossError(fmt::format(
        "{}: {} wants the constant {}, which the library does not hold",
        owner_->where(), symbol, name));
  }

  std::string kind_;
  ConstantsItem item_;
  Ref<Symbols> owner_;
  std::mutex mutex_;
  std::vector<std::string_view> initialised_;
};

// Code for a device that this build cannot run: known by name, and refused
// only when it is called.
class DeviceCodeModule final : public Module {
 public:
  DeviceCodeModule(const DeviceCodeItem& item, std::string kind)
      : kind_(std::move(kind)) {
    for (const DeviceFunction& function : item.functions) {
      functions_.emplace_back(function.name);
    }
  }

  std::string_view kind() const override { return kind_; }
  int properties() const override { return kModuleIsSerializable; }
  std::vector<std::string> FunctionNames() const override { return functions_; }

  absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override {
    if (std::find(functions_.begin(), functions_.end(), name) ==
        functions_.end()) {
      return PackedFunc();
    }
    const std::string message =
        fmt::format("function {} is {} code, and this build has no {} device",
                    name, kind_, kind_);
    return PackedFunc::FromBody([message](PackedArgs) -> absl::StatusOr<Value> {
      return absl::UnavailableError(message);
    });
  }

 private:
  std::string kind_;
  std::vector<std::string> functions_;
};

// Bytecode, which runs as a graph and not from here; its imports have the
// kernels.
class BytecodeModule final : public Module {
 public:
  explicit BytecodeModule(std::string kind) : kind_(std::move(kind)) {}
  std::string_view kind() const override { return kind_; }
  int properties() const override { return kModuleIsSerializable; }
  absl::StatusOr<PackedFunc> GetFunction(std::string_view) override {
    return PackedFunc();
  }

 private:
  std::string kind_;
};

Ref<Module> MakeFactory(const GraphFactoryItem& item,
                        const Ref<Symbols>& symbols) {
  std::vector<NamedTensor> params;
  const auto owner = std::make_shared<Ref<Symbols>>(symbols);
  for (const auto& [name, record] : item.params) {
    params.push_back(
        {std::string(name), NDArray::Borrow(record.ToTensor(), owner)});
  }
  return MakeGraphFactory(std::string(item.graph_json),
                          std::string(item.module_name), std::move(params));
}

}  // namespace

Ref<Module> MakeBlobModule(const BlobItem& item, const Ref<Symbols>& symbols) {
  if (const auto* factory = std::get_if<GraphFactoryItem>(&item.content)) {
    return MakeFactory(*factory, symbols);
  }
  if (const auto* constants = std::get_if<ConstantsItem>(&item.content)) {
    return MakeRef<ConstantsModule>(*constants, std::string(item.key), symbols);
  }
  if (const auto* code = std::get_if<DeviceCodeItem>(&item.content)) {
    return MakeRef<DeviceCodeModule>(*code, std::string(item.key));
  }
  if (std::holds_alternative<BytecodeItem>(item.content)) {
    return MakeRef<BytecodeModule>(std::string(item.key));
  }
  return MakeRef<LibraryModule>(symbols);
}

}  // namespace nodewise
