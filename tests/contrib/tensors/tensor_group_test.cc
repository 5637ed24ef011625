#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nodewise/tensors/tensor_file.h"
#include "nodewise/tensors/tensor_proto.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::Span<const uint8_t> SpanOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A message as a field of another; short ones have one byte of length.
std::string InField(int number, const std::string& message) {
  EXPECT_LT(message.size(), 128U);
  return std::string{static_cast<char>(number << 3 | 2),
                     static_cast<char>(message.size())} +
         message;
}

std::string ProtoOf(const std::string& name, float value) {
  return WriteTensorProto({name, Floats({value})}).value();
}

constexpr int kNameOfGraph = 2;
constexpr int kInitializerField = 5;
constexpr int kGraphField = 7;

TEST(TensorGroupTest, ATensorIsAGroupOfOne) {
  const std::string bytes = ProtoOf("x", 3);
  const auto tensors = ParseTensorGroup(SpanOf(bytes), "x.pb");
  ASSERT_THAT(tensors, IsOk());
  ASSERT_EQ(tensors->size(), 1U);
  EXPECT_EQ((*tensors)[0].name, "x");
  EXPECT_THAT(ValuesOf((*tensors)[0].tensor), ElementsAre(3));
}

TEST(TensorGroupTest, TheInitializersOfAGraphAreItsTensors) {
  const std::string graph = InField(kNameOfGraph, "inputs") +
                            InField(kInitializerField, ProtoOf("a", 1)) +
                            InField(kInitializerField, ProtoOf("b", 2));
  for (const std::string& bytes : {graph, InField(kGraphField, graph)}) {
    const auto tensors = ParseTensorGroup(SpanOf(bytes), "input_0.onnx");
    ASSERT_THAT(tensors, IsOk());
    ASSERT_EQ(tensors->size(), 2U);
    EXPECT_EQ((*tensors)[1].name, "b");
    EXPECT_THAT(ValuesOf((*tensors)[1].tensor), ElementsAre(2));
  }
}

TEST(TensorGroupTest, AMessageWithoutTensorsIsAnError) {
  const std::string graph = InField(kNameOfGraph, "inputs");
  EXPECT_THAT(ParseTensorGroup(SpanOf(graph), "in"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("in: holds no tensor, expected")));
  EXPECT_THAT(ParseTensorGroup({}, "in"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("holds no tensor")));
}

TEST(TensorGroupTest, WhatIsCutShortIsAnErrorWithItsPlace) {
  const std::string whole = InField(kNameOfGraph, "inputs") +
                            InField(kInitializerField, ProtoOf("a", 1));
  for (size_t size = 1; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    EXPECT_FALSE(ParseTensorGroup(SpanOf(cut), "in").ok()) << size;
  }
}

TEST(TensorGroupTest, FilesOfOtherFormatsAreReadByTheirFirstBytes) {
  const std::string path = testing::TempDir() + "group_of_tensors.npz";
  ASSERT_THAT(WriteTensorFile(path, {{"a", Floats({1})}, {"b", Floats({2})}}),
              IsOk());
  const auto tensors = ReadTensorGroup(path);
  ASSERT_THAT(tensors, IsOk());
  EXPECT_EQ(tensors->size(), 2U);
}

}  // namespace
}  // namespace nodewise
