// The C of single operations, compiled with all warnings and run beside the
// reference.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "fmt/format.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/module/module.h"
#include "nodewise/op/tensor_loops.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

// A network of one operation, and what it is run with.
struct Case {
  std::string name;
  NetBuilder builder;
  std::vector<NDArray> inputs;
  double tolerance = 0;  // Absolute and relative. 0: same bits.
};

// Numbers that are neither all whole nor all of one sign.
template <typename T>
NDArray Numbers(std::vector<int64_t> shape, double scale = 1) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(FromDouble<T>(
        scale * std::sin(static_cast<double>(i * i + 3 * i + 1))));
  }
  return MakeTensor<T>(std::move(shape), values);
}

// Adds an input, and what it is run with.
ValueId Given(Case* one, NDArray data) {
  const std::string name = fmt::format("in{}", one->inputs.size());
  Shape shape;
  for (const int64_t size : data.shape()) shape.emplace_back(size);
  const ValueId id = one->builder.In(name, shape, data.dtype());
  one->inputs.push_back(std::move(data));
  return id;
}

void ExpectNear(const Case& one, const NDArray& found,
                const NDArray& expected) {
  ASSERT_TRUE(found.dtype() == expected.dtype()) << one.name;
  if (one.tolerance == 0) {
    EXPECT_TRUE(HaveSameBits(found, expected)) << one.name;
    return;
  }
  const std::vector<double> a = ToDoubles(found);
  const std::vector<double> b = ToDoubles(expected);
  ASSERT_EQ(a.size(), b.size()) << one.name;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], one.tolerance * (1 + std::fabs(b[i])))
        << one.name << ", element " << i;
  }
}

absl::StatusOr<Ref<Library>> Compiled(const std::string& source,
                                      const std::string& stem) {
  std::ofstream(stem + ".c") << source;
  const std::string command = fmt::format(
      "cc -std=c99 -pedantic -Wall -Wextra -Werror -O1 "
      "-fsanitize=undefined -fsanitize-undefined-trap-on-error -shared -fPIC "
      "'{0}.c' -o '{0}.so' -lm",
      stem);
  if (std::system(command.c_str()) != 0) {
    return absl::InternalError(command + ": has failed");
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module, LoadModule(stem + ".so"));
  return LibraryOf(std::move(module));
}

// One library for all cases: a compiler takes longer to begin than for them.
void ExpectAsReference(std::vector<Case>* cases, const std::string& family) {
  std::vector<Lowered> lowered;
  std::vector<Graph*> graphs;
  lowered.reserve(cases->size());
  for (const Case& one : *cases) {
    auto graph = Lower(one.builder.net, "net");
    ASSERT_THAT(graph, IsOk()) << one.name;
    lowered.push_back(*std::move(graph));
    graphs.push_back(&lowered.back().graph);
  }
  const auto source = EmitTogether(absl::MakeSpan(graphs), AllOperators());
  ASSERT_THAT(source, IsOk());
  const auto library = Compiled(*source, testing::TempDir() + "/" + family);
  ASSERT_THAT(library, IsOk());
  for (size_t i = 0; i < cases->size(); ++i) {
    const Case& one = (*cases)[i];
    const auto expected = Interpret(one.builder.net, one.inputs);
    ASSERT_THAT(expected, IsOk()) << one.name;
    const auto executor = ExecutorOf(lowered[i], *library);
    ASSERT_THAT(executor, IsOk()) << one.name;
    for (size_t k = 0; k < one.inputs.size(); ++k) {
      ASSERT_THAT((*executor)->SetInput(k, *one.inputs[k]), IsOk());
    }
    ASSERT_THAT((*executor)->Run(), IsOk()) << one.name;
    for (size_t k = 0; k < expected->size(); ++k) {
      ExpectNear(one, (*executor)->GetOutput(k).value(), (*expected)[k]);
    }
  }
}

using Attrs = std::vector<NamedAttr>;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(EmittedResultsTest, QuantizeLinearRoundsToEvenAndSaturates) {
  std::vector<Case> cases;
  const NDArray x = MakeTensor<float>(
      {2, 4}, {0.5F, 1.5F, -2.5F, 1e9F, -1e9F, static_cast<float>(kNone),
               INFINITY, 3.49999F});
  const auto add = [&](std::string name, NDArray scale, NDArray zero,
                       Attrs attrs) {
    Case& one = cases.emplace_back();
    one.name = std::move(name);
    const ValueId data = Given(&one, x);
    const ValueId by = Given(&one, std::move(scale));
    const ValueId from = Given(&one, std::move(zero));
    one.builder.Out(one.builder.Op("QuantizeLinear", {data, by, from}, attrs));
  };
  add("one scale", MakeTensor<float>({}, {1}), MakeTensor<uint8_t>({}, {3}),
      {});
  add("by axis", MakeTensor<float>({2}, {1, 0.3F}),
      MakeTensor<int8_t>({2}, {-3, 5}), {{"axis", int64_t{0}}});
  add("in blocks", MakeTensor<float>({2, 2}, {1, 2, 0.1F, 4}),
      MakeTensor<int16_t>({2, 2}, {0, 1, 2, 3}),
      {{"axis", int64_t{1}}, {"block_size", int64_t{3}}});
  ExpectAsReference(&cases, "quantize");
}

TEST(EmittedResultsTest, DequantizeLinearTakesScalesOfAllKinds) {
  std::vector<Case> cases;
  const auto add = [&](std::string name, NDArray x, NDArray scale, NDArray zero,
                       Attrs attrs) {
    Case& one = cases.emplace_back();
    one.name = std::move(name);
    const ValueId data = Given(&one, std::move(x));
    const ValueId by = Given(&one, std::move(scale));
    const ValueId from = Given(&one, std::move(zero));
    one.builder.Out(
        one.builder.Op("DequantizeLinear", {data, by, from}, attrs));
  };
  add("one scale", MakeTensor<uint8_t>({3}, {0, 7, 255}),
      MakeTensor<float>({}, {0.1F}), MakeTensor<uint8_t>({}, {128}), {});
  add("by axis", Numbers<int8_t>({2, 3}, 127), Numbers<float>({3}),
      MakeTensor<int8_t>({3}, {-128, 0, 127}), {{"axis", int64_t{1}}});
  add("in blocks", Numbers<int16_t>({2, 5}, 3e4), Numbers<float>({2, 3}),
      Numbers<int16_t>({2, 3}, 3e4),
      {{"axis", int64_t{1}}, {"block_size", int64_t{2}}});
  add("int32", Numbers<int32_t>({4}, 2e9), MakeTensor<float>({}, {1e-3F}),
      MakeTensor<int32_t>({}, {0}), {});
  ExpectAsReference(&cases, "dequantize");
}

TEST(EmittedResultsTest, DynamicQuantizeLinearHasZeroInItsRange) {
  std::vector<Case> cases;
  for (const double shift : {-2.0, 0.0, 2.0}) {
    Case& one = cases.emplace_back();
    one.name = fmt::format("numbers around {}", shift);
    NDArray x = Numbers<float>({3, 5});
    for (int i = 0; i < 15; ++i) x.As<float>()[i] += static_cast<float>(shift);
    one.builder.Out(one.builder.Op("DynamicQuantizeLinear", {Given(&one, x)}));
  }
  ExpectAsReference(&cases, "dynamic_quantize");
}

TEST(EmittedResultsTest, IntegerProductsSubtractZeroPoints) {
  std::vector<Case> cases;
  const NDArray a = Numbers<uint8_t>({2, 3, 4}, 255);
  const NDArray b = Numbers<int8_t>({4, 5}, 127);
  const auto add = [&](std::string name, NDArray a_zero, NDArray b_zero) {
    Case& one = cases.emplace_back();
    one.name = std::move(name);
    std::vector<ValueId> in = {Given(&one, a), Given(&one, b),
                               Given(&one, std::move(a_zero)),
                               Given(&one, std::move(b_zero))};
    one.builder.Out(one.builder.Op("MatMulInteger", in));
  };
  add("one zero point", MakeTensor<uint8_t>({}, {128}),
      MakeTensor<int8_t>({}, {-128}));
  add("one for each line", MakeTensor<uint8_t>({3}, {1, 2, 255}),
      Numbers<int8_t>({5}, 127));
  Case& conv = cases.emplace_back();
  conv.name = "a padded convolution";
  const std::vector<ValueId> in = {
      Given(&conv, Numbers<uint8_t>({1, 4, 5, 5}, 255)),
      Given(&conv, Numbers<int8_t>({6, 2, 3, 3}, 127)),
      Given(&conv, MakeTensor<uint8_t>({}, {100})),
      Given(&conv, Numbers<int8_t>({6}, 100))};
  conv.builder.Out(conv.builder.Op("ConvInteger", in,
                                   {{"group", int64_t{2}},
                                    {"pads", std::vector<int64_t>{1, 2, 0, 1}},
                                    {"strides", std::vector<int64_t>{2, 1}}}));
  ExpectAsReference(&cases, "integer_products");
}

TEST(EmittedResultsTest, ScaledProductsRoundOnce) {
  std::vector<Case> cases;
  Case& product = cases.emplace_back();
  product.name = "QLinearMatMul";
  std::vector<ValueId> in;
  for (const NDArray& each :
       {Numbers<uint8_t>({2, 3, 4}, 255), MakeTensor<float>({}, {0.03F}),
        MakeTensor<uint8_t>({}, {120}), Numbers<int8_t>({4, 5}, 127),
        Numbers<float>({5}, 0.1), Numbers<int8_t>({5}, 9),
        MakeTensor<float>({}, {0.7F}), MakeTensor<uint8_t>({}, {130})}) {
    in.push_back(Given(&product, each));
  }
  product.builder.Out(product.builder.Op("QLinearMatMul", in));
  Case& conv = cases.emplace_back();
  conv.name = "QLinearConv";
  in.clear();
  for (const NDArray& each :
       {Numbers<uint8_t>({1, 2, 6}, 255), MakeTensor<float>({}, {0.03F}),
        MakeTensor<uint8_t>({}, {7}), Numbers<int8_t>({3, 2, 3}, 127),
        MakeTensor<float>({3}, {0.1F, 0.02F, 0.3F}),
        MakeTensor<int8_t>({3}, {0, 0, 0}), MakeTensor<float>({}, {0.9F}),
        MakeTensor<uint8_t>({}, {128}),
        MakeTensor<int32_t>({3}, {-500, 90, 1000})}) {
    in.push_back(Given(&conv, each));
  }
  conv.builder.Out(conv.builder.Op("QLinearConv", in,
                                   {{"pads", std::vector<int64_t>{1, 1}}}));
  ExpectAsReference(&cases, "scaled_products");
}

TEST(EmittedResultsTest, ResizeTakesAllRules) {
  std::vector<Case> cases;
  const auto add = [&](std::string name, std::vector<float> scales,
                       Attrs attrs) {
    Case& one = cases.emplace_back();
    one.name = std::move(name);
    one.tolerance = 1e-6;
    const ValueId x = Given(&one, Numbers<float>({1, 2, 4, 5}));
    const auto count = static_cast<int64_t>(scales.size());
    const ValueId by = one.builder.Const(
        "scales", MakeTensor<float>({count}, std::move(scales)));
    const ValueId roi = one.builder.Const(
        "roi", MakeTensor<float>({8}, {0, 0, 0.2F, 0.3F, 1, 1, 0.9F, 1.4F}));
    one.builder.Out(one.builder.Op("Resize", {x, roi, by}, attrs));
  };
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* rule :
         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
          "align_corners", "asymmetric", "tf_crop_and_resize"}) {
      add(fmt::format("{} {}", mode, rule), {1, 1, 2, 0.6F},
          {{"mode", std::string(mode)},
           {"coordinate_transformation_mode", std::string(rule)},
           {"extrapolation_value", 7.5F}});
    }
  }
  add("whole scales", {1, 1, 3, 2},
      {{"coordinate_transformation_mode", std::string("asymmetric")},
       {"nearest_mode", std::string("floor")}});
  add("antialias", {1, 1, 0.5F, 0.4F},
      {{"mode", std::string("cubic")},
       {"antialias", int64_t{1}},
       {"exclude_outside", int64_t{1}}});
  ExpectAsReference(&cases, "resize");
}

// A layer of three steps of two sequences, with all inputs up to the last that
// `last` names.
Case Layer(const std::string& kind, int64_t gates, Attrs attrs,
           bool has_lengths = true) {
  Case one;
  one.name = kind;
  one.tolerance = 1e-6;
  int64_t directions = 1;
  bool is_batch_first = false;
  for (const NamedAttr& attr : attrs) {
    one.name += " " + attr.name;
    is_batch_first = is_batch_first || attr.name == "layout";
    if (attr.name != "direction") continue;
    const std::string direction = std::get<std::string>(attr.value);
    one.name += " " + direction;
    if (direction == "bidirectional") directions = 2;
  }
  const int64_t n = 4;
  const std::vector<int64_t> x = {3, 2, 5}, turned = {2, 3, 5};
  const std::vector<int64_t> state = {directions, 2, n};
  const std::vector<int64_t> turned_state = {2, directions, n};
  std::vector<ValueId> in = {
      Given(&one, Numbers<float>(is_batch_first ? turned : x)),
      Given(&one, Numbers<float>({directions, gates * n, 5})),
      Given(&one, Numbers<float>({directions, gates * n, n})),
      Given(&one, Numbers<float>({directions, 2 * gates * n})),
      has_lengths ? Given(&one, MakeTensor<int32_t>({2}, {3, 1})) : kNoValue,
      Given(&one, Numbers<float>(is_batch_first ? turned_state : state))};
  if (kind == "LSTM") {
    in.push_back(
        Given(&one, Numbers<float>(is_batch_first ? turned_state : state)));
    in.push_back(Given(&one, Numbers<float>({directions, 3 * n})));
  }
  attrs.push_back({"hidden_size", n});
  std::vector<std::string> outputs = {"y", "h"};
  if (kind == "LSTM") outputs.push_back("c");
  one.builder.Out(one.builder.Op(kind, in, attrs, outputs));
  return one;
}

using Words = std::vector<std::string>;

TEST(EmittedResultsTest, LstmTakesAllAttributes) {
  std::vector<Case> cases;
  cases.push_back(Layer("LSTM", 4, {}));
  cases.push_back(Layer("LSTM", 4, {}, false));
  for (const char* direction : {"reverse", "bidirectional"}) {
    cases.push_back(Layer("LSTM", 4, {{"direction", std::string(direction)}}));
  }
  cases.push_back(Layer("LSTM", 4, {{"clip", 0.5F}}));
  cases.push_back(Layer("LSTM", 4, {{"input_forget", int64_t{1}}}));
  cases.push_back(Layer(
      "LSTM", 4,
      {{"layout", int64_t{1}}, {"direction", std::string("bidirectional")}}));
  for (const char* each :
       {"Relu", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh",
        "HardSigmoid", "Elu", "Softsign", "Softplus"}) {
    cases.push_back(
        Layer("LSTM", 4, {{"activations", Words{"Sigmoid", each, "Tanh"}}}));
    cases.back().name += each;
  }
  ExpectAsReference(&cases, "lstm");
}

// Weights of 8 bits, with one scale for each direction or for each column.
Case QuantizedLayer(bool by_column, bool has_lengths) {
  Case one;
  one.name = fmt::format("{} scales, {} lengths", by_column ? "column" : "one",
                         has_lengths ? "with" : "without");
  one.tolerance = 1e-6;
  const std::vector<int64_t> scales =
      by_column ? std::vector<int64_t>{2, 16} : std::vector<int64_t>{2};
  const auto given = [&](NDArray data) { return Given(&one, std::move(data)); };
  EXPECT_THAT(one.builder.net.SetOpset("com.microsoft", 1), IsOk());
  NewOperation operation;
  operation.attrs =
      MakeAttrs(*AllOperators().Find("com.microsoft", "DynamicQuantizeLSTM", 1),
                {{"hidden_size", int64_t{4}},
                 {"direction", std::string("bidirectional")}})
          .value();
  operation.inputs = {
      given(Numbers<float>({3, 2, 5})),
      given(Numbers<int8_t>({2, 5, 16}, 127)),
      given(Numbers<int8_t>({2, 4, 16}, 100)),
      given(Numbers<float>({2, 32})),
      has_lengths ? given(MakeTensor<int32_t>({2}, {3, 1})) : kNoValue,
      kNoValue,
      kNoValue,
      kNoValue,
      given(Numbers<float>(scales, 0.01)),
      given(Numbers<int8_t>(scales, 9)),
      given(Numbers<float>(scales, 0.02)),
      given(Numbers<int8_t>(scales, 5))};
  operation.outputs = {"y", "h", "c"};
  const auto id = one.builder.net.AddOperation(std::move(operation));
  EXPECT_THAT(id, IsOk());
  one.builder.Out(one.builder.net.operation(*id).outputs);
  return one;
}

TEST(EmittedResultsTest, DynamicQuantizeLstmRoundsInputsAndStates) {
  std::vector<Case> cases;
  for (const bool by_column : {false, true}) {
    for (const bool has_lengths : {false, true}) {
      cases.push_back(QuantizedLayer(by_column, has_lengths));
    }
  }
  ExpectAsReference(&cases, "dynamic_lstm");
}

TEST(EmittedResultsTest, GruAndRnnTakeAllAttributes) {
  std::vector<Case> cases;
  for (const int64_t linear : {0, 1}) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      cases.push_back(Layer("GRU", 3,
                            {{"linear_before_reset", linear},
                             {"direction", std::string(direction)}}));
    }
  }
  cases.push_back(Layer("GRU", 3, {{"clip", 0.25F}, {"layout", int64_t{1}}}));
  cases.push_back(
      Layer("RNN", 1, {{"direction", std::string("bidirectional")}}));
  cases.push_back(Layer("RNN", 1, {{"activations", Words{"HardSigmoid"}}}));
  ExpectAsReference(&cases, "gru");
}

TEST(EmittedResultsTest, FloatsOf16BitsAreRoundedByEachOperation) {
  std::vector<Case> cases;
  const auto x = [](Case* one) {
    return Given(one, MakeTensor<float>(
                          {2, 4}, {1e-8F, 6.1e-5F, 65519, 65520, -1e30F, 0.1F,
                                   INFINITY, static_cast<float>(kNone)}));
  };
  for (const int64_t type : {10, 16}) {
    Case& cast = cases.emplace_back();
    cast.name = fmt::format("there and back, type {}", type);
    const ValueId there =
        cast.builder.Op("Cast", {x(&cast)}, {{"to", type}})[0];
    const ValueId back =
        cast.builder.Op("Cast", {there}, {{"to", int64_t{1}}})[0];
    cast.builder.Out({there, back});
    Case& chain = cases.emplace_back();
    chain.name = fmt::format("a chain, type {}", type);
    const ValueId a = chain.builder.Op("Cast", {x(&chain)}, {{"to", type}})[0];
    const ValueId square = chain.builder.Op("Mul", {a, a})[0];
    const ValueId sum = chain.builder.Op("Add", {square, a})[0];
    const ValueId turned = chain.builder.Op("Transpose", {sum})[0];
    chain.builder.Out(
        {turned, chain.builder.Op(
                     "MaxPool",
                     {chain.builder.Op(
                         "Unsqueeze", {turned, chain.builder.Const(
                                                   "axis", MakeTensor<int64_t>(
                                                               {1}, {0}))})[0]},
                     {{"kernel_shape", std::vector<int64_t>{2}}})[0]});
  }
  ExpectAsReference(&cases, "short_floats");
}

// A body with an input `x`, of which it gives `kind` of, or x itself if that is
// empty.
Subgraph Branch(const std::string& kind) {
  NetBuilder b;
  const ValueId x = b.In("x", {3});
  b.Out({kind.empty() ? x : b.Op(kind, {x})[0]});
  return {ShareNetwork(std::move(b.net)), 1};
}

TEST(EmittedResultsTest, IfFillsItsOutputsByEitherBranch) {
  std::vector<Case> cases;
  for (const bool is_true : {true, false}) {
    for (const char* other : {"Neg", ""}) {
      Case& one = cases.emplace_back();
      one.name = fmt::format("{}, then Exp else \"{}\"", is_true, other);
      one.tolerance = 1e-6;
      const NDArray flag = NDArray::Empty({}, kBool, kCpu).value();
      *flag.As<uint8_t>() = is_true ? 1 : 0;
      const ValueId condition = Given(&one, flag);
      const ValueId x = Given(&one, Numbers<float>({3}));
      one.builder.Out(one.builder.Op(
          "If", {condition, x, x},
          {{"else_branch", Branch(other)}, {"then_branch", Branch("Exp")}},
          {"y"}));
    }
  }
  ExpectAsReference(&cases, "if");
}

TEST(EmittedResultsTest, NodesOfOtherSizesShareTheirLoops) {
  std::vector<Case> cases;
  for (const int64_t size : {2, 3, 40}) {
    Case& one = cases.emplace_back();
    one.name = fmt::format("{} columns", size);
    one.tolerance = 1e-6;
    const ValueId x = Given(&one, Numbers<float>({2, size}));
    const ValueId turned = one.builder.Op("Transpose", {x})[0];
    one.builder.Out({one.builder.Op("Softmax", {turned})[0]});
  }
  ExpectAsReference(&cases, "shared");
}

}  // namespace
}  // namespace nodewise
