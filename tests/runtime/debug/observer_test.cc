// What observers, and code that throws, may do to the executor that runs them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/profile/profiler.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/runtime/dump/dump_support.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Executor = std::unique_ptr<DebugExecutor>;

// x -> a -> b -> c, each one more.
GraphBuilder Chain() {
  return GraphBuilder()
      .Input("x")
      .Op("a", "inc", {"x"})
      .Op("b", "inc", {"a"})
      .Op("c", "inc", {"b"})
      .Head("c");
}

Executor MakeRecording(const GraphBuilder& graph,
                       const std::string& dump_root = "",
                       Ref<Library> library = TestKernels()) {
  DebugExecutor::DebugOptions options;
  options.records = !dump_root.empty();
  options.record.root = dump_root;
  Executor executor =
      DebugExecutor::Create(graph.Build(), std::move(library), options).value();
  EXPECT_THAT(executor->SetInput(0, *Floats({0, 1, 2, 3})), IsOk());
  return executor;
}

// Calls a function after each node.
class After : public NodeObserver {
 public:
  explicit After(std::function<void(NodeId)> call) : call_(std::move(call)) {}
  absl::Status AfterNode(const NodeRun& node) override {
    call_(node.node);
    return absl::OkStatus();
  }

 private:
  std::function<void(NodeId)> call_;
};

bool throws = false;

// Adds one. Like compiled code, it is called directly, without a wrapper.
int AddOneOrThrow(TVMValue* args, int*, int, TVMValue*, int*, void*) {
  if (throws) throw std::runtime_error("the code threw this");
  const auto* from = static_cast<const DLTensor*>(args[0].v_handle);
  const auto* to = static_cast<const DLTensor*>(args[1].v_handle);
  for (int i = 0; i < 4; ++i) {
    static_cast<float*>(to->data)[i] = static_cast<float*>(from->data)[i] + 1;
  }
  return 0;
}

// x -> a -> b in the place of a, by code that may throw.
Executor MakeThrowing(const std::string& dump_root = "") {
  const Ref<Library> library = BuiltInLibrary(
      {{"raw", [](const KernelRequest&) {
          return absl::StatusOr<PackedFunc>(
              PackedFunc::FromAddress(&AddOneOrThrow, nullptr, {}));
        }}});
  throws = false;
  return MakeRecording(GraphBuilder()
                           .Input("x")
                           .Op("a", "raw", {"x"}, {{{4}, "float32", 7}})
                           .Op("b", "raw", {"a"}, {{{4}, "float32", 7}})
                           .Head("b"),
                       dump_root, library);
}

const auto kThrown = FailsWith(
    StatusCode::kInternal,
    AllOf(HasSubstr("node 1 (a): raw"), HasSubstr("the code threw this")));

TEST(ExceptionTest, OfCompiledCodeIsAnErrorOfTheRunAndTheNextRunIsWhole) {
  for (const std::string& root : {std::string(), Folder()}) {
    const Executor executor = MakeThrowing(root);
    throws = true;
    EXPECT_THAT(executor->Run(), kThrown);
    EXPECT_FALSE(executor->CheckLive(EntryId{1}).ok());
    throws = false;
    ASSERT_THAT(executor->Run(), IsOk());
    EXPECT_THAT(executor->dump_status(), IsOk());
    EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 3, 4, 5));
  }
}

TEST(ExceptionTest, OfCompiledCodeIsAnErrorOfTheProfile) {
  const Executor executor = MakeThrowing();
  throws = true;
  EXPECT_THAT(Profiler(executor.get()).Run({}), kThrown);
  EXPECT_THAT(Profiler(executor.get()).TimeNodes({}), kThrown);
  EXPECT_THAT(Profiler(executor.get()).TimeNode(NodeId{1}, {}), kThrown);
}

TEST(ExceptionTest, OfTheInvokerIsAnErrorOfTheNode) {
  const Executor executor = MakeRecording(Chain());
  executor->SetInvoker(
      [](NodeId, absl::FunctionRef<absl::Status()>) -> absl::Status {
        throw std::runtime_error("the invoker threw this");
      });
  EXPECT_THAT(executor->Run(), FailsWith(StatusCode::kInternal,
                                         HasSubstr("the invoker threw this")));
}

TEST(ExceptionTest, OfAnObserverPassesAndTheNextRunIsWhole) {
  const Executor executor = MakeRecording(Chain(), Folder());
  After thrower([](NodeId) { throw std::runtime_error("of the observer"); });
  executor->AddObserver(&thrower);
  EXPECT_THROW((void)executor->Run(), std::runtime_error);
  executor->RemoveObserver(&thrower);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(executor->dump_status(), IsOk());
  EXPECT_EQ(OpenDump(executor->dump_folder())->tensors.tensors.size(), 4u);
}

TEST(ObserverTest, RunIsRecordedToItsEndThoughAnObserverEndsRecording) {
  const Executor executor = MakeRecording(Chain(), Folder());
  After stop([&](NodeId) { executor->StopRecording(); });
  executor->AddObserver(&stop);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(executor->dump_status(), IsOk());
  const auto dump = OpenDump(executor->dump_folder());
  ASSERT_THAT(dump, IsOk());
  EXPECT_EQ(dump->tensors.tensors.size(), 4u);
  EXPECT_EQ(executor->dump_plan(), nullptr);
}

TEST(ObserverTest, RunIsRecordedAsItBeganThoughAnObserverChangesWhat) {
  const std::string root = Folder();
  const Executor executor = MakeRecording(Chain(), root + "/first");
  After change([&](NodeId) {
    EXPECT_THAT(executor->StartRecording({.select = "a", .root = root + "/b"}),
                IsOk());
  });
  executor->AddObserver(&change);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(executor->dump_folder(), HasSubstr("/first"));
  const auto dump = OpenDump(executor->dump_folder());
  ASSERT_THAT(dump, IsOk());
  EXPECT_EQ(dump->tensors.tensors.size(), 4u);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(executor->dump_folder(), HasSubstr("/b"));
}

TEST(ObserverTest, ThatRemovesItselfLeavesTheOthersTheirNodes) {
  const Executor executor = MakeRecording(Chain());
  std::string seen;
  After* leaving = nullptr;
  After first([&](NodeId) {
    seen += "first ";
    executor->RemoveObserver(leaving);
  });
  After second([&](NodeId node) { seen += std::to_string(Index(node)); });
  After third([&](NodeId node) { seen += std::to_string(Index(node)) + " "; });
  leaving = &first;
  executor->AddObserver(&first);
  executor->AddObserver(&second);
  executor->AddObserver(&third);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(seen, "first 11 22 33 ");
}

TEST(ObserverTest, ThatRemovesALaterOneKeepsItFromBeingCalled) {
  const Executor executor = MakeRecording(Chain());
  After last([](NodeId) { FAIL() << "it was removed"; });
  After first([&](NodeId) { executor->RemoveObserver(&last); });
  executor->AddObserver(&first);
  executor->AddObserver(&last);
  ASSERT_THAT(executor->Run(), IsOk());
}

TEST(ObserverTest, ThatIsAddedByAnotherIsCalledFromTheNextNode) {
  const Executor executor = MakeRecording(Chain());
  std::vector<After> more;
  std::string seen;
  for (int i = 0; i < 20; ++i) {
    more.emplace_back(
        [&](NodeId node) { seen += std::to_string(Index(node)); });
  }
  bool is_first = true;
  After adder([&](NodeId) {
    for (After& one : more) {
      if (is_first) executor->AddObserver(&one);
    }
    is_first = false;
  });
  executor->AddObserver(&adder);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(seen, std::string(20, '2') + std::string(20, '3'));
}

}  // namespace
}  // namespace nodewise
