#include <gtest/gtest.h>

#include "nodewise/lower/region_kernels.h"
#include "nodewise/runner/reference_kernels.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Lowered LoweredNeg() {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  b.Out(b.Op("Neg", {x}, {}, {"y"}, "neg"));
  return Lower(b.net, "net").value();
}

std::string* NetworkOf(Lowered* lowered) {
  return &lowered->graph.nodes[1].attrs[0].second;
}

// Answers for every region alike.
class FixedMaker : public KernelMaker {
 public:
  explicit FixedMaker(absl::Status status) : status_(std::move(status)) {}
  std::string_view name() const override { return "fixed"; }
  absl::StatusOr<std::unique_ptr<RegionPlan>> Plan(
      const Region&) const override {
    return status_;
  }

 private:
  const absl::Status status_;
};

absl::Status BindWith(const Ref<LoweredLibrary>& library) {
  return GraphExecutor::Create(LoweredNeg().graph, library).status();
}

TEST(LoweredLibraryTest, WhatAMakerRefusesTheNextOneComputes) {
  const auto library = MakeRef<LoweredLibrary>(
      AllOperators(),
      std::vector<std::shared_ptr<const KernelMaker>>{
          std::make_shared<FixedMaker>(absl::UnimplementedError("too odd")),
          ReferenceKernels()});
  ASSERT_THAT(BindWith(library), IsOk());
  const auto choices = library->choices();
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].node, "neg");
  EXPECT_EQ(choices[0].kernel, "reference");
  EXPECT_THAT(choices[0].refusals, ElementsAre("fixed: too odd"));
}

TEST(LoweredLibraryTest, WhatAllRefuseIsAnErrorWithTheirReasons) {
  const auto library = MakeRef<LoweredLibrary>(
      AllOperators(),
      std::vector<std::shared_ptr<const KernelMaker>>{
          std::make_shared<FixedMaker>(absl::UnimplementedError("too odd"))});
  EXPECT_THAT(BindWith(library), FailsWith(absl::StatusCode::kUnimplemented,
                                           AllOf(HasSubstr("node neg"),
                                                 HasSubstr("fixed: too odd"))));
}

TEST(LoweredLibraryTest, AnyOtherFailureIsFinal) {
  const auto library = MakeRef<LoweredLibrary>(
      AllOperators(),
      std::vector<std::shared_ptr<const KernelMaker>>{
          std::make_shared<FixedMaker>(absl::ResourceExhaustedError("full")),
          ReferenceKernels()});
  EXPECT_THAT(BindWith(library), FailsWith(absl::StatusCode::kResourceExhausted,
                                           HasSubstr("fixed: full")));
}

TEST(LoweredLibraryTest, ANodeWithoutANetworkIsRefusedByItsName) {
  Lowered lowered = LoweredNeg();
  lowered.graph.nodes[1].attrs.clear();
  EXPECT_THAT(ExecutorOf(lowered),
              FailsWith(kInvalid, AllOf(HasSubstr("node neg"),
                                        HasSubstr("nodewise.network"))));
}

TEST(LoweredLibraryTest, DamagedTextIsLocated) {
  Lowered lowered = LoweredNeg();
  *NetworkOf(&lowered) = "version 2;\nnetwork \"neg\" { wrong }";
  EXPECT_THAT(ExecutorOf(lowered),
              FailsWith(absl::StatusCode::kDataLoss,
                        AllOf(HasSubstr("node neg"),
                              HasSubstr("attribute nodewise.network:2:"))));
}

TEST(LoweredLibraryTest, ANetworkThatIsNotValidIsRefused) {
  Lowered lowered = LoweredNeg();
  std::string* const text = NetworkOf(&lowered);
  text->replace(text->find("float32[2] barrier"), 10, "float32[3]");
  EXPECT_THAT(ExecutorOf(lowered),
              FailsWith(absl::StatusCode::kDataLoss, HasSubstr("float32[3]")));
}

TEST(LoweredLibraryTest, TheNodesTensorsMustBeTheNetworks) {
  Lowered lowered = LoweredNeg();
  lowered.graph.entries[0].shape = {3};
  EXPECT_THAT(
      ExecutorOf(lowered),
      FailsWith(kInvalid,
                HasSubstr("input x: is float32[3], expected float32[2]")));
  lowered = LoweredNeg();
  lowered.graph.nodes[1].inputs.clear();
  lowered.graph.nodes[1].num_inputs = 0;
  EXPECT_THAT(ExecutorOf(lowered),
              FailsWith(kInvalid, HasSubstr("has 1 inputs and 1 outputs, "
                                            "expected 0 and 1")));
}

TEST(LoweredLibraryTest, ConstantsMustBeInputs) {
  Lowered lowered = LoweredNeg();
  lowered.graph.nodes[1].attrs.emplace_back("nodewise.constants", "[\"z\"]");
  EXPECT_THAT(ExecutorOf(lowered),
              FailsWith(kInvalid, HasSubstr("nodewise.constants")));
}

TEST(LoweredLibraryTest, ATensorOfAnotherSizeThanTheGraphHasIsAnError) {
  NetBuilder b;
  const ValueId x = b.In("x", {4});
  const ValueId like = b.In("like", {2, 2});
  b.Out(b.Op("Reshape", {x, b.Op("Shape", {like})[0]}, {}, {}, "reshape"));
  Lowered lowered = Lower(b.net, "net").value();
  lowered.graph.entries.back().shape = {1, 4};
  const auto executor = ExecutorOf(lowered).value();
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->SetInput(1, *MakeTensor<float>({2, 2}, {0, 0, 0, 0})),
              IsOk());
  EXPECT_THAT(
      executor->Run(),
      FailsWith(kInvalid, AllOf(HasSubstr("reshape"),
                                HasSubstr("makes float32[2, 2] of these "
                                          "inputs, expected "
                                          "float32[1, 4]"))));
}

}  // namespace
}  // namespace nodewise
