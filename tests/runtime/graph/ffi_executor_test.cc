// Graphs over libraries of TVM-FFI: the executors take them as any other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/graph_executor.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Ref<Library> FfiLibrary(const char* name) {
  return LibraryOf(LoadTestLibrary(name));
}

TensorSpec Bools() { return {.shape = {3}, .dtype = "bool"}; }

TEST(FfiExecutorTest, BoolsOfEitherKindAreTakenAndShownAsTheCodeWantsThem) {
  auto executor = GraphExecutor::Create(GraphBuilder()
                                            .Input("x", Bools())
                                            .Op("a", "not", {"x"}, {Bools()})
                                            .Op("b", "not", {"a"}, {Bools()})
                                            .Head("b")
                                            .Build(),
                                        FfiLibrary("ffi_bool"));
  ASSERT_THAT(executor, IsOk());
  for (const DLDataType dtype : {kBool, kFfiBool}) {
    const NDArray x = MakeTensor<uint8_t>({3}, {1, 0, 1}, dtype);
    ASSERT_THAT((*executor)->SetInput("x", *x), IsOk());
    ASSERT_THAT((*executor)->Run(), IsOk());
    const NDArray y = MakeTensor<uint8_t>({3}, {7, 7, 7}, dtype);
    ASSERT_THAT((*executor)->CopyOutput(0, *y), IsOk());
    EXPECT_THAT(ValuesOf<uint8_t>(y), ElementsAre(1, 0, 1));
  }
}

TEST(FfiExecutorTest, BoolInputsMayLieInTheCallersMemory) {
  auto executor = GraphExecutor::Create(GraphBuilder()
                                            .Input("x", Bools())
                                            .Op("a", "not", {"x"}, {Bools()})
                                            .Head("a")
                                            .Build(),
                                        FfiLibrary("ffi_bool"));
  ASSERT_THAT(executor, IsOk());
  const NDArray x = MakeTensor<uint8_t>({3}, {0, 0, 0}, kFfiBool);
  ASSERT_THAT((*executor)->SetInputZeroCopy(0, x), IsOk());
  x.As<uint8_t>()[1] = 1;
  ASSERT_THAT((*executor)->Run(), IsOk());
  EXPECT_THAT(ValuesOf<uint8_t>(*(*executor)->GetOutput(0)),
              ElementsAre(1, 0, 1));
}

TEST(FfiExecutorTest, ErrorOfTheCodeNamesTheNode) {
  const TensorSpec three = {.shape = {3}};
  auto executor =
      GraphExecutor::Create(GraphBuilder()
                                .Input("x", three)
                                .Op("sum", kAdd, {"x", "x"}, {three})
                                .Head("sum")
                                .Build(),
                            FfiLibrary("ffi_add"));
  ASSERT_THAT(executor, IsOk());
  ASSERT_THAT((*executor)->SetInput("x", *Floats({1, 2, 3})), IsOk());
  EXPECT_THAT((*executor)->Run(),
              FailsWith(StatusCode::kInternal,
                        AllOf(HasSubstr("node 1 (sum)"),
                              HasSubstr("ValueError: Invalid x.shape[0] on "
                                        "argument, expected 4"))));
}

TEST(FfiExecutorTest, DebugExecutorTimesAndComputesTheSame) {
  auto executor = DebugExecutor::Create(GraphBuilder()
                                            .Input("x")
                                            .Op("a", kAdd, {"x", "x"})
                                            .Op("b", kAdd, {"a", "x"})
                                            .Head("b")
                                            .Build(),
                                        FfiLibrary("ffi_add"), {});
  ASSERT_THAT(executor, IsOk());
  ASSERT_THAT((*executor)->SetInput("x", *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT((*executor)->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*(*executor)->GetOutput(0)), ElementsAre(3, 6, 9, 12));
  EXPECT_GT((*executor)->times().nodes[2].end_ns, 0);
}

}  // namespace
}  // namespace nodewise
