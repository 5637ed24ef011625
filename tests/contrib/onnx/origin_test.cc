// What the nodes of a model say of where they are from.

#include "nodewise/ir/origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/ir/network.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr const char* kScopesKey = "pkg.torch.onnx.name_scopes";
constexpr const char* kTraceKey = "pkg.torch.onnx.stack_trace";

std::string TraceOf(int line) {
  return "File \"net.py\", line " + std::to_string(line) +
         ", in forward\n    y = -x";
}

void AddNote(const std::string& key, const std::string& value,
             nodewise_onnx::Node* node) {
  auto& note = *node->add_metadata_props();
  note.set_key(key);
  note.set_value(value);
}

std::string SourceOf(const Network& network, std::string_view name) {
  const auto source =
      SourceOf(network.operation(network.FindOperation(name).value()));
  return source.has_value() ? source->ToString() : "";
}

// x -> Neg -> y, from a module `neg` and line 3.
ModelBuilder NotedModel() {
  ModelBuilder builder = NegModel();
  nodewise_onnx::Node* const node = builder.graph().mutable_node(0);
  AddNote(kScopesKey, "['', 'neg', 'neg_1']", node);
  AddNote(kTraceKey, TraceOf(3), node);
  AddNote("pkg.torch.onnx.fx_node", "%neg", node);
  return builder;
}

TEST(OnnxOriginTest, ANodeKeepsWhereItIsFrom) {
  const Network network = NotedModel().Import().value();
  EXPECT_EQ(SourceOf(network, "n"), "neg, net.py:3 in forward: y = -x");
  const Operation& operation = network.operation(network.order()[0]);
  EXPECT_EQ(operation.origin->notes.size(), 2u);  // Without the node of FX.
}

TEST(OnnxOriginTest, OneTraceOfManyNodesIsThereOnce) {
  ModelBuilder builder = NotedModel();
  builder.Output("z");
  AddNote(kTraceKey, TraceOf(3), &builder.Node("Neg", {"y"}, {"z"}, "m"));
  const Network network = builder.Import().value();
  const auto& first = network.operation(network.order()[0]).origin->notes;
  const auto& second = network.operation(network.order()[1]).origin->notes;
  EXPECT_EQ(first[1].second, second[0].second);
}

TEST(OnnxOriginTest, WhatSaysNothingHasNone) {
  const Network network = NegModel().Import().value();
  EXPECT_EQ(network.operation(network.order()[0]).origin, nullptr);
}

TEST(OnnxOriginTest, ATraceInTheDescriptionCountsAndNothingElseThere) {
  ModelBuilder builder = NegModel();
  builder.graph().mutable_node(0)->set_doc_string("net.py(25): forward\n");
  EXPECT_EQ(SourceOf(builder.Import().value(), "n"), "net.py:25 in forward");
  builder.graph().mutable_node(0)->set_doc_string("the last of them (old)");
  EXPECT_EQ(SourceOf(builder.Import().value(), "n"), "");
}

TEST(OnnxOriginTest, ExportWritesItAsItWasRead) {
  for (const bool is_described : {false, true}) {
    ModelBuilder builder = NotedModel();
    if (is_described) {
      builder.graph().mutable_node(0)->set_doc_string("net.py(25): forward");
    }
    const Network network = builder.Import().value();
    nodewise_onnx::Model model;
    ASSERT_TRUE(model.ParseFromString(ExportOnnx(network).value()));
    const nodewise_onnx::Node& node = model.graph().node(0);
    std::vector<std::pair<std::string, std::string>> notes;
    for (const auto& note : node.metadata_props()) {
      notes.emplace_back(note.key(), note.value());
    }
    EXPECT_THAT(notes, ElementsAre(Pair(kScopesKey, "['', 'neg', 'neg_1']"),
                                   Pair(kTraceKey, TraceOf(3))));
    EXPECT_EQ(node.doc_string(), is_described ? "net.py(25): forward" : "");
  }
}

TEST(OnnxOriginTest, APartOfANetworkKeepsIt) {
  const Network network = NotedModel().Import().value();
  const Network part =
      ExtractNetwork(network, {}, {network.FindValue("y").value()}).value();
  EXPECT_EQ(SourceOf(part, "n"), "neg, net.py:3 in forward: y = -x");
}

TEST(OnnxOriginTest, ABodyKeepsIt) {
  ModelBuilder builder;
  builder.Input("which", {}, 9).Input("x", {2}).Output("y");
  auto& choose = builder.Node("Choose", {"which"}, {"y"}, "choose");
  for (const char* const name : {"then_branch", "else_branch"}) {
    auto& body = *AddAttribute(name, 5, &choose).mutable_g();
    body.set_name(name);
    AddNote(
        kTraceKey, TraceOf(8),
        &ModelBuilder::SetNode("Neg", {"x"}, {"s"}, "inner", body.add_node()));
    body.add_output()->set_name("s");
  }
  const Network network = builder.Import().value();
  const Operation& operation = network.operation(network.order()[0]);
  std::vector<std::string> found;
  for (const AttrField& field : operation.def().fields) {
    const auto value = field.get(operation.attrs.get());
    const auto* const body = std::get_if<Subgraph>(&*value);
    if (body != nullptr) found.push_back(SourceOf(*body->body, "inner"));
  }
  const std::string line = "net.py:8 in forward: y = -x";
  EXPECT_THAT(found, ElementsAre(line, line));
}

TEST(OnnxOriginTest, WhatAFunctionDoesNotNoteIsFromItsCall) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  auto& import = *builder.model().add_opset_import();
  import.set_domain("local");
  import.set_version(1);
  nodewise_onnx::Function& function = *builder.model().add_functions();
  function.set_name("Twice");
  function.set_domain("local");
  function.add_input("a");
  function.add_output("c");
  ModelBuilder::SetNode("Neg", {"a"}, {"b"}, "", function.add_node());
  AddNote(kTraceKey, TraceOf(5),
          &ModelBuilder::SetNode("Neg", {"b"}, {"c"}, "", function.add_node()));
  auto& call = builder.Node("Twice", {"x"}, {"y"}, "call");
  call.set_domain("local");
  AddNote(kTraceKey, TraceOf(4), &call);
  const Network network = builder.Import().value();
  EXPECT_EQ(SourceOf(network, "call/Neg_0"), "net.py:4 in forward: y = -x");
  EXPECT_EQ(SourceOf(network, "call/Neg_1"), "net.py:5 in forward: y = -x");
}

TEST(OnnxOriginTest, NotesThatAreTooLongAreLeftOut) {
  ModelBuilder builder = NegModel();
  nodewise_onnx::Node* const node = builder.graph().mutable_node(0);
  AddNote(kTraceKey, TraceOf(3) + std::string(1 << 20, 'x'), node);
  AddNote("namespace", "kept", node);
  AddNote("namespace", "twice", node);
  EXPECT_EQ(SourceOf(builder.Import().value(), "n"), "kept");
}

TEST(OnnxOriginTest, ManyNotesTakeNoMoreThanTheirLimit) {
  ModelBuilder builder = NegModel();
  std::string last = "y";
  for (int i = 0; i < 1000; ++i) {
    const std::string next = "v" + std::to_string(i);
    AddNote("namespace", next + std::string(60'000, 'x'),
            &builder.Node("Neg", {last}, {next}, next));
    last = next;
  }
  builder.Output(last);
  const Network network = builder.Import().value();
  EXPECT_NE(SourceOf(network, "v0"), "");
  EXPECT_EQ(SourceOf(network, "v999"), "");
}

TEST(OnnxOriginTest, SourcesAreThoseOfTheFirstModelThatSaysThem) {
  const auto silent = std::make_shared<const Network>(*NegModel().Import());
  const auto noted = std::make_shared<const Network>(*NotedModel().Import());
  const auto sources = SourcesOf({"none", "n"}, {nullptr, silent, noted});
  EXPECT_THAT(TextsOf(sources),
              ElementsAre("neg, net.py:3 in forward: y = -x"));
  EXPECT_THAT(SourcesOf({"n"}, {silent}), IsEmpty());
}

}  // namespace
}  // namespace nodewise
