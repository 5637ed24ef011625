// TVM's C API as a host program uses it: modules, functions and executors.

#include "nodewise/func/c_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <string>

#include "tests/support/c_calls.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

extern char** environ;

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TVMModuleHandle LoadC(const std::string& name) {
  TVMModuleHandle module = nullptr;
  EXPECT_EQ(TVMModLoadFromFile(LibraryPath(name).c_str(), "so", &module), 0)
      << TVMGetLastError();
  return module;
}

// A loaded artefact and an executor of it, freed at the end.
class CApiTest : public testing::Test {
 protected:
  // From the factory, with its parameters.
  void CreateDefault() {
    library_ = LoadC("factory");
    const CValue executor = CallMethod(library_, "default", {CDevice(kCpu)});
    ASSERT_EQ(executor.code, kTVMModuleHandle);
    executor_ = executor.value.v_handle;
  }
  // From the graph and the code, without parameters.
  TVMModuleHandle CreateBare() {
    if (library_ == nullptr) library_ = LoadC("add_llvm");
    const std::string json = AddGraphJson();
    const CValue executor = CallGlobal(
        "tvm.graph_executor.create",
        {CText(json.c_str()), CModule(library_), CInt(kDLCPU), CInt(0)});
    EXPECT_EQ(executor.code, kTVMModuleHandle);
    return executor.value.v_handle;
  }
  void TearDown() override {
    EXPECT_EQ(TVMModFree(executor_), 0);
    EXPECT_EQ(TVMModFree(library_), 0);
  }

  void SetX(const std::vector<float>& x) {
    const NDArray tensor = Floats(x);
    CallMethod(executor_, "set_input", {CText("x"), CTensor(&*tensor)});
  }
  std::vector<float> Output() {
    const NDArray out = Floats({0, 0, 0, 0});
    CallMethod(executor_, "get_output", {CInt(0), CTensor(&*out)});
    return ValuesOf(out);
  }

  TVMModuleHandle library_ = nullptr;
  TVMModuleHandle executor_ = nullptr;
};

// The parameter p0 in the bytes of a .params file.
std::string ParamsBytes(const std::vector<float>& p0) {
  const NDArray tensor = Floats(p0);
  const CValue map =
      CallGlobal("runtime.Map", {CText("p0"), CTensor(&*tensor)});
  const CValue bytes = CallGlobal(
      "runtime.SaveParams", {CHandle(map.value.v_handle, kTVMObjectHandle)});
  EXPECT_EQ(bytes.code, kTVMBytes);
  const auto* array = static_cast<TVMByteArray*>(bytes.value.v_handle);
  std::string text(array->data, array->size);
  TVMObjectFree(map.value.v_handle);
  return text;
}

// TV-28, TV-31.
TEST_F(CApiTest, FactorysExecutorRuns) {
  CreateDefault();
  SetX({1, 2, 3, 4});
  EXPECT_EQ(CallMethod(executor_, "run", {}).code, kTVMNullptr);
  EXPECT_THAT(Output(), ElementsAre(11, 22, 33, 44));
}

TEST_F(CApiTest, GetOutputGivesAnArrayTheHostFrees) {
  CreateDefault();
  SetX({0, 0, 0, 0});
  CallMethod(executor_, "run", {});
  const CValue output = CallMethod(executor_, "get_output", {CInt(0)});
  ASSERT_EQ(output.code, kTVMNDArrayHandle);
  auto* const array = static_cast<DLTensor*>(output.value.v_handle);
  EXPECT_THAT(ValuesOf(*array), ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(TVMArrayFree(array), 0);
}

TEST_F(CApiTest, RunBeforeTheInputsAreSetNamesThem) {
  executor_ = CreateBare();
  SetX({1, 2, 3, 4});
  EXPECT_THAT(MethodError(executor_, "run", {}),
              HasSubstr("1 of 2 inputs were never set: p0"));
}

TEST_F(CApiTest, LoadParamsTakesBytesAndText) {
  executor_ = CreateBare();
  SetX({1, 2, 3, 4});
  std::string params = ParamsBytes({5, 5, 5, 5});
  TVMByteArray bytes{params.data(), params.size()};
  const CValue set =
      CallMethod(executor_, "load_params", {CHandle(&bytes, kTVMBytes)});
  EXPECT_EQ(set.value.v_int64, 1);  // TV-20: how many names it knew.
  CallMethod(executor_, "run", {});
  EXPECT_THAT(Output(), ElementsAre(6, 7, 8, 9));
}

// TV-29
TEST_F(CApiTest, ManyInputsAreSetInOneCallOrNone) {
  executor_ = CreateBare();
  const NDArray x = Floats({1, 2, 3, 4}), p0 = Floats({5, 5, 5, 5});
  EXPECT_THAT(
      MethodError(executor_, "nodewise.set_inputs",
                  {CText("x"), CTensor(&*x), CText("q"), CTensor(&*p0)}),
      HasSubstr("input q: the graph has no such input"));
  EXPECT_THAT(MethodError(executor_, "run", {}), HasSubstr("2 of 2 inputs"));
  CallMethod(executor_, "nodewise.set_inputs",
             {CText("p0"), CTensor(&*p0), CText("x"), CTensor(&*x)});
  CallMethod(executor_, "run", {});
  EXPECT_THAT(Output(), ElementsAre(6, 7, 8, 9));
}

TEST_F(CApiTest, DamagedParamsAreRefused) {
  executor_ = CreateBare();
  std::string params = ParamsBytes({5, 5, 5, 5});
  TVMByteArray bytes{params.data(), params.size() - 1};
  EXPECT_THAT(
      MethodError(executor_, "load_params", {CHandle(&bytes, kTVMBytes)}),
      HasSubstr("params: byte "));
}

TEST_F(CApiTest, SharedParamsAreOneMemory) {
  executor_ = CreateBare();
  TVMModuleHandle const second = CreateBare();
  std::string params = ParamsBytes({1, 1, 1, 1});
  TVMByteArray bytes{params.data(), params.size()};
  CallMethod(second, "load_params", {CHandle(&bytes, kTVMBytes)});
  CallMethod(executor_, "share_params",
             {CModule(second), CHandle(&bytes, kTVMBytes)});
  TVMModFree(second);
  SetX({1, 2, 3, 4});
  CallMethod(executor_, "run", {});
  EXPECT_THAT(Output(), ElementsAre(2, 3, 4, 5));
}

TEST_F(CApiTest, InputInfoIsReadThroughTheMapFunctions) {
  CreateDefault();
  const CValue info = CallMethod(executor_, "get_input_info", {});
  ASSERT_EQ(info.code, kTVMObjectHandle);
  const CValue shapes =
      CallGlobal("runtime.MapGetItem", {info, CText("shape")});
  const CValue shape = CallGlobal("runtime.MapGetItem", {shapes, CText("x")});
  EXPECT_EQ(CallGlobal("runtime.GetShapeTupleSize", {shape}).value.v_int64, 1);
  EXPECT_EQ(
      CallGlobal("runtime.GetShapeTupleElem", {shape, CInt(0)}).value.v_int64,
      4);
  const CValue dtypes =
      CallGlobal("runtime.MapGetItem", {info, CText("dtype")});
  const CValue dtype = CallGlobal("runtime.MapGetItem", {dtypes, CText("x")});
  EXPECT_STREQ(CallGlobal("runtime.GetFFIString", {dtype}).value.v_str,
               "float32");
  for (const CValue& held : {info, shapes, shape, dtypes, dtype}) {
    EXPECT_EQ(TVMObjectFree(held.value.v_handle), 0);
  }
}

TEST_F(CApiTest, RunFromInputsGivesAllOutputs) {
  CreateDefault();
  const NDArray x = Floats({1, 1, 1, 1});
  const CValue outputs =
      CallMethod(executor_, "run_from_inputs",
                 {CInt(kDLCPU), CInt(0), CText("x"), CTensor(&*x)});
  ASSERT_EQ(outputs.code, kTVMObjectHandle);
  EXPECT_EQ(CallGlobal("runtime.ArraySize", {outputs}).value.v_int64, 1);
  const CValue first = CallGlobal("runtime.ArrayGetItem", {outputs, CInt(0)});
  ASSERT_EQ(first.code, kTVMNDArrayHandle);
  auto* const array = static_cast<DLTensor*>(first.value.v_handle);
  EXPECT_THAT(ValuesOf(*array), ElementsAre(11, 21, 31, 41));
  TVMArrayFree(array);
  TVMObjectFree(outputs.value.v_handle);
}

TEST_F(CApiTest, ZeroCopyUsesTheHostsMemory) {
  CreateDefault();
  const NDArray x = Floats({1, 2, 3, 4});
  const NDArray out = Floats({0, 0, 0, 0});
  CallMethod(executor_, "set_input_zero_copy", {CText("x"), CTensor(&*x)});
  CallMethod(executor_, "set_output_zero_copy", {CInt(0), CTensor(&*out)});
  CallMethod(executor_, "run", {});
  EXPECT_THAT(ValuesOf(out), ElementsAre(11, 22, 33, 44));
  x.As<float>()[0] = 100;
  CallMethod(executor_, "run", {});
  EXPECT_THAT(ValuesOf(out), ElementsAre(110, 22, 33, 44));
}

TEST_F(CApiTest, UnalignedZeroCopyStillWorks) {
  CreateDefault();
  const NDArray x = CopyAtOffset(Floats({1, 2, 3, 4}), 4);
  const NDArray out = CopyAtOffset(Floats({0, 0, 0, 0}), 4);
  CallMethod(executor_, "set_input_zero_copy", {CText("x"), CTensor(&*x)});
  CallMethod(executor_, "set_output_zero_copy", {CInt(0), CTensor(&*out)});
  CallMethod(executor_, "run", {});
  EXPECT_THAT(ValuesOf(out), ElementsAre(11, 22, 33, 44));
}

TEST_F(CApiTest, InputsAndOutputsAreCounted) {
  CreateDefault();
  EXPECT_EQ(CallMethod(executor_, "get_num_inputs", {}).value.v_int64, 2);
  EXPECT_EQ(CallMethod(executor_, "get_num_outputs", {}).value.v_int64, 1);
  EXPECT_EQ(
      CallMethod(executor_, "get_input_index", {CText("p0")}).value.v_int64, 1);
  EXPECT_EQ(
      CallMethod(executor_, "get_input_index", {CText("no")}).value.v_int64,
      -1);
  EXPECT_EQ(CallMethod(executor_, "get_input", {CText("no")}).code,
            kTVMNullptr);
}

TEST_F(CApiTest, MisuseOfTheExecutorIsExplained) {
  CreateDefault();
  const NDArray wrong = MakeTensor<int32_t>({4}, {1, 2, 3, 4});
  const NDArray x = Floats({1, 2, 3, 4});
  EXPECT_THAT(
      MethodError(executor_, "set_input", {CText("x"), CTensor(&*wrong)}),
      HasSubstr("tensor x is int32 (4,), expected float32 (4,)"));
  EXPECT_THAT(MethodError(executor_, "set_input", {CText("y"), CTensor(&*x)}),
              HasSubstr("input y: the graph has no such input"));
  EXPECT_THAT(MethodError(executor_, "set_input", {CInt(2), CTensor(&*x)}),
              HasSubstr("input 2: the graph has 2 inputs"));
  EXPECT_THAT(MethodError(executor_, "set_input", {CInt(-1), CTensor(&*x)}),
              HasSubstr("the graph has 2 inputs"));
  EXPECT_THAT(MethodError(executor_, "set_input", {CText("x")}),
              HasSubstr("not enough arguments"));
  EXPECT_THAT(MethodError(executor_, "get_output", {CInt(0), CTensor(&*x)}),
              HasSubstr("has not been run"));
  EXPECT_THAT(MethodError(executor_, "get_output", {CInt(1)}),
              HasSubstr("output 1: the graph has 1 outputs"));
}

TEST_F(CApiTest, CreateExplainsWhatItCannotDo) {
  library_ = LoadC("returns");
  const std::string json = AddGraphJson();
  TVMFunctionHandle create = nullptr;
  ASSERT_EQ(TVMFuncGetGlobal("tvm.graph_executor.create", &create), 0);
  int rc = 0;
  CallC(create, {CText(json.c_str()), CModule(library_), CInt(kDLCPU), CInt(0)},
        &rc);
  EXPECT_EQ(rc, -1);
  EXPECT_THAT(TVMGetLastError(),
              HasSubstr("no function tvmgen_default_fused_add"));
  CallC(create, {CText("{"), CModule(library_), CInt(kDLCPU), CInt(0)}, &rc);
  EXPECT_EQ(rc, -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("graph JSON"));
  CallC(create, {CText(json.c_str()), CText("no module"), CInt(1), CInt(0)},
        &rc);
  EXPECT_EQ(rc, -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("is string, expected module"));
  TVMFuncFree(create);
}

TEST_F(CApiTest, MissingFileAndFunctionAreTold) {
  TVMModuleHandle module = nullptr;
  EXPECT_EQ(TVMModLoadFromFile("/nowhere/net.so", "", &module), -1);
  EXPECT_STREQ(TVMGetLastError(),
               "InternalError: /nowhere/net.so: cannot open shared object "
               "file: No such file or directory");
  library_ = LoadC("add_llvm");
  TVMFunctionHandle function = &module;
  EXPECT_EQ(TVMModGetFunction(library_, "no_such", 1, &function), 0);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(TVMModGetFunction(nullptr, "run", 0, &function), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("module is null"));
}

TEST_F(CApiTest, ImportsAreSearchedOnRequest) {
  library_ = LoadC("returns");
  TVMModuleHandle const other = LoadC("split");
  EXPECT_EQ(TVMModImport(library_, other), 0);
  EXPECT_EQ(TVMModFree(other), 0);
  TVMFunctionHandle function = nullptr;
  EXPECT_EQ(TVMModGetFunction(library_, "split", 0, &function), 0);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(TVMModGetFunction(library_, "split", 1, &function), 0);
  EXPECT_NE(function, nullptr);
  TVMFuncFree(function);
  EXPECT_EQ(TVMModImport(library_, library_), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("cannot import"));
}

TEST_F(CApiTest, ModuleTreeIsReadThroughTheModuleFunctions) {
  library_ = LoadC("factory_cuda");
  const CValue root = CModule(library_);
  EXPECT_STREQ(CallGlobal("runtime.ModuleGetTypeKey", {root}).value.v_str,
               "GraphExecutorFactory");
  EXPECT_EQ(CallGlobal("runtime.ModuleImportsSize", {root}).value.v_int64, 1);
  const CValue code = CallGlobal("runtime.ModuleGetImport", {root, CInt(0)});
  ASSERT_EQ(code.code, kTVMModuleHandle);
  EXPECT_EQ(CallGlobal("runtime.ModuleImplementsFunction",
                       {code, CText("the_kernel"), CInt(1)})
                .value.v_int64,
            1);
  EXPECT_STREQ(CallGlobal("runtime.ModuleGetFormat", {code}).value.v_str, "so");
  TVMModFree(code.value.v_handle);
}

// A callback that says how often it was called, and returns its argument.
struct Counter {
  int calls = 0;
  bool finalized = false;
};
int Echo(TVMValue* args, int* codes, int count, TVMRetValueHandle ret,
         void* resource) {
  auto* const counter = static_cast<Counter*>(resource);
  ++counter->calls;
  if (count != 1) {
    TVMAPISetLastError("echo: wants one argument");
    return -1;
  }
  return TVMCFuncSetReturn(ret, args, codes, 1);
}
void Finalize(void* resource) {
  static_cast<Counter*>(resource)->finalized = true;
}

TEST(CApiFunctionTest, CallbackBecomesAFunction) {
  Counter counter;
  TVMFunctionHandle echo = nullptr;
  ASSERT_EQ(TVMFuncCreateFromCFunc(&Echo, &counter, &Finalize, &echo), 0);
  int rc = -1;
  EXPECT_EQ(CallC(echo, {CInt(5)}, &rc).value.v_int64, 5);
  const CValue text = CallC(echo, {CText("hello")}, &rc);
  EXPECT_EQ(text.code, kTVMStr);
  EXPECT_STREQ(text.value.v_str, "hello");
  EXPECT_EQ(counter.calls, 2);
  CallC(echo, {}, &rc);
  EXPECT_EQ(rc, -1);
  EXPECT_STREQ(TVMGetLastError(), "echo: wants one argument");
  EXPECT_FALSE(counter.finalized);
  EXPECT_EQ(TVMFuncFree(echo), 0);
  EXPECT_TRUE(counter.finalized);
}

TEST(CApiFunctionTest, ResultMayBeUnwanted) {
  Counter counter;
  TVMFunctionHandle echo = nullptr;
  ASSERT_EQ(TVMFuncCreateFromCFunc(&Echo, &counter, nullptr, &echo), 0);
  CValue five = CInt(5);
  EXPECT_EQ(TVMFuncCall(echo, &five.value, &five.code, 1, nullptr, nullptr), 0);
  EXPECT_EQ(counter.calls, 1);
  TVMFuncFree(echo);
}

TEST(CApiFunctionTest, ObjectReturnedByACallbackIsCounted) {
  Counter counter;
  TVMFunctionHandle echo = nullptr;
  ASSERT_EQ(TVMFuncCreateFromCFunc(&Echo, &counter, nullptr, &echo), 0);
  const CValue array = CallGlobal("runtime.Array", {CInt(1), CInt(2)});
  int rc = -1;
  const CValue same = CallC(echo, {array}, &rc);
  EXPECT_EQ(same.value.v_handle, array.value.v_handle);
  TVMObjectFree(array.value.v_handle);
  EXPECT_EQ(CallGlobal("runtime.ArraySize", {same}).value.v_int64, 2);
  TVMObjectFree(same.value.v_handle);
  TVMFuncFree(echo);
}

TEST(CApiFunctionTest, CallbackReturnsOneValue) {
  CValue two[2];
  Value ret;
  EXPECT_EQ(TVMCFuncSetReturn(&ret, &two[0].value, &two[0].code, 2), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("got 2 values, expected 1"));
}

TEST(CApiFunctionTest, ArgumentOfACallbackIsKeptByTurningItIntoAResult) {
  std::string text = "argument";
  CValue arg = CText(text.c_str());
  ASSERT_EQ(TVMCbArgToReturn(&arg.value, &arg.code), 0);
  text = "changed!";
  EXPECT_STREQ(arg.value.v_str, "argument");
  CValue object = CallGlobal("runtime.Array", {});
  TVMObjectHandle const handle = object.value.v_handle;
  ASSERT_EQ(TVMCbArgToReturn(&object.value, &object.code), 0);
  TVMObjectFree(handle);
  EXPECT_EQ(CallGlobal("runtime.ArraySize", {object}).value.v_int64, 0);
  TVMObjectFree(object.value.v_handle);
}

TEST(CApiFunctionTest, GlobalsAreRegisteredListedAndRemoved) {
  Counter counter;
  TVMFunctionHandle echo = nullptr;
  ASSERT_EQ(TVMFuncCreateFromCFunc(&Echo, &counter, &Finalize, &echo), 0);
  EXPECT_EQ(TVMFuncRegisterGlobal("test.echo", echo, 0), 0);
  EXPECT_EQ(TVMFuncRegisterGlobal("test.echo", echo, 0), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("test.echo is registered already"));
  EXPECT_EQ(TVMFuncRegisterGlobal("test.echo", echo, 1), 0);
  TVMFuncFree(echo);
  EXPECT_EQ(CallGlobal("test.echo", {CInt(3)}).value.v_int64, 3);
  int count = 0;
  const char** names = nullptr;
  ASSERT_EQ(TVMFuncListGlobalNames(&count, &names), 0);
  EXPECT_EQ(std::count(names, names + count, std::string("test.echo")), 1);
  EXPECT_EQ(TVMFuncRemoveGlobal("test.echo"), 0);
  EXPECT_TRUE(counter.finalized);
  EXPECT_EQ(TVMFuncRemoveGlobal("test.echo"), -1);
}

TEST(CApiFunctionTest, MissingGlobalIsNullAndNoError) {
  TVMFunctionHandle function = &function;
  EXPECT_EQ(TVMFuncGetGlobal("test.nothing", &function), 0);
  EXPECT_EQ(function, nullptr);
}

TEST(CApiFunctionTest, ParamsFunctionsReadWhatTheyWrote) {
  const std::string params = ParamsBytes({1, 2, 3, 4});
  TVMByteArray bytes{params.data(), params.size()};
  const CValue map =
      CallGlobal("runtime.LoadParams", {CHandle(&bytes, kTVMBytes)});
  const CValue p0 = CallGlobal("runtime.MapGetItem", {map, CText("p0")});
  ASSERT_EQ(p0.code, kTVMNDArrayHandle);
  auto* const array = static_cast<DLTensor*>(p0.value.v_handle);
  EXPECT_THAT(ValuesOf(*array), ElementsAre(1, 2, 3, 4));
  TVMArrayFree(array);
  TVMObjectFree(map.value.v_handle);
}

// The exit status of the C program, run on a test library.
int RunCHost(const std::string& library) {
  std::string program = NODEWISE_TEST_BINARIES "/nodewise_c_host";
  std::string path = LibraryPath(library);
  char* const args[] = {program.data(), path.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, program.c_str(), nullptr, nullptr, args, environ) !=
      0) {
    return -1;
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST(CHostTest, ProgramInCRunsArtefactsOfBothTargets) {
  EXPECT_EQ(RunCHost("factory"), 0);
  EXPECT_EQ(RunCHost("factory_c"), 0);
  EXPECT_EQ(RunCHost("factory_07"), 0);
  EXPECT_EQ(RunCHost("no_such_library"), 1);
}

}  // namespace
}  // namespace nodewise
