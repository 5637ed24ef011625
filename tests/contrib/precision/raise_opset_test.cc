#include "nodewise/precision/raise_opset.h"

#include "tests/contrib/precision/precision_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

// Builds a network in an old opset.
struct OldNet : NetBuilder {
  explicit OldNet(int version) : opset(version) {
    EXPECT_THAT(net.SetOpset("", version), IsOk());
  }
  std::vector<ValueId> Add(const std::string& kind, std::vector<ValueId> inputs,
                           const std::vector<NamedAttr>& attrs = {},
                           std::vector<std::string> outputs = {"y"}) {
    NewOperation wanted;
    wanted.attrs =
        MakeAttrs(*AllOperators().Find("", kind, opset), attrs).value();
    wanted.inputs = std::move(inputs);
    wanted.outputs = std::move(outputs);
    wanted.name = "op_" + std::to_string(net.order().size());
    const auto id = net.AddOperation(std::move(wanted));
    EXPECT_THAT(id, IsOk());
    return net.operation(*id).outputs;
  }

  const int opset;
};

// Expects the same outputs, with the same names, in another opset.
Network ExpectSameIn(int opset, const Network& net, const Sample& sample) {
  auto raised = InOpset(net, opset);
  EXPECT_THAT(raised, IsOk());
  if (!raised.ok()) return Network();
  EXPECT_EQ(raised->opset(), opset);
  for (const Finding& finding : Verify(raised->data(), {})) {
    if (finding.severity == Severity::kError) ADD_FAILURE() << finding.found;
  }
  const auto expected = Interpret(net, sample);
  const auto found = Interpret(*raised, sample);
  EXPECT_THAT(expected, IsOk());
  EXPECT_THAT(found, IsOk());
  if (!expected.ok() || !found.ok()) return Network();
  for (size_t i = 0; i < expected->size(); ++i) {
    EXPECT_TRUE(HaveSameBits((*found)[i], (*expected)[i])) << "output " << i;
    EXPECT_EQ(raised->value(raised->outputs()[i]).name,
              net.value(net.outputs()[i]).name);
  }
  return *std::move(raised);
}

Network ExpectSameIn13(const Network& net, const Sample& sample) {
  return ExpectSameIn(13, net, sample);
}

struct SoftmaxCase {
  std::vector<int64_t> shape;
  int64_t axis;
  size_t operations;  // In opset 13.
};

TEST(RaiseOpsetTest, ProbabilitiesOverSeveralSidesStayTheSame) {
  const SoftmaxCase cases[] = {
      {{2, 5}, 1, 1},       {{2, 5}, 0, 3},    {{2, 3, 4}, 1, 3},
      {{2, 3, 4}, -1, 1},   {{2, 3, 4}, 3, 3}, {{2, 5, 1, 1}, 1, 1},
      {{2, 1, 1, 5}, 1, 1}, {{1, 1}, 0, 1},    {{2, 0, 3}, 1, 1},
      {{5}, 0, 1},          {{}, 0, 3},
  };
  for (const char* const kind : {"Softmax", "LogSoftmax", "Hardmax"}) {
    for (const SoftmaxCase& each : cases) {
      SCOPED_TRACE(testing::Message() << kind << ' ' << each.axis << " of "
                                      << testing::PrintToString(each.shape));
      OldNet b(9);
      const ValueId x = b.In("x", Shape(each.shape.begin(), each.shape.end()));
      b.Out(b.Add(kind, {x}, {{"axis", each.axis}}));
      const Network raised =
          ExpectSameIn13(b.net, {RandomFloats("x", each.shape)});
      EXPECT_EQ(raised.order().size(), each.operations);
    }
  }
}

TEST(RaiseOpsetTest, SizesNeedNotBeKnown) {
  OldNet b(9);
  const ValueId x = b.In("x", {Dim(), Dim(3), Dim()});
  b.Out(b.Add("Softmax", {x}));
  ExpectSameIn13(b.net, {RandomFloats("x", {2, 3, 4})});
}

TEST(RaiseOpsetTest, AMaskKeepsItsTypeWhereItIsRead) {
  OldNet b(9);
  const ValueId x = b.In("x", {2, 3});
  const std::vector<ValueId> made = b.Add("Dropout", {x}, {}, {"y", "mask"});
  b.Out(made);
  const Network raised = ExpectSameIn13(b.net, {RandomFloats("x", {2, 3})});
  EXPECT_EQ(raised.order().size(), 2);
  b.Out({made[0]});
  EXPECT_EQ(ExpectSameIn13(b.net, {RandomFloats("x", {2, 3})}).order().size(),
            1);
}

TEST(RaiseOpsetTest, AnInputOnInnerSidesIsAlignedWithThem) {
  for (const char* const kind : {"Add", "Div", "Greater"}) {
    SCOPED_TRACE(kind);
    OldNet b(6);
    const ValueId x = b.In("x", {2, 3, 4});
    const ValueId c = b.Const("c", RandomFloats("c", {3}));
    b.Out(
        b.Add(kind, {x, c}, {{"axis", int64_t{1}}, {"broadcast", int64_t{1}}}));
    ExpectSameIn13(b.net, {RandomFloats("x", {2, 3, 4})});
  }
}

TEST(RaiseOpsetTest, WhatHasOnlyBecomeMoreGeneralStays) {
  OldNet b(6);
  const ValueId x = b.In("x", {2, 3});
  const ValueId w = b.Const("w", RandomFloats("w", {3, 3}));
  const ValueId c = b.Const("c", RandomFloats("c", {2, 3}));
  const ValueId sum = b.Add("Sum", {x, c}, {}, {"s"})[0];
  const ValueId most = b.Add("Max", {sum, x}, {}, {"m"})[0];
  b.Out(b.Add("Gemm", {most, w, c}, {{"alpha", 0.5f}}));
  EXPECT_EQ(ExpectSameIn13(b.net, {RandomFloats("x", {2, 3})}).order().size(),
            3);
}

TEST(RaiseOpsetTest, ANormalisationByChannelIsThatOfLaterOpsets) {
  for (const int opset : {7, 9, 13}) {
    OldNet b(opset);
    std::vector<ValueId> inputs = {b.In("x", {1, 2, 3})};
    for (const char* const name : {"scale", "bias", "mean", "var"}) {
      inputs.push_back(b.Const(name, MakeTensor<float>({2}, {0.5F, 1.25F})));
    }
    b.Out(b.Add("BatchNormalization", inputs));
    ExpectSameIn13(b.net, {RandomFloats("x", {1, 2, 3})});
    ExpectSameIn(16, b.net, {RandomFloats("x", {1, 2, 3})});
  }
}

TEST(RaiseOpsetTest, TheNearestElementStaysTheSame) {
  for (const char* const mode : {"nearest", "linear"}) {
    for (const float scale : {0.4F, 2.5F}) {
      SCOPED_TRACE(testing::Message() << mode << ' ' << scale);
      OldNet b(10);
      const ValueId x = b.In("x", {1, 1, 7, 5});
      const ValueId scales =
          b.Const("s", MakeTensor<float>({4}, {1, 1, scale, scale}));
      b.Out(b.Add("Resize", {x, scales}, {{"mode", std::string(mode)}}));
      ExpectSameIn13(b.net, {RandomFloats("x", {1, 1, 7, 5})});
    }
  }
}

TEST(RaiseOpsetTest, RegionsStayWhereTheyAre) {
  for (const char* const mode : {"avg", "max"}) {
    SCOPED_TRACE(mode);
    OldNet b(10);
    const ValueId x = b.In("x", {1, 2, 7, 5});
    const ValueId rois =
        b.Const("rois", MakeTensor<float>({2, 4}, {0, 0, 3, 4, 1, 2, 1.25, 6}));
    const ValueId images = b.Const("images", MakeTensor<int64_t>({2}, {0, 0}));
    b.Out(b.Add("RoiAlign", {x, rois, images},
                {{"mode", std::string(mode)}, {"output_height", int64_t{2}}}));
    ExpectSameIn(16, b.net, {RandomFloats("x", {1, 2, 7, 5})});
  }
}

TEST(RaiseOpsetTest, BodiesAreRaisedToo) {
  Subgraph bodies[2];
  for (Subgraph& each : bodies) {
    OldNet body(9);
    const ValueId x = body.In("inner", {2, 3, 2});
    body.Out(body.Add("Softmax", {x}));
    each = {ShareNetwork(std::move(body.net)), 1};
  }
  OldNet b(9);
  const ValueId c = b.In("c", {}, kBool);
  const ValueId x = b.In("x", {2, 3, 2});
  b.Out(b.Add("If", {c, x, x},
              {{"then_branch", bodies[0]}, {"else_branch", bodies[1]}}));
  ExpectSameIn13(b.net, {MakeTensor<uint8_t>({}, {1}, kBool),
                         RandomFloats("x", {2, 3, 2})});
}

TEST(RaiseOpsetTest, WhatHasNoEqualIsNamed) {
  OldNet b(6);
  const ValueId x = b.In("x", {2, 3, 4});
  const ValueId slope = b.Const("s", RandomFloats("s", {3}));
  b.Out(b.Add("PRelu", {x, slope}));
  EXPECT_THAT(InOpset(b.net, 13),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("operation op_0: PRelu as it is here holds "
                                  "in opsets 1 to 6")));
}

// A network in opset 9 as exporters made them.
TEST(RaiseOpsetTest, OldNetworksTakeAllPrecisions) {
  OldNet b(9);
  const ValueId x = b.In("x", {1, 2, 4, 4});
  const ValueId w = b.Const("w", RandomFloats("w", {3, 2, 3, 3}));
  const ValueId conv = b.Add("Conv", {x, w}, {}, {"c"})[0];
  const ValueId drop = b.Add("Dropout", {conv}, {}, {"d", "mask"})[0];
  b.Out(b.Add("Softmax", {drop}));
  const Sample sample = {RandomFloats("x", {1, 2, 4, 4})};
  const auto expected = Interpret(b.net, sample);
  for (const Precision precision :
       {Precision::kFloat16, Precision::kBfloat16, Precision::kInt8}) {
    SCOPED_TRACE(ToString(precision));
    PrecisionOptions options = Int8Of(b.net, {sample});
    options.precision = precision;
    Network net = b.net;
    EXPECT_GT(LowerTo(options, net).changes.size(), 0u);
    const auto found = Interpret(net, sample);
    ASSERT_THAT(found, IsOk());
    EXPECT_LT(OutputError({*expected}, {*found}), 0.2);
  }
}

}  // namespace
}  // namespace nodewise
