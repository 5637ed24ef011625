#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/ndarray/hash.h"
#include "nodewise/runner/runner.h"
#include "nodewise/runners/runner_list.h"
#include "tests/runtime/debug/more_kernels.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// x -> a = inc -> f = `kernel` -> z = copy.
std::unique_ptr<Runner> GuardedRunnerOf(const FloatKernel& kernel) {
  Artefact artefact;
  artefact.graph = GraphBuilder()
                       .Input("x")
                       .Op("a", "inc", {"x"})
                       .Op("f", "faulty", {"a"})
                       .Op("z", "copy", {"f"})
                       .Head("z")
                       .Build();
  artefact.library = WithKernels({{"faulty", kernel}});
  const auto target =
      GraphTarget::FromArtefact("net", std::move(artefact), {kCpu});
  return MakerOf("guarded", {"net", *target}).value()().value();
}

const std::vector<NamedTensor>& FourNumbers() {
  static const std::vector<NamedTensor> given = {{"x", Floats({1, 2, 3, 4})}};
  return given;
}

NodeFailure NodeFailureOf(const FloatKernel& kernel,
                          int64_t limit_ms = 60'000) {
  RunOptions options;
  options.node_limit_ms = limit_ms;
  const auto result = GuardedRunnerOf(kernel)->Run(FourNumbers(), options);
  EXPECT_THAT(MessageOf(result.status()), HasSubstr("node 2 (f): "));
  const auto failure = FailureOf(result.status());
  EXPECT_TRUE(failure.has_value()) << result.status();
  return failure.value_or(NodeFailure());
}

class NameSink : public TensorSink {
 public:
  absl::Status Consume(const TensorItem& item) override {
    names.push_back(item.key.Name());
    if (item.hash.has_value()) hashes.push_back(item.hash->value);
    has_contents = has_contents || item.tensor != nullptr;
    return absl::OkStatus();
  }

  std::vector<std::string> names;
  std::vector<uint64_t> hashes;
  bool has_contents = false;
};

TEST(GuardedRunnerTest, ACrashIsAnErrorThatNamesTheNode) {
  const NodeFailure failure =
      NodeFailureOf([](const std::vector<float*>&) { *Address(16) = 1; });
  EXPECT_EQ(failure.node, "f");
  EXPECT_EQ(failure.kind, NodeFailure::Kind::kCrash);
  EXPECT_EQ(failure.what, "crashed with SIGSEGV at address 0x10");
}

TEST(GuardedRunnerTest, TheEndOfTheProcessIsAnErrorThatNamesTheNode) {
  for (const bool quietly : {false, true}) {
    const NodeFailure failure =
        NodeFailureOf([quietly](const std::vector<float*>&) {
          if (quietly) _exit(3);
          std::exit(3);
        });
    EXPECT_EQ(failure.kind, NodeFailure::Kind::kExit);
    EXPECT_EQ(failure.what, "ended the process with exit status 3");
  }
}

TEST(GuardedRunnerTest, ANodeThatDoesNotReturnIsStopped) {
  const NodeFailure failure = NodeFailureOf(
      [](const std::vector<float*>&) {
        for (volatile bool goes_on = true; goes_on;) {
        }
      },
      200);
  EXPECT_EQ(failure.kind, NodeFailure::Kind::kHang);
  EXPECT_EQ(failure.what, "had not returned after 200 ms and was stopped");
}

TEST(GuardedRunnerTest, ASignalFromOutsideIsNotAFailureOfTheNode) {
  const auto runner = GuardedRunnerOf(
      [](const std::vector<float*>&) { kill(getpid(), SIGKILL); });
  const auto result = runner->Run(FourNumbers());
  EXPECT_THAT(result, FailsWith(absl::StatusCode::kAborted,
                                HasSubstr("node 2 (f): its process was ended "
                                          "from outside: crashed with "
                                          "SIGKILL")));
  EXPECT_FALSE(FailureOf(result.status()).has_value());
}

TEST(GuardedRunnerTest, TheSinkHasGotWhatWasMadeBefore) {
  NameSink sink;
  RunOptions options;
  options.sink = &sink;
  options.with_node_inputs = true;
  const auto runner =
      GuardedRunnerOf([](const std::vector<float*>&) { std::abort(); });
  const auto result = runner->Run(FourNumbers(), options);
  EXPECT_EQ(FailureOf(result.status())->what, "crashed with SIGABRT");
  EXPECT_THAT(sink.names, ElementsAre("x", "a:input:0", "a", "f:input:0"));
}

TEST(GuardedRunnerTest, WhatANodeDoesToMemoryStaysInItsRun) {
  auto calls = std::make_shared<int>(0);
  const auto runner = GuardedRunnerOf([calls](const std::vector<float*>& t) {
    *t[1] = static_cast<float>(++*calls);
  });
  for (int run = 0; run < 2; ++run) {
    const auto result = runner->Run(FourNumbers());
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->outputs[0].tensor.As<float>()[0], 1);
  }
  EXPECT_EQ(*calls, 0);
}

TEST(GuardedRunnerTest, HashesComeWithoutContents) {
  NameSink sink;
  RunOptions options;
  options.sink = &sink;
  options.hashes_suffice = true;
  options.repeats = 2;
  const auto runner = GuardedRunnerOf(
      [](const std::vector<float*>& t) { std::copy_n(t[0], 4, t[1]); });
  ASSERT_THAT(runner->Run(FourNumbers(), options), IsOk());
  EXPECT_THAT(sink.names, ElementsAre("x", "a", "f", "z", "x", "a", "f", "z"));
  EXPECT_FALSE(sink.has_contents);
  ASSERT_EQ(sink.hashes.size(), 8U);
  const NDArray x = FourNumbers()[0].tensor;
  EXPECT_EQ(sink.hashes[0], HashBytes(x.data(), x.bytes()));
  EXPECT_EQ(sink.hashes[1], sink.hashes[2]);
  EXPECT_NE(sink.hashes[0], sink.hashes[1]);
}

TEST(NodeFailureTest, AStatusKeepsItsFailureForAnyNameOfTheNode) {
  const NodeFailure failure{NodeFailure::Kind::kHang, "a 3 \n b", "did 4 c",
                            "7 d"};
  const absl::Status status = At(
      "net", StatusOf(failure, "node 1", absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(MessageOf(status), "net: node 1: did 4 c");
  const auto found = FailureOf(status);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->node, failure.node);
  EXPECT_EQ(found->what, failure.what);
  EXPECT_EQ(found->victim, failure.victim);
  EXPECT_EQ(found->kind, failure.kind);
  EXPECT_FALSE(FailureOf(absl::AbortedError("a")).has_value());
}

}  // namespace
}  // namespace nodewise
