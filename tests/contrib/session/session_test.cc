#include "nodewise/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "nodewise/ir/network_text.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/session/model_file.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// y = -tanh(x)
std::shared_ptr<const Network> TwoOperations() {
  NetBuilder b;
  const ValueId x = b.In("x", {3});
  const ValueId h = b.Op("Tanh", {x}, {}, {"h"}, "bend")[0];
  b.Out(b.Op("Neg", {h}, {}, {"y"}, "last"));
  return std::make_shared<const Network>(b.net);
}

TargetSpec InMemory(std::shared_ptr<const Network> network) {
  TargetSpec spec;
  spec.path = "net";
  spec.network = std::move(network);
  return spec;
}

std::vector<float> RunOnce(const Session& session) {
  const auto maker = MakerOf("plain", {"net", session.target});
  const auto runner = (*maker)();
  const auto result = (*runner)->Run(session.NamedInputs());
  EXPECT_THAT(result, IsOk());
  return ValuesOf(result->outputs[0].tensor);
}

TEST(SessionTest, AModelInMemoryRunsWithTensorsInMemory) {
  TargetSpec spec = InMemory(TwoOperations());
  spec.inputs.tensors = {{"x", Floats({0, 1, -1})}};
  DiagnosticList faults;
  const auto session = OpenTarget(spec, &faults);
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->inputs, SizeIs(1));
  EXPECT_EQ(session->inputs[0].from, "memory");
  EXPECT_THAT(RunOnce(*session),
              ElementsAre(0, testing::FloatNear(-0.7616F, 1e-4F),
                          testing::FloatNear(0.7616F, 1e-4F)));
}

TEST(SessionTest, WhatIsCompiledAlreadyIsTakenAsItIs) {
  DiagnosticList faults;
  TargetSpec spec = InMemory(TwoOperations());
  spec.inputs.seed = 1;
  const auto model = OpenTarget(spec, &faults);
  ASSERT_THAT(model, IsOk());
  TargetSpec compiled;
  compiled.graph = model->target;
  compiled.inputs.seed = 1;
  const auto session = OpenTarget(compiled, &faults);
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(session->target, model->target);
  EXPECT_EQ(session->network, nullptr);
  EXPECT_EQ(RunOnce(*session), RunOnce(*model));
}

TEST(SessionTest, EveryMissingInputIsAFault) {
  NetBuilder b;
  const ValueId x = b.In("x", {3});
  const ValueId z = b.In("z", {3});
  b.Out(b.Op("Add", {x, z}, {}, {"y"}, "sum"));
  TargetSpec spec = InMemory(std::make_shared<const Network>(b.net));
  spec.inputs.hints.how_to_give = [](const std::string& name) {
    return "give " + name;
  };
  DiagnosticList faults;
  const auto session = OpenTarget(spec, &faults);
  EXPECT_FALSE(session.ok());
  ASSERT_THAT(faults.items(), SizeIs(2));
  EXPECT_THAT(faults.items()[0].ToString(), HasSubstr("give x"));
  EXPECT_THAT(faults.items()[1].ToString(), HasSubstr("give z"));
}

TEST(SessionTest, OpenSizesAreTakenFromTensorsAtHand) {
  NetBuilder b;
  b.Out(b.Op("Neg", {b.In("x", {Dim::Named("n")})}, {}, {"y"}, "last"));
  TargetSpec spec = InMemory(std::make_shared<const Network>(b.net));
  spec.inputs.tensors = {{"x", Floats({1, 2})}};
  DiagnosticList faults;
  const auto session = OpenTarget(spec, &faults);
  ASSERT_THAT(session, IsOk());
  EXPECT_THAT(RunOnce(*session), ElementsAre(-1, -2));
}

TEST(SessionTest, WithOpenSizesOnlyANetworkIsOpenedWhereThatIsWanted) {
  NetBuilder b;
  b.Out(b.Op("Neg", {b.In("x", {Dim::Named("n")})}, {}, {"y"}, "last"));
  TargetSpec spec = InMemory(std::make_shared<const Network>(b.net));
  DiagnosticList faults;
  InputFiles files;
  EXPECT_THAT(OpenWithoutInputs(spec, &files, &faults),
              FailsWith(absl::StatusCode::kUnimplemented, HasSubstr("net: ")));
  spec.keeps_open_sizes = true;
  const auto session = OpenWithoutInputs(spec, &files, &faults);
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(session->target, nullptr);
  EXPECT_NE(session->network, nullptr);
  EXPECT_THAT(session->notes,
              ElementsAre(HasSubstr("so the interpreter runs it")));
}

TEST(SessionTest, TheReferenceStandsInForNodesThatAreNamed) {
  TargetSpec spec = InMemory(TwoOperations());
  spec.lowering.fuses = false;
  spec.inputs.seed = 1;
  spec.stand_ins = {"be.d"};
  DiagnosticList faults;
  const auto session = OpenTarget(spec, &faults);
  ASSERT_THAT(session, IsOk());
  EXPECT_THAT(session->stand_ins, ElementsAre("bend"));
  spec.stand_ins = {"nothing"};
  EXPECT_THAT(OpenTarget(spec, &faults),
              FailsWith(absl::StatusCode::kNotFound,
                        HasSubstr("stand-in: \"nothing\"")));
}

TEST(SessionTest, ATextIsOpenedLikeAModel) {
  const std::string path = testing::TempDir() + "/session_test_net.txt";
  std::ofstream(path) << NetworkToText(TwoOperations()->data());
  EXPECT_TRUE(IsModelOrText(path));
  EXPECT_FALSE(IsModel(path));
  TargetSpec spec;
  spec.path = path;
  spec.inputs.seed = 1;
  DiagnosticList faults;
  const auto session = OpenTarget(spec, &faults);
  ASSERT_THAT(session, IsOk());
  EXPECT_THAT(faults.items(), IsEmpty());
  EXPECT_EQ(session->network->order().size(), 2U);
}

TEST(SessionTest, WhatIsNotThereIsNamed) {
  TargetSpec spec;
  spec.path = testing::TempDir() + "/no such folder";
  DiagnosticList faults;
  EXPECT_THAT(OpenTarget(spec, &faults),
              FailsWith(absl::StatusCode::kNotFound, HasSubstr(spec.path)));
}

TEST(SessionTest, SamplesThatAreNotThereAreRefused) {
  TargetSpec spec = InMemory(TwoOperations());
  spec.inputs.seed = 1;
  spec.precision.precision = Precision::kInt8;
  DiagnosticList faults;
  EXPECT_THAT(OpenTarget(spec, &faults),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("there are no sample inputs")));
  spec.precision.samples = {{"", 1}};
  const auto session = OpenTarget(spec, &faults);
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(session->precision->samples, 1U);
}

}  // namespace
}  // namespace nodewise
