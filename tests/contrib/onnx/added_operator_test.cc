#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/op/op_row.h"
#include "nodewise/support/status.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kIntAttribute = 2;  // ONNX's number.

// An operator that ONNX does not have: every element `times` times in a row.
struct Stretch {
  int64_t times = 2;

  static constexpr auto Fields() {
    return FieldList(Field<&Stretch::times>("times"));
  }
  absl::Status Check(const Inputs& in) const {
    if (times > 0 && (!in.type(0).has_rank() || in.type(0).rank() == 1)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("stretches no such thing");
  }
  OutputInfos Infer(const Inputs& in) const {
    TensorType type = in.type(0);
    if (type.has_rank()) type.shape = Shape{Stretched((*type.shape)[0])};
    return {OutputInfo(type)};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const int64_t count = args.shape(0)[0];
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray out, args.MakeOutput(0, {count * times}, args.dtype(0)));
    for (int64_t i = 0; i < count; ++i) {
      std::fill_n(out.As<float>() + i * times, times,
                  args.in(0).As<float>()[i]);
    }
    return absl::OkStatus();
  }

 private:
  Dim Stretched(const Dim& side) const {
    return side.is_known() ? Dim(side.size() * times) : Dim();
  }
};

const OpSet& WithStretch() {
  static const OperatorDef rows[] = {
      Row<Stretch>({.name = "Stretch", .inputs = {"X"}, .outputs = {"Y"}}),
  };
  static const OpSet* const all = [] {
    auto* const set = new OpSet;
    set->Add(rows);
    return set;
  }();
  return *all;
}

absl::StatusOr<Network> ImportStretch(int64_t times,
                                      DiagnosticList* diagnostics) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  AddAttribute("times", kIntAttribute,
               &builder.Node("Stretch", {"x"}, {"y"}, "longer"))
      .set_i(times);
  const std::string bytes = builder.Bytes();
  return ImportOnnx(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      "model.onnx", "", WithStretch(), {}, diagnostics);
}

TEST(AddedOperatorTest, IsImportedVerifiedInferredAndRun) {
  DiagnosticList diagnostics;
  const absl::StatusOr<Network> net = ImportStretch(3, &diagnostics);
  ASSERT_THAT(net, IsOk());
  EXPECT_TRUE(Verify(net->data()).empty());
  EXPECT_EQ(ToString(net->value(net->outputs()[0]).type), "float32[6]");
  const auto outputs = Interpret(*net, {Floats({1, 2})});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT(ValuesOf<float>((*outputs)[0]), ElementsAre(1, 1, 1, 2, 2, 2));
}

TEST(AddedOperatorTest, ItsOwnRestrictionsAreFaultsOfItsNodes) {
  DiagnosticList diagnostics;
  EXPECT_FALSE(ImportStretch(0, &diagnostics).ok());
  ASSERT_TRUE(diagnostics.HasErrors());
  EXPECT_THAT(diagnostics.items()[0].ToString(),
              testing::AllOf(HasSubstr("longer"),
                             HasSubstr("stretches no such thing")));
}

}  // namespace
}  // namespace nodewise
