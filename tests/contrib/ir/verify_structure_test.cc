// Every fault of structure that the verifier finds, and the place that it
// names.

#include <gtest/gtest.h>

#include "tests/contrib/ir/verifier_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(VerifyStructureTest, GoodNetworkHasNoFaults) {
  EXPECT_THAT(FindingsIn(kGood), IsEmpty());
}

TEST(VerifyStructureTest, InputThatDoesNotExist) {
  EXPECT_THAT(FindingsWith("Relu@14(%2)", "Relu@14(%9)"),
              testing::Contains("structure: operation relu: input 0 (X): is "
                                "value %9, which does not exist, expected a "
                                "tensor of the network"));
}

TEST(VerifyStructureTest, RemovedInputIsLikeOneThatNeverWas) {
  EXPECT_THAT(
      FindingsWith("input %0 \"x\": float32[2, 3];", "numbers %1 #0;"),
      ElementsAre(HasSubstr("structure: operation add: input 0 (A): is value "
                            "%0, which does not exist")));
}

// OV-26.
TEST(VerifyStructureTest, BarrierAsAnInput) {
  EXPECT_THAT(FindingsWith("Softmax@13(%4)", "Softmax@13(%5)"),
              testing::Contains("structure: operation soft: input 0 (X): is "
                                "the barrier of operation relu, expected a "
                                "tensor of the network"));
}

// OV-02, OV-03.
TEST(VerifyStructureTest, ReaderThatTheValueDoesNotList) {
  EXPECT_THAT(FindingsWith("uses %2;"),
              ElementsAre("structure: operation relu: input 0 (X): reads value "
                          "a, which does not list operation relu among its "
                          "uses, expected a link both ways"));
}

// OV-02.
TEST(VerifyStructureTest, UseByAnOperationThatReadsSomethingElse) {
  EXPECT_THAT(FindingsWith("uses %2 #1.0 #2.0;"),
              ElementsAre("structure: value a: lists a use by operation soft "
                          "as input 0, which reads value r there, expected a "
                          "link both ways"));
}

TEST(VerifyStructureTest, UseByAnOperationThatDoesNotExist) {
  EXPECT_THAT(FindingsWith("uses %2 #1.0 #7.0;"),
              ElementsAre(HasSubstr("value a: lists a use by operation #7 as "
                                    "input 0, which does not exist")));
}

TEST(VerifyStructureTest, UseInASlotThatDoesNotExist) {
  EXPECT_THAT(FindingsWith("uses %2 #1.0 #1.5;"),
              ElementsAre(HasSubstr("value a: lists a use by operation relu as "
                                    "input 5, which has 1 inputs")));
}

TEST(VerifyStructureTest, UseThatIsListedTwice) {
  EXPECT_THAT(FindingsWith("uses %2 #1.0 #1.0;"),
              ElementsAre(HasSubstr("value a: lists a use by operation relu as "
                                    "input 0, more often than it reads it")));
}

TEST(VerifyStructureTest, WaiterThatTheBarrierDoesNotList) {
  EXPECT_THAT(FindingsWith("uses %3;"),
              ElementsAre(HasSubstr("operation relu: reads the barrier of "
                                    "operation add, which does not list")));
}

TEST(VerifyStructureTest, WaiterThatDoesNotWait) {
  EXPECT_THAT(FindingsWith("uses %3 #1.after #2.after;"),
              ElementsAre(HasSubstr("the barrier of operation add: lists a use "
                                    "by operation soft as a barrier, which "
                                    "does not wait for it")));
}

// OV-03.
TEST(VerifyStructureTest, OutputThatSaysItIsMadeElsewhere) {
  EXPECT_THAT(
      FindingsWith("%2 \"a\": float32[2, 3] barrier %3;",
                   "%2 barrier %3; value %2 output \"a\": float32[2, 3] from "
                   "#1.0;"),
      ElementsAre("structure: operation add: output 0 (C): is value a, which "
                  "says that it is made by operation relu, expected a value "
                  "that is made here",
                  "structure: value a: is said to be output 0 of operation "
                  "relu, which makes value r there, expected an operation that "
                  "makes it",
                  HasSubstr("depends on itself: relu -> relu")));
}

TEST(VerifyStructureTest, OutputThatSaysItIsAnother) {
  EXPECT_THAT(
      FindingsWith("%2 \"a\": float32[2, 3] barrier %3;",
                   "%2 barrier %3; value %2 output \"a\": float32[2, 3] from "
                   "#0.1;"),
      ElementsAre(HasSubstr("operation add: output 0 (C): is value a, which "
                            "says that it is output 1"),
                  HasSubstr("value a: is said to be output 1 of operation add, "
                            "which does not have it")));
}

TEST(VerifyStructureTest, OutputThatIsAConstant) {
  EXPECT_THAT(FindingsWith("%6 \"s\": float32[2, 3]", "%1"),
              testing::Contains(HasSubstr("operation soft: output 0 (Y): is "
                                          "value w, which is not made by an "
                                          "operation")));
}

TEST(VerifyStructureTest, OutputThatDoesNotExist) {
  EXPECT_THAT(FindingsWith("%6 \"s\": float32[2, 3]", "%6"),
              ElementsAre(HasSubstr("operation soft: output 0 (Y): is value "
                                    "%6, which does not exist"),
                          HasSubstr("network net: output 0: is value %6, which "
                                    "does not exist")));
}

TEST(VerifyStructureTest, ValueThatNoOperationMakes) {
  EXPECT_THAT(FindingsWith("value %8 output \"z\": float32[1] from #2.3;"),
              ElementsAre(HasSubstr("value z: is said to be output 3 of "
                                    "operation soft, which does not have it")));
  EXPECT_THAT(FindingsWith("value %8 output \"z\": float32[1];"),
              ElementsAre(HasSubstr("value z: is said to be output 0 of no "
                                    "operation")));
}

TEST(VerifyStructureTest, ConstantThatAnOperationMakes) {
  EXPECT_THAT(
      FindingsWith("value %8 constant \"z\": float32[1] = float32[1] [1] "
                   "from #0.0;"),
      testing::Contains("structure: value z: is an input or a "
                        "constant, and made by operation add, expected "
                        "no operation that makes it"));
}

TEST(VerifyStructureTest, ValueWithAnotherNumber) {
  EXPECT_THAT(
      FindingsWith("value %8 constant \"z\": float32[1] = float32[1] [1] "
                   "id %3;"),
      testing::Contains("structure: value %8: says that its number is "
                        "3, expected 8"));
}

TEST(VerifyStructureTest, OperationWithAnotherNumber) {
  EXPECT_THAT(FindingsWith("barrier %7;", "barrier %7 id #0;"),
              testing::Contains("structure: operation #2: says that its number "
                                "is 0, expected 2"));
}

// OV-27.
TEST(VerifyStructureTest, OperationWithoutABarrier) {
  EXPECT_THAT(FindingsWith("barrier %7;", "barrier _;"),
              ElementsAre("structure: operation soft: has no value as its "
                          "barrier, expected a barrier that it makes"));
}

// OV-27.
TEST(VerifyStructureTest, OperationWithTheBarrierOfAnother) {
  EXPECT_THAT(FindingsWith("barrier %7;", "barrier ref %5;"),
              ElementsAre(HasSubstr("operation soft: has the barrier of "
                                    "operation relu as its barrier")));
}

TEST(VerifyStructureTest, BarrierOfNoOperation) {
  EXPECT_THAT(FindingsWith("value %8 barrier \"\": ?[...] from #1.0;"),
              ElementsAre(HasSubstr("is said to be the barrier of operation "
                                    "relu, which has another")));
}

// OV-28.
TEST(VerifyStructureTest, WaitingForATensor) {
  EXPECT_THAT(FindingsWith("after %3", "after %0"),
              ElementsAre("structure: operation relu: waits for value x, "
                          "expected a barrier"));
}

TEST(VerifyStructureTest, WaitingTwiceForTheSame) {
  EXPECT_THAT(FindingsWith("after %3", "after %3, %3"),
              testing::Contains("structure: operation relu: waits for the "
                                "barrier of operation add again, expected "
                                "once"));
}

TEST(VerifyStructureTest, InputThatIsNotListed) {
  EXPECT_THAT(FindingsWith("inputs ;"),
              ElementsAre("structure: value x: is an input that is not in the "
                          "network's list of inputs, expected all of them "
                          "there"));
}

TEST(VerifyStructureTest, ListOfInputsWithSomethingElse) {
  EXPECT_THAT(FindingsWith("inputs %0, %1, %0, %50;"),
              ElementsAre(HasSubstr("network net: input 1: is value w, "
                                    "expected a value of kind input"),
                          HasSubstr("network net: input 2: is value x again"),
                          HasSubstr("network net: input 3: is value %50")));
}

TEST(VerifyStructureTest, OutputOfTheNetworkThatIsNotATensor) {
  EXPECT_THAT(FindingsWith("output %6;", "output %6, %7;"),
              ElementsAre(HasSubstr("network net: output 1: is the barrier of "
                                    "operation soft, expected a tensor")));
}

TEST(VerifyStructureTest, OperationThatIsNotInTheOrder) {
  EXPECT_THAT(FindingsWith("order #0, #1;"),
              ElementsAre("structure: operation soft: is not in the order, "
                          "expected all operations there"));
}

TEST(VerifyStructureTest, OperationThatIsTwiceInTheOrder) {
  EXPECT_THAT(FindingsWith("order #0, #1, #2, #1;"),
              ElementsAre("structure: network net: place 3 of the order: is "
                          "operation relu again, expected it once"));
}

TEST(VerifyStructureTest, OrderWithAnOperationThatDoesNotExist) {
  EXPECT_THAT(FindingsWith("order #0, #1, #2, #9;"),
              ElementsAre(HasSubstr("place 3 of the order: is operation #9, "
                                    "which does not exist")));
}

// OV-25.
TEST(VerifyStructureTest, ConsumerBeforeItsProducer) {
  EXPECT_THAT(FindingsWith("order #0, #2, #1;"),
              ElementsAre("structure: operation soft: input 0 (X): runs before "
                          "operation relu, which makes value r, expected "
                          "producers first"));
}

// OV-25.
TEST(VerifyStructureTest, WaiterBeforeWhatItWaitsFor) {
  EXPECT_THAT(
      FindingsWith("Add@7(%0, %1) -> %2 \"a\": float32[2, 3] barrier %3;",
                   "Add@7(%0, %1) -> %2 \"a\": float32[2, 3] barrier %3 after "
                   "%9; #3 \"last\" = Relu@6(%0) -> %8 \"l\": float32[2, 3] "
                   "barrier %9; order #0, #1, #2, #3;"),
      testing::Contains("structure: operation add: runs before operation last, "
                        "which makes the barrier of operation last, expected "
                        "producers first"));
}

// OV-04.
TEST(VerifyStructureTest, CycleIsAPath) {
  EXPECT_THAT(
      FindingsWith("Add@7(%0, %1)", "Add@7(%6, %1)"),
      testing::Contains("structure: operation add: depends on itself: add -> "
                        "relu -> soft -> add, expected no cycle"));
}

TEST(VerifyStructureTest, CycleThroughABarrierIsAPath) {
  EXPECT_THAT(FindingsWith("barrier %3;", "barrier %3 after %5;"),
              ElementsAre(HasSubstr("depends on itself: add -> relu -> add")));
}

TEST(VerifyStructureTest, OperationThatReadsItself) {
  EXPECT_THAT(FindingsWith("Softmax@13(%4)", "Softmax@13(%6)"),
              testing::Contains(HasSubstr("depends on itself: soft -> soft")));
}

TEST(VerifyStructureTest, EveryCycleIsFound) {
  EXPECT_THAT(
      FindingsWith(
          "#8 \"p\" = Relu@6(%11) -> %10 \"p\": float32[1] barrier %12; "
          "#9 \"q\" = Relu@6(%10) -> %11 \"q\": float32[1] barrier %13; "
          "#7 \"o\" = Relu@6(%14) -> %14 \"o\": float32[1] barrier "
          "%15;"),
      ElementsAre(HasSubstr("depends on itself: p -> q -> p"),
                  HasSubstr("depends on itself: o -> o")));
}

TEST(VerifyStructureTest, OperationThatNoOutputNeeds) {
  EXPECT_THAT(FindingsWith("output %6;", "output %4;"),
              ElementsAre("structure warning: operation soft: no output of the "
                          "network depends on it (RemoveUnused takes it "
                          "away)"));
}

TEST(VerifyStructureTest, ValuesThatNoOutputNeeds) {
  EXPECT_THAT(
      FindingsWith(
          "input %8 \"y\": float32[1]; constant %9 \"c\" = int64[] [3];"),
      ElementsAre(
          "structure warning: value y: no output of the network depends on it",
          "structure warning: value c: no output of the network depends on "
          "it"));
}

// OV-05.
TEST(VerifyStructureTest, OutputThatDependsOnNoInput) {
  EXPECT_THAT(FindingsWith("output %6;", "output %6, %1;"),
              ElementsAre("structure warning: network net: output 1: is value "
                          "w, which depends on no input of the network"));
}

TEST(VerifyStructureTest, NetworkWithoutOutputs) {
  EXPECT_THAT(FindingsWith("output %6;", ""),
              ElementsAre("structure warning: network net: has no outputs"));
}

}  // namespace
}  // namespace nodewise
