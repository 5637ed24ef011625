#include "nodewise/ir/origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

// As torch.onnx writes it: the calls from the outside, torch's own between.
constexpr const char* kTorchTrace =
    "File \"/src/net.py\", line 27, in forward\n"
    "    x = self.layers(x)\n"
    "  File \"/venv/lib/python3.11/site-packages/torch/nn/modules/"
    "container.py\", line 259, in forward\n"
    "    input = module(input)\n"
    "  File \"/src/net.py\", line 12, in forward\n"
    "    y = self.norm(self.conv(x))\n"
    "        ^^^^^^^^^^^^^^^^^^^^^^^\n"
    "  File \"/venv/lib/python3.11/site-packages/torch/nn/modules/"
    "batchnorm.py\", line 210, in forward\n"
    "    return F.batch_norm(";

std::string TextOf(std::string_view trace) {
  const auto line = FindSourceLine(trace);
  return line.has_value() ? line->ToString() : "none";
}

Origin OriginWith(
    const std::vector<std::pair<std::string, std::string>>& notes) {
  Origin origin;
  for (const auto& [key, value] : notes) {
    origin.notes.emplace_back(key, std::make_shared<const std::string>(value));
  }
  return origin;
}

std::vector<std::string> ModuleOf(const std::string& key,
                                  const std::string& value) {
  return ModulePathOf(OriginWith({{key, value}})).value();
}

TEST(SourceLineTest, TheInnermostLineOutsideOfTorchIsTaken) {
  EXPECT_THAT(FindSourceLine(kTorchTrace),
              Optional(SourceLine{"/src/net.py", 12, "forward",
                                  "y = self.norm(self.conv(x))"}));
}

TEST(SourceLineTest, TracesOfOtherExportersAreRead) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      // TorchScript's: the innermost first, without the code.
      {"/v/site-packages/torch/nn/modules/conv.py(565): forward\n"
       "/src/net.py(25): forward\n/src/main.py(3): <module>",
       "net.py:25 in forward"},
      // jax's.
      {"/v/site-packages/jax/_src/lax/lax.py:12:3 (add)\nnet.py:7:4 (call)",
       "net.py:7 in call"},
      {"net.py:7 (call)", "net.py:7 in call"},
      // From Windows.
      {"File \"C:\\src\\net.py\", line 3, in f\n  y = x + 1",
       "net.py:3 in f: y = x + 1"},
      {"File \"C:\\v\\Lib\\site-packages\\torch\\nn\\functional.py\", line 3",
       "none"},
      // A module without functions, and no code.
      {"File \"net.py\", line 3", "net.py:3"}};
  for (const auto& [trace, text] : cases) EXPECT_EQ(TextOf(trace), text);
}

TEST(SourceLineTest, AnInstalledModelIsNotTheFramework) {
  EXPECT_EQ(TextOf("File \"main.py\", line 3, in forward\n"
                   "    return self.model(x)\n"
                   "File \"/v/site-packages/transformers/bert.py\", line 9, in "
                   "forward\n    q = self.query(x)\n"
                   "File \"/v/site-packages/torch/nn/modules/linear.py\", line "
                   "1, in forward\n    return F.linear(x)"),
            "bert.py:9 in forward: q = self.query(x)");
}

TEST(SourceLineTest, CodeThatWasGeneratedIsNotOfTheProgram) {
  EXPECT_EQ(TextOf("File \"net.py\", line 34, in forward\n    cond(x)\n"
                   "File \"<eval_with_key>.24\", line 9, in forward\n    c()"),
            "net.py:34 in forward: cond(x)");
}

TEST(SourceLineTest, WhatIsNotATraceHasNoLine) {
  for (const char* const text :
       {"", "\n", "adds two numbers", "File \"", "File \"x\", line ",
        "File \"x\", line -3, in f", "File \"x\", line 99999999999, in f",
        "x(): f", "(3): f", "x(3f): f", ":1 (f)", "x:y (f)", "x (f)", ")"}) {
    EXPECT_EQ(TextOf(text), "none") << text;
  }
}

TEST(ModulePathTest, IsThatOfTheInnermostScope) {
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"['', 'layers', 'layers.0', 'layers.0.norm', 'conv2d_1']",
       {"layers", "0", "norm"}},
      {"['', 'conv2d']", {}},  // In the outermost module itself.
      {"['sin']", {}},
      {"['', 'layers.0@1', 'add']", {"layers", "0"}},  // Its second call.
      {"['', \"it's\", 'add']", {"it's"}},
      {R"(['', 'a\'b', 'add'])", {"a'b"}},
      {"['', 'open", {}},
      {"", {}}};
  for (const auto& [scopes, path] : cases) {
    EXPECT_EQ(ModuleOf("pkg.torch.onnx.name_scopes", scopes), path) << scopes;
  }
}

TEST(ModulePathTest, ANamespaceHasItWithOrWithoutClasses) {
  EXPECT_THAT(ModuleOf("namespace",
                       ": net.Net/layers: Sequential/layers.0: net.Block/add: "
                       "aten.add.Tensor"),
              ElementsAre("layers", "0"));
  EXPECT_THAT(ModuleOf("namespace", "encoder/attention"),
              ElementsAre("encoder", "attention"));
  EXPECT_THAT(ModuleOf("namespace", "///"), IsEmpty());
}

TEST(ModulePathTest, ClassesStandForModulesWithoutNames) {
  EXPECT_THAT(ModuleOf("pkg.torch.onnx.class_hierarchy",
                       "['net.Net', 'torch.nn.Conv2d', 'aten.conv2d.default']"),
              ElementsAre("Net", "Conv2d"));
}

TEST(ModulePathTest, WithoutNotesOfModulesThereIsNone) {
  EXPECT_EQ(ModulePathOf(OriginWith({{"stack_trace", kTorchTrace}})),
            std::nullopt);
}

TEST(OriginTest, ACallIsTakenWhereThereIsNoTrace) {
  const Origin origin = OriginWith({{"pkg.jax2onnx.callsite", "block:12"}});
  EXPECT_EQ(SourceLineOf(origin).value().ToString(), "line 12 in block");
  EXPECT_EQ(SourceLineOf(OriginWith({{"pkg.x.callsite", "block"}})),
            std::nullopt);
}

TEST(OriginTest, OnlyWhatSaysWhereANodeIsFromIsKept) {
  for (const char* const key :
       {"namespace", "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.stack_trace",
        "pkg.torch.onnx.class_hierarchy", "pkg.jax2onnx.stacktrace"}) {
    EXPECT_TRUE(IsOriginKey(key)) << key;
  }
  for (const char* const key : {"", "pkg.torch.onnx.fx_node", "stack_trace.x",
                                "pkg.onnxscript.rewriter.rule_name"}) {
    EXPECT_FALSE(IsOriginKey(key)) << key;
  }
}

TEST(OperationSourceTest, OneLineOfManyOperationsIsSaidOnce) {
  const OperationSource conv{"conv", "stem",
                             SourceLine{"a/net.py", 2, "forward", ""}};
  const OperationSource relu{"relu", "stem", conv.line};
  const OperationSource pool{"pool", "pool", std::nullopt};
  EXPECT_THAT(TextsOf({conv, relu, pool}),
              ElementsAre("stem, net.py:2 in forward", "pool"));
}

}  // namespace
}  // namespace nodewise
