#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/artefact/artefact.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/support/status.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {

// A kernel of a test: its inputs and then its outputs, float32.
using FloatKernel = std::function<void(const std::vector<float*>& tensors)>;

// `kernels` by name, and after them what `others` has.
inline Ref<Library> WithKernels(
    const std::vector<std::pair<std::string, FloatKernel>>& kernels,
    Ref<Library> others = TestKernels()) {
  class Both : public Library {
   public:
    Both(Ref<Library> first, Ref<Library> second)
        : first_(std::move(first)), second_(std::move(second)) {}
    absl::StatusOr<PackedFunc> Find(std::string_view name) override {
      return second_->Find(name);
    }
    absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
      auto bound = first_->Bind(request);
      return bound.ok() ? bound : second_->Bind(request);
    }

   private:
    Ref<Library> first_;
    Ref<Library> second_;
  };
  std::vector<BuiltInKernel> built_in;
  for (const auto& [name, kernel] : kernels) {
    const auto body = [kernel =
                           kernel](PackedArgs args) -> absl::StatusOr<Value> {
      std::vector<float*> tensors;
      for (int i = 0; i < args.size(); ++i) {
        const ArgView arg = args.At(i).value();
        tensors.push_back(static_cast<float*>(DataOf(**arg.AsTensor())));
      }
      kernel(tensors);
      return Value();
    };
    built_in.push_back({name, [body](const KernelRequest&) {
                          return absl::StatusOr<PackedFunc>(
                              PackedFunc::FromBody(body));
                        }});
  }
  return MakeRef<Both>(BuiltInLibrary(std::move(built_in)), std::move(others));
}

// An executor that records nothing, whose inputs are not set yet.
inline std::unique_ptr<DebugExecutor> MakeUnset(
    const GraphBuilder& graph, Ref<Library> library = TestKernels()) {
  DebugExecutor::DebugOptions options;
  options.records = false;
  return DebugExecutor::Create(graph.Build(), std::move(library), options)
      .value();
}

// An executor that records nothing, whose inputs are 0, 1, 2, 3.
inline std::unique_ptr<DebugExecutor> MakeSet(
    const GraphBuilder& graph, Ref<Library> library = TestKernels()) {
  auto executor = MakeUnset(graph, std::move(library));
  for (size_t i = 0; i < executor->NumInputs(); ++i) {
    EXPECT_THAT(executor->SetInput(i, *Floats({0, 1, 2, 3})), IsOk());
  }
  return executor;
}

// Executors over this graph, whose inputs are 1, 2, 3, ... With `plan`, entries
// live where it says unless the tool has a plan of its own.
inline ExecutorMaker MakerOf(const GraphBuilder& builder, Ref<Library> library,
                             std::optional<StoragePlan> plan = {}) {
  return [builder, library, plan](DebugExecutor::DebugOptions options)
             -> absl::StatusOr<std::unique_ptr<DebugExecutor>> {
    if (!options.plan.has_value()) options.plan = plan;
    NODEWISE_ASSIGN_OR_RETURN(
        auto executor,
        DebugExecutor::Create(builder.Build(), library, std::move(options)));
    for (size_t i = 0; i < executor->NumInputs(); ++i) {
      const TensorInfo info = executor->InputInfo(i);
      const NDArray values =
          NDArray::Empty(info.shape, info.dtype, kCpu).value();
      const int64_t count = NumElements(info.shape).value();
      for (int64_t e = 0; e < count; ++e) {
        StoreElement(*values, e, static_cast<double>(e + 1));
      }
      NODEWISE_RETURN_IF_ERROR(executor->SetInput(i, *values));
    }
    return executor;
  };
}

// Executors over a fixture's artefact, with its parameters and inputs.
inline ExecutorMaker MakerOfFixture(const std::string& folder) {
  return [folder](DebugExecutor::DebugOptions options)
             -> absl::StatusOr<std::unique_ptr<DebugExecutor>> {
    NODEWISE_ASSIGN_OR_RETURN(
        Artefact artefact,
        LoadArtefact({folder + "/graph.json", folder + "/lib.so",
                      folder + "/params.params", folder}));
    NODEWISE_ASSIGN_OR_RETURN(
        auto executor,
        DebugExecutor::Create(std::move(artefact.graph), artefact.library,
                              std::move(options)));
    NODEWISE_RETURN_IF_ERROR(executor->LoadParams(artefact.params).status());
    NODEWISE_ASSIGN_OR_RETURN(const Params inputs,
                              OpenParams(folder + "/inputs.params"));
    for (const NamedTensor& input : inputs.tensors) {
      NODEWISE_RETURN_IF_ERROR(executor->SetInput(input.name, *input.tensor));
    }
    return executor;
  };
}

// "tvm_0_14_mlp_c" of such a folder, for names of tests.
inline std::string FixtureName(const std::string& folder) {
  std::string name =
      folder.substr(folder.rfind('/', folder.rfind('/') - 1) + 1);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

// An address about which the compiler knows nothing.
inline volatile int* Address(uintptr_t number) {
  volatile uintptr_t hidden = number;
  return reinterpret_cast<volatile int*>(hidden);
}

}  // namespace nodewise
