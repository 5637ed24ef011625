// What becomes of the exceptions of Python callbacks. Stand-ins for Python's
// functions count the references to them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "nodewise/func/c_api.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/func/registry.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/support/status.h"
#include "nodewise/support/thread_pool.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

// What Python has of an object: how often it is referred to.
struct Exception {
  int references = 1;
};

// How deep the lock is held, and whether anything was counted without it.
struct Lock {
  int depth = 0;
  int taken = 0;
  bool was_missing = false;
} the_lock;

void CountUp(void* object) {
  the_lock.was_missing |= the_lock.depth == 0;
  ++static_cast<Exception*>(object)->references;
}
void CountDown(void* object) {
  the_lock.was_missing |= the_lock.depth == 0;
  --static_cast<Exception*>(object)->references;
}
void* TakeLock() {
  ++the_lock.depth;
  ++the_lock.taken;
  return &the_lock;
}
void ReleaseLock(void* state) {
  EXPECT_EQ(state, &the_lock);
  --the_lock.depth;
}

template <typename Function>
void Register(const char* name, Function* function) {
  ASSERT_EQ(TVMBackendRegisterEnvCAPI(name, reinterpret_cast<void*>(function)),
            0);
}

class PythonErrorTest : public testing::Test {
 protected:
  void SetUp() override {
    the_lock = {};
    Register("Py_IncRef", &CountUp);
    Register("Py_DecRef", &CountDown);
  }
  void TearDown() override {
    SetLastError(absl::InternalError("the end of a test"));
    EXPECT_EQ(raised_.references, 1);
    for (const char* name : {"Py_IncRef", "Py_DecRef", "PyGILState_Ensure",
                             "PyGILState_Release"}) {
      EXPECT_THAT(SetPythonFunction(name, nullptr), IsOk());
    }
  }

  // A callback of Python's that raises.
  PackedFunc Raiser() {
    return PackedFunc::FromCallback(
        [](TVMValue*, int*, int, TVMRetValueHandle, void* exception) {
          TVMAPISetLastPythonError(exception);
          return -1;
        },
        &raised_, nullptr);
  }

  Exception raised_;
};

// A callback that calls `inner` and fails with it, as Python's do.
PackedFunc Calling(const PackedFunc& inner) {
  return PackedFunc::FromBody(
      [inner](PackedArgs args) { return inner.CallPacked(args); });
}

TEST_F(PythonErrorTest, ExceptionComesBackThroughThreeFunctions) {
  const PackedFunc outer = Calling(Calling(Calling(Raiser())));
  TVMValue ret;
  int code = 0;
  EXPECT_EQ(
      TVMFuncCall(outer.object()->handle(), nullptr, nullptr, 0, &ret, &code),
      -1);
  EXPECT_EQ(TVMGetLastPythonError(), &raised_);
  EXPECT_EQ(raised_.references, 2);
  EXPECT_STREQ(TVMGetLastBacktrace(), "");
}

TEST_F(PythonErrorTest, DroppedExceptionIsGivenBack) {
  TVMAPISetLastPythonError(&raised_);
  TVMDropLastPythonError();
  EXPECT_EQ(TVMGetLastPythonError(), nullptr);
  EXPECT_EQ(raised_.references, 1);
  EXPECT_FALSE(HasLastError());
}

TEST_F(PythonErrorTest, NextErrorGivesTheExceptionBack) {
  TVMAPISetLastPythonError(&raised_);
  TVMAPISetLastError("another");
  EXPECT_EQ(TVMGetLastPythonError(), nullptr);
  EXPECT_EQ(raised_.references, 1);
}

TEST_F(PythonErrorTest, LaterFailureRaisesNoStaleException) {
  ASSERT_FALSE(Raiser().Call().ok());
  TVMModuleHandle module = nullptr;
  ASSERT_EQ(TVMModLoadFromFile("/nowhere.so", "", &module), -1);
  EXPECT_EQ(TVMGetLastPythonError(), nullptr);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("/nowhere.so"));
}

TEST_F(PythonErrorTest, ExceptionThatAFunctionCaughtIsNotTheReasonOfALaterOne) {
  const auto catches = PackedFunc::FromBody([&](PackedArgs) {
    EXPECT_FALSE(Raiser().Call().ok());
    return absl::StatusOr<Value>(Value(1));
  });
  ASSERT_THAT(catches.Call(), IsOk());
  const auto silent = PackedFunc::FromCallback(
      [](TVMValue*, int*, int, TVMRetValueHandle, void*) { return -1; },
      nullptr, nullptr);
  const absl::Status status = silent.Call().status();
  EXPECT_THAT(status, FailsWith(StatusCode::kInternal,
                                "the function failed without saying why"));
  EXPECT_EQ(PythonExceptionOf(status), nullptr);
}

TEST_F(PythonErrorTest, ExceptionPassesCompiledCode) {
  const PackedFunc compiled =
      FunctionOf(LoadTestLibrary("closure_llvm"), "calls_argument");
  const absl::Status status =
      compiled.Call(Ref<Object>(Raiser().object()), 1).status();
  EXPECT_EQ(PythonExceptionOf(status), &raised_);
}

TEST_F(PythonErrorTest, ExceptionPassesAnExecutorWhichNamesTheNode) {
  const Ref<Library> library = BuiltInLibrary(
      {{"raise", [&](const KernelRequest&) -> absl::StatusOr<PackedFunc> {
          return Raiser();
        }}});
  auto executor = GraphExecutor::Create(
      GraphBuilder().Op("r", "raise", {}).Head("r").Build(), library, {});
  ASSERT_THAT(executor, IsOk());
  const absl::Status status = (*executor)->Run();
  EXPECT_THAT(status,
              FailsWith(StatusCode::kInternal,
                        HasSubstr("node 0 (r): raise: a Python callback "
                                  "raised an exception")));
  EXPECT_EQ(PythonExceptionOf(status), &raised_);
}

TEST_F(PythonErrorTest, ExceptionPassesAParallelLoop) {
  const absl::Status status = ParallelRun(2, [&](int task, TaskGroup&) {
    return task == 1 ? Raiser().Call().status() : absl::OkStatus();
  });
  EXPECT_EQ(PythonExceptionOf(status), &raised_);
}

TEST_F(PythonErrorTest, CountingIsDoneUnderPythonsLock) {
  Register("PyGILState_Ensure", &TakeLock);
  Register("PyGILState_Release", &ReleaseLock);
  TVMAPISetLastPythonError(&raised_);
  TVMDropLastPythonError();
  EXPECT_EQ(the_lock.taken, 2);
  EXPECT_EQ(the_lock.depth, 0);
  EXPECT_FALSE(the_lock.was_missing);
}

// Nothing tells whether Python is still there when a thread ends.
TEST_F(PythonErrorTest, EndOfAThreadLeavesTheExceptionAlone) {
  std::thread([&] { TVMAPISetLastPythonError(&raised_); }).join();
  EXPECT_EQ(raised_.references, 2);
  --raised_.references;
}

// The end of an exception runs Python code, which may call the runtime.
TEST_F(PythonErrorTest, EndOfAnExceptionMaySetAnError) {
  static Exception last{0};
  Register(
      "Py_DecRef", +[](void* object) {
        --static_cast<Exception*>(object)->references;
        TVMAPISetLastError("of the destructor");
      });
  TVMAPISetLastPythonError(&last);
  TVMAPISetLastError("next");
  EXPECT_STREQ(TVMGetLastError(), "of the destructor");
  EXPECT_EQ(last.references, 0);
}

TEST_F(PythonErrorTest, NoExceptionIsAnErrorWithoutOne) {
  TVMAPISetLastPythonError(nullptr);
  EXPECT_EQ(TVMGetLastPythonError(), nullptr);
  EXPECT_THAT(TakeLastError(), FailsWith(StatusCode::kInternal,
                                         "a Python callback raised an "
                                         "exception"));
}

TEST_F(PythonErrorTest, ExceptionThatCannotBeCountedIsNotKept) {
  EXPECT_THAT(SetPythonFunction("Py_DecRef", nullptr), IsOk());
  TVMAPISetLastPythonError(&raised_);
  EXPECT_EQ(TVMGetLastPythonError(), nullptr);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("TVMBackendRegisterEnvCAPI"));
}

TEST(PythonFunctionTest, UnknownFunctionsAreNamed) {
  int something = 0;
  EXPECT_EQ(TVMBackendRegisterEnvCAPI("Py_Main", &something), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("Py_Main is not known here"));
}

}  // namespace
}  // namespace nodewise
