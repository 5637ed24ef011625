#include "nodewise/onnx/user_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nodewise/support/temporary.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TensorType FloatsOf(int64_t size) {
  TensorType type;
  type.dtype = {kDLFloat, 32, 1};
  type.shape = {Dim(size)};
  return type;
}

// x -> Neg -> m -> Abs -> a -> Exp -> y
class UserModelTest : public testing::Test {
 protected:
  UserModelTest() {
    ModelBuilder builder;
    builder.Input("x", {3}).Output("y");
    builder.Node("Neg", {"x"}, {"m"}, "turn");
    builder.Node("Abs", {"m"}, {"a"}, "size");
    builder.Node("Exp", {"a"}, {"y"}, "grow");
    // A member that nodewise does not know.
    builder.model().mutable_unknown_fields()->append("\xF2\x07\x02hi", 5);
    bytes_ = builder.model().SerializeAsString();
  }

  UserModel Opened() {
    const std::string path = folder_.path() + "/net.onnx";
    std::ofstream(path, std::ios::binary) << bytes_;
    return UserModel::Open(path).value();
  }

  const TemporaryFolder folder_ = TemporaryFolder::Create("user").value();
  std::string bytes_;
};

std::vector<std::string> NamesOf(const auto& values) {
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value.name());
  return names;
}

TEST_F(UserModelTest, WithoutAnythingAskedForItIsTheFile) {
  EXPECT_EQ(Opened().With({}, {}).value(), bytes_);
}

TEST_F(UserModelTest, MoreOutputsStandBehindTheBytesOfTheFile) {
  const UserModel model = Opened();
  EXPECT_TRUE(model.Makes("m"));
  EXPECT_FALSE(model.Makes("x"));
  const UserModel::Value asked[] = {{"m", FloatsOf(3)}, {"y", FloatsOf(3)}};
  const std::string made = model.With(asked, {}).value();
  EXPECT_THAT(made, StartsWith(bytes_));
  nodewise_onnx::Model read;
  ASSERT_TRUE(read.ParseFromString(made));
  EXPECT_THAT(NamesOf(read.graph().output()), ElementsAre("y", "m"));
  EXPECT_THAT(NamesOf(read.graph().node()),
              ElementsAre("turn", "size", "grow"));
  EXPECT_EQ(
      read.graph().output(1).type().tensor_type().shape().dim(0).dim_value(),
      3);
}

TEST_F(UserModelTest, AValueThatIsGivenIsAnInputForAllThatReadsIt) {
  const UserModel::Value asked[] = {{"y", FloatsOf(3)}};
  const UserModel::Value given[] = {{"a", FloatsOf(3)}};
  nodewise_onnx::Model read;
  ASSERT_TRUE(read.ParseFromString(Opened().With(asked, given).value()));
  EXPECT_THAT(NamesOf(read.graph().input()), ElementsAre("x", "a"));
  EXPECT_EQ(read.graph().node(1).output(0), "a_before");
  EXPECT_EQ(read.graph().node(2).input(0), "a");
  EXPECT_THAT(read.unknown_fields(), HasSubstr("hi"));
}

TEST_F(UserModelTest, AnOutputThatIsGivenIsAnOutputNoMore) {
  const UserModel::Value asked[] = {{"a", FloatsOf(3)}};
  const UserModel::Value given[] = {{"y", FloatsOf(3)}};
  nodewise_onnx::Model read;
  ASSERT_TRUE(read.ParseFromString(Opened().With(asked, given).value()));
  EXPECT_THAT(NamesOf(read.graph().output()), ElementsAre("a"));
}

TEST_F(UserModelTest, FilesBesideItAreNamed) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  builder.Node("Add", {"x", "w"}, {"y"});
  nodewise_onnx::Tensor& tensor = builder.Floats("w", {});
  tensor.set_data_location(1);
  auto* const entry = tensor.add_external_data();
  entry->set_key("location");
  entry->set_value("weights/w.bin");
  bytes_ = builder.model().SerializeAsString();
  EXPECT_THAT(Opened().external_files(), ElementsAre("weights/w.bin"));
}

TEST_F(UserModelTest, WhatIsNotAModelIsRefused) {
  bytes_ = "not a model";
  const std::string path = folder_.path() + "/net.onnx";
  std::ofstream(path, std::ios::binary) << bytes_;
  EXPECT_THAT(UserModel::Open(path), FailsWith(absl::StatusCode::kDataLoss,
                                               HasSubstr("net.onnx: is not")));
}

}  // namespace
}  // namespace nodewise
