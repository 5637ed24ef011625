// A C++ program on TVM's headers, as a user of TVM writes it: nothing in it
// knows of nodewise. It is compiled with the headers of each TVM that is at
// hand, together with apps/tvm_host/tvm_host.cc.
//
// usage: cpp_host FACTORY.so MODULE.so
//
// The factory is the tests' `factory`, x + {10, 20, 30, 40}; the module has
// calls_argument(f, x...). Each check prints a line; the exit status is 1 if
// one failed.

#include "cpp_host.h"

#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/container/shape_tuple.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/profiling.h>
#include <tvm/runtime/threading_backend.h>

#include <chrono>
#include <cstdio>
#include <thread>

namespace host {

std::string factory_path, closure_path;

namespace {

void FactoryRuns() {
  Module library = Module::LoadFromFile(factory_path);
  EXPECT(std::string(library->type_key()) == "GraphExecutorFactory");
  Module executor = library.GetFunction("default")(kCpu);
  library = Module();  // The executor keeps what it needs.
  executor.GetFunction("set_input")("x", Floats(kX));
  executor.GetFunction("run")();
  NDArray output = executor.GetFunction("get_output")(0);
  EXPECT(ValuesOf(output) == kSum);
  NDArray mine = NDArray::Empty({4}, kFloat, kCpu);
  executor.GetFunction("get_output")(0, mine);
  EXPECT(ValuesOf(mine) == kSum);
  EXPECT(static_cast<int>(executor.GetFunction("get_num_outputs")()) == 1);
}

void ExecutorIsCreatedFromItsParts() {
  Module library = Module::LoadFromFile(factory_path, "so");
  const std::string json = library.GetFunction("get_graph_json")();
  Module executor = Global("tvm.graph_executor.create")(
      json, library->imports()[0], static_cast<int>(kDLCPU), 0);
  executor.GetFunction("set_input")("p0", Floats(kX));
  executor.GetFunction("set_input")("x", Floats(kX));
  executor.GetFunction("run")();
  EXPECT(ValuesOf(executor.GetFunction("get_output")(0)) ==
         std::vector<float>({2, 4, 6, 8}));
}

// The one line that a host changes to debug.
void DebugTwinGivesTheSame() {
  Module library = Module::LoadFromFile(factory_path);
  Module executor = library.GetFunction("debug_create")("default", kCpu);
  executor.GetFunction("set_input")("x", Floats(kX));
  executor.GetFunction("run")();
  EXPECT(ValuesOf(executor.GetFunction("get_output")(0)) == kSum);
  NDArray seen = NDArray::Empty({4}, kFloat, kCpu);
  executor.GetFunction("debug_get_output")("tvmgen_default_fused_add", seen);
  EXPECT(ValuesOf(seen) == kSum);
  const std::string times =
      executor.GetFunction("run_individual")(2, 1, 0, 100, 0, 1);
  EXPECT(times.size() == sizeof(int64_t) + 3 * sizeof(double));
}

void ReportIsHeldAndHandedBack() {
  Module library = Module::LoadFromFile(factory_path);
  Module executor = library.GetFunction("debug_create")("default", kCpu);
  executor.GetFunction("set_input")("x", Floats(kX));
  ObjectRef report = executor.GetFunction("profile")(Array<ObjectRef>());
  const std::string table =
      Global("runtime.profiling.AsTable")(report, true, true, true);
  EXPECT(Contains(table, "tvmgen_default_fused_add"));
}

void ParametersAreSavedAndLoaded() {
  Map<String, NDArray> params;
  params.Set("p0", Floats(kX));
  const std::string bytes = Global("runtime.SaveParams")(params);
  Map<String, NDArray> loaded =
      Global("runtime.LoadParams")(TVMByteArray{bytes.data(), bytes.size()});
  EXPECT(ValuesOf(loaded["p0"]) == kX);
  Module library = Module::LoadFromFile(factory_path);
  Module executor = library.GetFunction("default")(kCpu);
  executor.GetFunction("load_params")(TVMByteArray{bytes.data(), bytes.size()});
  executor.GetFunction("set_input")("x", Floats(kX));
  executor.GetFunction("run")();
  EXPECT(ValuesOf(executor.GetFunction("get_output")(0))[3] == 8);
}

void InfoComesInMapsOfMaps() {
  Module library = Module::LoadFromFile(factory_path);
  Module executor = library.GetFunction("default")(kCpu);
  Map<String, ObjectRef> info = executor.GetFunction("get_input_info")();
  auto shapes = tvm::Downcast<Map<String, ShapeTuple>>(info["shape"]);
  auto types = tvm::Downcast<Map<String, String>>(info["dtype"]);
  EXPECT(shapes["x"].size() == 1 && shapes["x"][0] == 4);
  EXPECT(types["x"] == "float32");
}

void ZeroCopyUsesTheProgramsMemory() {
  Module library = Module::LoadFromFile(factory_path);
  Module executor = library.GetFunction("default")(kCpu);
  NDArray x = Floats(kX);
  executor.GetFunction("set_input_zero_copy")("x", x);
  static_cast<float*>(x->data)[0] = 5;
  executor.GetFunction("run")();
  EXPECT(ValuesOf(executor.GetFunction("get_output")(0))[0] == 15);
}

void KernelIsCalled() {
  Module library = Module::LoadFromFile(factory_path);
  const char* const name = "tvmgen_default_fused_add";
  EXPECT(library.GetFunction(name) == nullptr);
  PackedFunc add = library.GetFunction(name, true);
  EXPECT(add != nullptr);
  NDArray sum = Floats({0, 0, 0, 0});
  add(Floats(kX), Floats(kX), sum);
  EXPECT(ValuesOf(sum)[3] == 8);
  // Tensors that are not arrays.
  std::vector<float> data = kX;
  int64_t shape[] = {4};
  DLTensor plain{};
  plain.data = data.data();
  plain.device = kCpu;
  plain.ndim = 1;
  plain.dtype = kFloat;
  plain.shape = shape;
  add(&plain, Floats(kX), sum);
  EXPECT(ValuesOf(sum)[0] == 2);
}

void ErrorsAreTvmsErrors() {
  EXPECT(Contains(ErrorOf([] { Module::LoadFromFile("/nowhere/net.so"); }),
                  "/nowhere/net.so"));
  Module library = Module::LoadFromFile(factory_path);
  Module executor = library.GetFunction("default")(kCpu);
  EXPECT(Contains(ErrorOf([&] { executor.GetFunction("run")(); }),
                  "never set: x"));
  EXPECT(executor.GetFunction("nothing") == nullptr);
  EXPECT(Contains(ErrorOf([] { ICHECK(1 == 2) << "of the program"; }),
                  "of the program"));
}

void ErrorsAreCaughtAsInternalErrors() {
  std::string message;
  try {
    Module::LoadFromFile("/nowhere/net.so");
  } catch (const tvm::runtime::InternalError& error) {
    message = error.what();
  }
  EXPECT(Contains(message, "/nowhere/net.so"));
  EXPECT(Contains(ErrorOf([] { NDArray().CopyToBytes(nullptr, 0); }), "null"));
}

// TVM passes names as std::string until 0.12, as String after that.
template <typename Result, typename Argument>
Argument ArgumentOf(Result (*)(Argument));
using NameArgument = decltype(ArgumentOf(&Registry::Get));

// A module of the program whose functions come from what it imports.
class Outer : public ModuleNode {
 public:
  explicit Outer(int depth) : depth_(depth) {}
  const char* type_key() const final { return "outer"; }
  PackedFunc GetFunction(NameArgument name,
                         const tvm::runtime::ObjectPtr<Object>&) final {
    if (name != "depth") return PackedFunc();
    if (depth_ > 0) return *GetFuncFromEnv(name);
    return PackedFunc([](TVMArgs, TVMRetValue* result) { *result = 0; });
  }

 private:
  int depth_;
};

void ImportsOfImportsAreFoundFromWithin() {
  Module inner(tvm::runtime::make_object<Outer>(0));
  for (int depth = 1; depth < 4; ++depth) {
    Module outer(tvm::runtime::make_object<Outer>(depth));
    outer.Import(inner);
    inner = outer;
  }
  EXPECT(static_cast<int>(inner.GetFunction("depth")()) == 0);
}

void ModulesImportModules() {
  Module first = Module::LoadFromFile(closure_path);
  Module second = Module::LoadFromFile(factory_path);
  first.Import(second);
  EXPECT(first->imports().size() == 1);
  EXPECT(first.GetFunction("default") == nullptr);
  EXPECT(first.GetFunction("default", true) != nullptr);
  EXPECT(Contains(ErrorOf([&] { second.Import(first); }), "import"));
}

void DeviceIsUsed() {
  DeviceAPI* device = DeviceAPI::Get(kCpu);
  void* memory = device->AllocDataSpace(kCpu, 256, 64, kFloat);
  EXPECT(memory != nullptr);
  device->FreeDataSpace(kCpu, memory);
  void* scratch = device->AllocWorkspace(kCpu, 256);
  device->FreeWorkspace(kCpu, scratch);
  device->StreamSync(kCpu, nullptr);
  TVMRetValue exists;
  device->GetAttr(kCpu, kExist, &exists);
  EXPECT(static_cast<int>(exists) == 1);
  const DLDevice cuda{kDLCUDA, 0};
  EXPECT(DeviceAPI::Get(cuda, true) == nullptr);
  EXPECT(Contains(ErrorOf([&] { DeviceAPI::Get(cuda); }), "no device"));
  TVMSynchronize(kDLCPU, 0, nullptr);
}

void TimeIsTaken() {
  Timer timer = Timer::Start(kCpu);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  timer->Stop();
  EXPECT(timer->SyncAndGetElapsedNanos() >= 2000000);
  EXPECT(threading::MaxConcurrency() >= 1);
}

void ThreadsWorkSideBySide() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      Module library = Module::LoadFromFile(factory_path);
      Module executor = library.GetFunction("default")(kCpu);
      for (int i = 0; i < 50; ++i) {
        executor.GetFunction("set_input")("x", Floats(kX));
        executor.GetFunction("run")();
        if (ValuesOf(executor.GetFunction("get_output")(0)) != kSum) abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

#define CHECK_ROW(name) \
  { #name, &name }

std::vector<Check> ExecutorChecks() {
  return {
      CHECK_ROW(FactoryRuns),
      CHECK_ROW(ExecutorIsCreatedFromItsParts),
      CHECK_ROW(DebugTwinGivesTheSame),
      CHECK_ROW(ReportIsHeldAndHandedBack),
      CHECK_ROW(ParametersAreSavedAndLoaded),
      CHECK_ROW(InfoComesInMapsOfMaps),
      CHECK_ROW(ZeroCopyUsesTheProgramsMemory),
      CHECK_ROW(KernelIsCalled),
      CHECK_ROW(ErrorsAreTvmsErrors),
      CHECK_ROW(ErrorsAreCaughtAsInternalErrors),
      CHECK_ROW(ModulesImportModules),
      CHECK_ROW(ImportsOfImportsAreFoundFromWithin),
      CHECK_ROW(DeviceIsUsed),
      CHECK_ROW(TimeIsTaken),
      CHECK_ROW(ThreadsWorkSideBySide),
  };
}

}  // namespace host

int main(int, char** argv) {
  // Each line is there even if a sanitizer ends the program.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  host::factory_path = argv[1];
  host::closure_path = argv[2];
  int failed = 0;
  for (const auto& checks : {host::ExecutorChecks(), host::ValueChecks()}) {
    for (const host::Check& check : checks) {
      try {
        check.function();
        std::printf("ok %s\n", check.name);
      } catch (const std::exception& error) {
        ++failed;
        std::printf("FAILED %s: %s\n", check.name, error.what());
      }
    }
  }
  std::printf("TVM %s: %d failed\n", TVM_VERSION, failed);
  return failed == 0 ? 0 : 1;
}
