// A program in two threads at once, and what a case keeps of its modules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "nodewise/autotest/dual_program.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ops/ops.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

// A candidate whose runs wait for each other, though not for ever, and change
// what they make, each knowing whether it is in the thread of the test.
class TwoThreads {
 public:
  explicit TwoThreads(
      std::function<void(bool is_caller, const NDArray&)> change)
      : change_(std::move(change)) {}

  std::unique_ptr<Candidate> MakeCandidate() {
    return CallableCandidate(
        "parallel",
        [this](const Network& network,
               const std::vector<NDArray>& inputs) -> CandidateOutputs {
          WaitForTwo();
          auto outputs = Interpret(network, inputs);
          if (outputs.ok()) {
            change_(std::this_thread::get_id() == caller_, outputs->back());
          }
          return outputs;
        });
  }
  int most_at_once() const { return most_; }

 private:
  void WaitForTwo() {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++inside_);
    met_.notify_all();
    met_.wait_for(lock, std::chrono::seconds(10), [&] { return most_ == 2; });
    --inside_;
  }

  const std::function<void(bool, const NDArray&)> change_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable met_;
  int inside_ = 0;
  int most_ = 0;
};

DualOptions OnceInTwoThreads() {
  DualOptions options;
  options.seed = 5;
  options.n = 1;
  options.most_tries = 0;
  options.executions = {DualExecution::kConcurrent};
  return options;
}

void NegOfThree(DualObject& onnx) { onnx["Neg"]({random_tensor({3})}); }

// OF-46
TEST(DualThreadsTest, TwoThreadsRunTheNetworkAtOnce) {
  TwoThreads threads([](bool, const NDArray&) {});
  EXPECT_THAT(autotest(AllOperators(), *threads.MakeCandidate(), &NegOfThree,
                       OnceInTwoThreads()),
              IsOk());
  EXPECT_EQ(threads.most_at_once(), 2);
}

// OF-46
TEST(DualThreadsTest, WhatEitherOfTwoThreadsMakesIsCompared) {
  for (const bool is_callers : {true, false}) {
    TwoThreads threads([=](bool is_caller, const NDArray& output) {
      if (is_caller == is_callers) output.As<float>()[0] += 1;
    });
    EXPECT_THAT(autotest(AllOperators(), *threads.MakeCandidate(), &NegOfThree,
                         OnceInTwoThreads()),
                FailsWith(absl::StatusCode::kInternal,
                          HasSubstr("y0 of parallel (in two threads)")));
  }
}

// OF-37
TEST(DualModuleTest, AModuleThatIsNeverCalledIsAnError) {
  const auto program = [](DualObject& onnx) {
    const DualObject conv =
        onnx["Conv"].Module({}, {random_tensor({1, 1, 2, 2})});
    const DualObject strided = conv.Module({{"strides", tuple_of(2, 1, 3)}});
    onnx["Neg"]({random_tensor({2})});
  };
  const auto reference = CallableCandidate(
      "reference",
      [](const Network& network, const std::vector<NDArray>& inputs) {
        return CandidateOutputs(Interpret(network, inputs));
      });
  EXPECT_THAT(
      autotest(AllOperators(), *reference, program),
      FailsWith(absl::StatusCode::kInvalidArgument,
                HasSubstr("module Conv is never called, expected a call")));
}

}  // namespace
}  // namespace nodewise
