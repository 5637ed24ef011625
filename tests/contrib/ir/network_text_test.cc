#include "nodewise/ir/network_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "nodewise/ir/verifier.h"
#include "tests/support/matchers.h"
#include "tests/support/network_ops.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using test_ops::Ops;
using test_ops::TextOf;
using testing::HasSubstr;

constexpr char kSmall[] = R"(version 2;
network "net" {
  opset "" 21;
  opset "com.test" 1;
  input %0 "x": float32[n, "2 k"];
  constant %1 "w" = float32[2] [1, -0.5];
  #0 "add" = Add@7(%0, %1) -> %2 "a": float32[n, 2] barrier %3;
  #1 "clip" = Clip@11(%2, _, %2) -> %4 "c": float32[n, 2], _ barrier %5 after %3;
  output %4, %0;
}
)";

absl::StatusOr<NetworkData> Parse(const std::string& text) {
  return ParseNetworkText(text, Ops(), "net.txt");
}

// Expects the text to stay the same when it is read and written again.
void ExpectSame(const std::string& text) {
  const auto data = Parse(text);
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ(NetworkToText(*data), text);
}

void ExpectRefused(const std::string& text, const std::string& message) {
  EXPECT_THAT(Parse(text), FailsWith(StatusCode::kDataLoss, HasSubstr(message)))
      << text;
}

TEST(NetworkTextTest, TextComesBackTheSame) {
  ExpectSame(kSmall);
  ExpectSame("version 2;\nnetwork \"\" {\n}\n");
}

TEST(NetworkTextTest, TextOfANetworkIsKnownByItsBeginning) {
  EXPECT_TRUE(LooksLikeNetworkText(kSmall));
  EXPECT_TRUE(LooksLikeNetworkText("// before\nnetwork \"\" {"));
  for (const char* other : {"", "{\"nodes\": []}", "network", "version",
                            "versions 2", "network of nodes",
                            "\x7f"
                            "ELF"}) {
    EXPECT_FALSE(LooksLikeNetworkText(other)) << other;
  }
}

// OV-23.
TEST(NetworkTextTest, NetworkComesBackTheSame) {
  const NetworkData data = *Parse(kSmall);
  EXPECT_THAT(ToStatus(Verify(data)), IsOk());
  const Network network = Network::FromData(data).value();
  EXPECT_EQ(TextOf(network), kSmall);
  EXPECT_EQ(network.value(ValueId{2}).uses.size(), 2u);
}

TEST(NetworkTextTest, EveryKindOfAttributeComesBack) {
  Network net("attributes");
  const ValueId x = net.AddInput("x", TensorType(kFloat32)).value();
  test_ops::Scale scale{.factor = 0.1f};
  scale.label = "a \"b\"\n\x01\xC3\xA4";
  scale.axes = {1, -9223372036854775807 - 1};
  scale.offsets = {-0.0f, 1e-45f, INFINITY, -NAN};
  scale.tags = {"", "t"};
  scale.table = MakeTensor<uint8_t>({2, 1}, {0, 255});
  scale.to = DLDataType{kDLBfloat, 16, 1};
  scale.rounding = test_ops::Rounding::kDown;
  scale.is_exact = true;
  const ValueId y = net.Add(Ops(), scale, {x}).value();
  ASSERT_THAT(net.SetOutputs({y}), IsOk());
  const std::string text = TextOf(net);
  EXPECT_THAT(text, HasSubstr("factor: float 0.1,"));
  const auto again = Parse(text);
  ASSERT_THAT(again, IsOk()) << text;
  EXPECT_EQ(NetworkToText(*again), text);
  EXPECT_EQ(again->operations[0]->attrs, net.data().operations[0]->attrs);
}

TEST(NetworkTextTest, BytesThatAreNotUtf8AreEscaped) {
  const struct {
    const char* name;
    const char* text;
  } cases[] = {
      {"\xC3\xA4 \xF0\x9F\x98\x80", "\xC3\xA4 \xF0\x9F\x98\x80"},
      {"\xC3", "\\xc3"},                    // Cut short.
      {"\xC0\xAF", "\\xc0\\xaf"},           // Too long.
      {"\xED\xA0\x80", "\\xed\\xa0\\x80"},  // Half of a pair.
      {"\xF4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
      {"a\xFF\xC3\xA4", "a\\xff\xC3\xA4"},
  };
  for (const auto& c : cases) {
    const Network network(c.name);
    const std::string text = NetworkToText(network.data());
    EXPECT_THAT(text, HasSubstr(std::string("network \"") + c.text + "\" {"));
    const auto read = Parse(text);
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(read->name, c.name);
  }
}

TEST(NetworkTextTest, EveryBitOfConstantsComesBack) {
  Network net("constants");
  constexpr float kNan = std::numeric_limits<float>::signaling_NaN();
  const NDArray tensors[] = {
      Floats({1.0f / 3, 1e30f, -0.0f, kNan, -INFINITY}),
      MakeTensor<double>({1, 2}, {0.1, 5e-324}),
      MakeTensor<int8_t>({2}, {-128, 127}),
      MakeTensor<uint64_t>({}, {UINT64_MAX}),
      MakeTensor<uint16_t>({2}, {0x3C00, 0x7E01}, {kDLFloat, 16, 1}),
      MakeTensor<uint8_t>({3}, {0, 1, 1}, kBool),
      MakeTensor<float>({0, 4}, {}),
      MakeTensor<float>({1}, {1, 2, 3, 4}, {kDLFloat, 32, 4}),
  };
  for (const NDArray& tensor : tensors) {
    ASSERT_THAT(net.AddConstant("", tensor), IsOk());
  }
  const std::string text = TextOf(net);
  const auto again = Parse(text);
  ASSERT_THAT(again, IsOk()) << text;
  for (size_t i = 0; i < std::size(tensors); ++i) {
    EXPECT_EQ(ValuesOf<uint8_t>(again->values[i]->data),
              ValuesOf<uint8_t>(tensors[i]))
        << i;
  }
  EXPECT_EQ(NetworkToText(*again), text);
}

TEST(NetworkTextTest, BodiesAreNested) {
  Network body("inner");
  const ValueId p = body.AddInput("p", TensorType(kFloat32, {2})).value();
  ASSERT_THAT(body.SetOutputs({p}), IsOk());
  const SharedNetwork inner = ShareNetwork(std::move(body));
  Network net("outer");
  const ValueId c = net.AddInput("c", TensorType(kBool, {})).value();
  const ValueId x = net.AddInput("x", TensorType(kFloat32, {2})).value();
  ASSERT_THAT(net.Add(Ops(),
                      test_ops::If{.then_branch = {inner, 1},
                                   .else_branch = {inner, 1}},
                      {c, x, x}),
              IsOk());
  const auto again = Parse(TextOf(net));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(NetworkToText(*again), TextOf(net));
  EXPECT_THAT(ToStatus(Verify(*again)), IsOk());
}

// A body that is read can be edited like any other.
TEST(NetworkTextTest, BodiesThatAreReadAreNetworks) {
  Network net("outer");
  const auto data = Parse(R"(network "outer" { opset "" 21;
    input %0 "c": bool[n];
    #0 "if" = If@11(%0, %0) {
      then_branch: graph 1 network "b" { input %0 "p": bool[n]; output %0; },
      else_branch: graph 0 network "e" { constant %0 "k" = bool[1] [1]; output %0; }
    } -> %1 "y" barrier %2;
    output %1; })");
  ASSERT_THAT(data, IsOk());
  Network network = Network::FromData(*data).value();
  ASSERT_THAT(network.BindDim("n", 1), IsOk());
  EXPECT_EQ(ToString(network.value(ValueId{1}).type), "bool[1]");
}

TEST(NetworkTextTest, NumbersWithGapsComeBack) {
  Network net = Network::FromData(*Parse(kSmall)).value();
  ASSERT_THAT(net.ReplaceUses({ValueId{4}}, {ValueId{2}}), IsOk());
  ASSERT_THAT(net.Remove(OperationId{1}), IsOk());
  const std::string text = TextOf(net);
  EXPECT_THAT(text, HasSubstr("numbers %6 #2;"));
  ExpectSame(text);
  EXPECT_EQ(Parse(text)->values.size(), net.data().values.size());
}

TEST(NetworkTextTest, BrokenNetworksComeBackTheSame) {
  NetworkData data = *Parse(kSmall);
  data.order = {OperationId{1}, OperationId{1}, OperationId{77}};
  data.inputs = {ValueId{1}, kNoValue};
  data.outputs = {ValueId{9}, kNoValue};
  data.values[2]->uses = {{kNoOperation, 3}, {OperationId{0}, kBarrierSlot}};
  data.values[2]->producer = OperationId{1};
  data.values[3]->name = "named barrier";
  data.values[1]->id = ValueId{5};
  data.values[0]->data = Floats({1});
  data.values[0]->elements = Shape{1, Dim(), Dim::Named("e")};
  data.values[4]->type = TensorType({9, 3, 0}, {-1});
  data.values[5]->kind = NetworkValue::Kind::kConstant;
  data.operations[0]->id = OperationId{1};
  data.operations[0]->attrs = OpAttrs();
  data.operations[0]->after = {kNoValue, ValueId{0}};
  data.operations[1]->outputs = {ValueId{4}, ValueId{4}};
  data.operations[1]->barrier = ValueId{88};
  data.opsets.clear();
  const std::string text = NetworkToText(data);
  ExpectSame(text);
}

TEST(NetworkTextTest, UsesAreWrittenOnlyWhereTheyAreNotWhatOperationsSay) {
  NetworkData data = *Parse(kSmall);
  std::swap(data.values[2]->uses[0], data.values[2]->uses[1]);
  EXPECT_EQ(NetworkToText(data), kSmall);
  data.values[2]->uses.pop_back();
  EXPECT_THAT(NetworkToText(data), HasSubstr("uses %2 #1.2;"));
}

TEST(NetworkTextTest, TypesThatAreLeftOutAreInferred) {
  const auto data = Parse(R"(// By hand.
    network "net" {
      opset "" 21;
      input %0 "x": float32[n, 3];
      #0 "s" = Shape@1(%0) -> %1 "s" barrier %2;  // Elements, too.
      #1 "y" = Reshape@5(%0, %1) -> %3 "y" barrier %4;
      output %3;
    })");
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ(ToString(data->values[3]->type), "float32[n, 3]");
  EXPECT_THAT(ToStatus(Verify(*data)), IsOk());
}

TEST(NetworkTextTest, TypesThatCannotBeInferredStayUnknown) {
  const auto data = Parse(
      "network \"n\" { opset \"\" 21; #0 \"a\" = Add@7(%9) -> %1 \"y\" barrier "
      "%2; #1 \"b\" = none(%1) -> %3 \"z\" barrier %4; }");
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ(ToString(data->values[1]->type), "?[...]");
}

TEST(NetworkTextTest, LargeConstantsMayBeAHash) {
  const NetworkData data = *Parse(kSmall);
  const std::string text = NetworkToText(data, {.max_elements = 1});
  EXPECT_THAT(text, HasSubstr("constant %1 \"w\" = float32[2] xxh3 \""));
  ExpectRefused(text, "a hash cannot be read back");
  EXPECT_EQ(NetworkToText(data, {.max_elements = 2}), kSmall);
}

TEST(NetworkTextTest, TextOfVersion1IsRead) {
  const std::string text = kSmall;
  const auto data = Parse(text.substr(text.find("network")));
  ASSERT_THAT(data, IsOk());
  EXPECT_EQ(NetworkToText(*data), text);
  ExpectRefused(
      "network \"n\" { constant %0 \"x\" = float32[2] hash \"00ff\"; }",
      "a hash cannot be read back");
}

TEST(NetworkTextTest, ErrorsHaveLineAndColumn) {
  ExpectRefused("network \"n\" {\n  input %0 \"x\" float32[2];\n}",
                "net.txt:2:16: found \"float32[2];\\n}\", expected : and a "
                "type");
}

TEST(NetworkTextTest, TextThatMakesNoSenseIsRefused) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "expected network"},
      {"version 3; network \"n\" { }", "expected a version from 1 to 2"},
      {"version 2 network \"n\" { }", "expected ;"},
      {"version 2; version 2; network \"n\" { }", "expected network"},
      {"network \"n\" {", "expected opset, input"},
      {"network \"n\" { } x", "expected the end"},
      {"network \"n\" { opset \"\" 21 }", "expected ;"},
      {"network \"n\" { opset \"\" 99999999999; }", "expected a version"},
      {"network \"n\" { input 0 \"x\": int64[]; }", "a number such as %3"},
      {"network \"n\" { input %4294967295 \"x\": int64[]; }", "such as %3"},
      {"network \"n\" { input %4000000000 \"x\": int64[]; }", "far apart"},
      {"network \"n\" { numbers %0 #4000000000; }", "far apart"},
      {"network \"n\" { input %0 \"x\": int64[]; input %0 \"y\": int64[]; }",
       "a number that no value has yet"},
      {"network \"n\" { constant %0 \"x\" = int64[2] [1]; }",
       "as many elements as int64[2]"},
      {"network \"n\" { constant %0 \"x\" = int64[999999999999] [1]; }",
       "as many elements"},
      {"network \"n\" { constant %0 \"x\" = int64[n] [1]; }",
       "a tensor's type, all of it known"},
      {"network \"n\" { constant %0 \"x\" = int8[1] [128]; }",
       "an element of type int8"},
      {"network \"n\" { constant %0 \"x\" = float32[1] [0x7fc000]; }",
       "an element of type float32"},
      {"network \"n\" { constant %0 \"x\" = none; }", "expected data"},
      {"network \"n\" { value %0 thing \"x\"; }", "constant, output or"},
      {"network \"n\" { #0 \"a\" = Rel@14() -> none barrier _; }",
       "no operator Rel@14 of domain \"\"; did you mean Relu?"},
      {"network \"n\" { #0 \"a\" = Relu@5() -> none barrier _; }",
       "no operator Relu@5"},
      {"network \"n\" { #0 \"a\" = Scale@1() -> none barrier _; }",
       "attribute factor: is missing"},
      {"network \"n\" { #0 \"a\" = Scale@1() {} -> none barrier _; }",
       "attribute factor: is missing"},
      {"network \"n\" { #0 \"a\" = Relu@6() {x: many 3} -> none barrier _; }",
       "expected int, float"},
      {"network \"n\" { #0 \"a\" = none() -> none; }", "expected barrier"},
      {"network \"n\" { #0 \"a\" = none() -> none barrier _; "
       "#0 \"b\" = none() -> none barrier _; }",
       "a number that no operation has yet"},
      {"network \"n\\q\" { }", "expected \\n, \\t"},
  };
  for (const auto& [text, message] : rows) ExpectRefused(text, message);
}

TEST(NetworkTextTest, ManyBodiesCannotAskForMuchMemory) {
  std::string text = "network \"n\" { #0 \"a\" = If@11() {";
  for (int i = 0; i < 100; ++i) {
    text +=
        "then_branch: graph 0 network \"b\" { input %60000 \"x\": int64[]; "
        "}, ";
  }
  text += "else_branch: graph 0 none} -> none barrier _; }";
  ExpectRefused(text, "far apart");
}

TEST(NetworkTextTest, DeepNestingIsRefused) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) {
    text += "network \"n\" { #0 \"a\" = If@11() {then_branch: graph 0 ";
  }
  ExpectRefused(text, "bodies that are not nested as deep");
}

}  // namespace
}  // namespace nodewise
