// Stock libraries of today's TVM, against the graph JSON that an exporter made
// of the same networks and the outputs of TVM's VM.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "nodewise/artefact/artefact.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "nodewise/vm/vm_graph.h"
#include "tests/support/fixtures.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

std::vector<std::string> AllFolders() {
  std::vector<std::string> all;
  for (const char* part : {"tvm-0.25", "tvm-0.26", "tvm-0.27"}) {
    for (const std::string& folder : FixtureFolders(part)) {
      all.push_back(folder);
    }
  }
  return all;
}

class VmFixtureTest : public testing::TestWithParam<std::string> {
 protected:
  static ArtefactFiles Files() {
    return {"", GetParam() + "/vm.so", "", GetParam()};
  }
};

std::string TypesOf(const Graph& graph, const std::vector<EntryRef>& refs) {
  std::string types;
  for (const EntryRef& ref : refs) {
    const GraphEntry& entry = graph.entry(graph.EntryOf(ref));
    types += TypeToString(entry.shape, entry.dtype) + " ";
  }
  return types;
}

// The contents of parameters; their names count on by first use.
std::multiset<std::string> ContentsOf(const Params& params) {
  std::multiset<std::string> contents;
  for (const NamedTensor& entry : params.tensors) {
    contents.emplace(static_cast<const char*>(entry.tensor.data()),
                     entry.tensor.bytes());
  }
  return contents;
}

TEST_P(VmFixtureTest, GraphHasTheInputsOutputsAndParametersOfTheExporters) {
  const auto library = OpenVmLibrary(GetParam() + "/vm.so");
  ASSERT_THAT(library, IsOk());
  ASSERT_NE(*library, nullptr);
  const auto made = ReadVmGraph(**library, std::string());
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->notes, IsEmpty());
  const auto text = GraphText::FromFile(GetParam() + "/graph.json");
  ASSERT_THAT(text, IsOk());
  const Graph exported = ParseGraph(*text).value();
  EXPECT_EQ(TypesOf(made->graph, made->graph.heads),
            TypesOf(exported, exported.heads));
  EXPECT_EQ(made->graph.nodes[0].name, exported.nodes[0].name);
  EXPECT_EQ(TypesOf(made->graph, {{0, 0, 0}}), TypesOf(exported, {{0, 0, 0}}));
  // The exporter folded what can be computed of constants alone (a transposed
  // weight, the parts of a batch norm), so only the rest is the same.
  const auto params = OpenParams(GetParam() + "/params.params");
  ASSERT_THAT(params, IsOk());
  const auto ours = ContentsOf(made->params);
  const auto theirs = ContentsOf(*params);
  size_t shared = 0;
  for (const std::string& content : theirs) shared += ours.count(content) > 0;
  EXPECT_GE(shared, theirs.size() / 4);
}

TEST_P(VmFixtureTest, EveryFunctionIsOneOfTheLibrary) {
  const auto library = OpenVmLibrary(GetParam() + "/vm.so");
  ASSERT_THAT(library, IsOk());
  const auto made = ReadVmGraph(**library, std::string());
  ASSERT_THAT(made, IsOk());
  std::vector<std::string> used;
  for (const GraphNode& node : made->graph.nodes) {
    if (node.kind == GraphNode::Kind::kInput) continue;
    if (node.function != kNopFunction) used.push_back(node.function);
  }
  std::vector<std::string> known((*library)->kernels.begin(),
                                 (*library)->kernels.end());
  for (const std::string& name : used) {
    EXPECT_THAT(known, testing::Contains(name));
  }
}

TEST_P(VmFixtureTest, TvmsPlanIsKept) {
  const auto library = OpenVmLibrary(GetParam() + "/vm.so");
  ASSERT_THAT(library, IsOk());
  const auto made = ReadVmGraph(**library, std::string());
  ASSERT_THAT(made, IsOk());
  // One slot for each storage that the bytecode allocates, input and constant.
  size_t storages = 0;
  const VmExecutable& executable = (*library)->executable;
  for (int64_t i = 0; i < executable.num_instructions(); ++i) {
    const VmInstruction instruction =
        DecodeVmInstruction(executable, i).value();
    if (instruction.opcode != VmInstruction::Opcode::kCall) continue;
    const auto function = static_cast<size_t>(instruction.function);
    storages +=
        executable.functions[function].name == "vm.builtin.alloc_storage";
  }
  const auto plan = PlanStorage(made->graph, kDLCPU);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->slots.size(), storages + made->graph.arg_nodes.size());
}

// The outputs with that plan, or with TVM's own.
std::vector<NDArray> OutputsOf(const std::string& folder, bool is_private) {
  const ArtefactFiles files{"", folder + "/vm.so", "", folder};
  const Artefact artefact = LoadArtefact(files).value();
  GraphExecutor::Options options;
  if (is_private) {
    options.plan = PrivatePlan(GraphIndex(
        artefact.graph, PlanStorage(artefact.graph, kDLCPU).value()));
  }
  const auto executor =
      GraphExecutor::Create(artefact.graph, artefact.library, options).value();
  EXPECT_THAT(executor->LoadParams(artefact.params), IsOk());
  const Params inputs = OpenParams(folder + "/inputs.params").value();
  for (const NamedTensor& input : inputs.tensors) {
    EXPECT_THAT(executor->SetInput(input.name, *input.tensor), IsOk());
  }
  // Twice: what a run leaves behind must not matter to the next.
  EXPECT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(executor->Run(), IsOk());
  std::vector<NDArray> outputs;
  for (size_t i = 0; i < executor->NumOutputs(); ++i) {
    outputs.push_back(executor->GetOutput(i)->CopyToHost().value());
  }
  return outputs;
}

TEST_P(VmFixtureTest, OutputsAreThoseOfTvmBitForBitWithEitherPlan) {
  const Params expected = OpenParams(GetParam() + "/outputs.params").value();
  for (const bool is_private : {false, true}) {
    const auto outputs = OutputsOf(GetParam(), is_private);
    ASSERT_EQ(outputs.size(), expected.tensors.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const NDArray* wanted = expected.Find("output_" + std::to_string(i));
      ASSERT_NE(wanted, nullptr);
      ASSERT_EQ(wanted->bytes(), outputs[i].bytes());
      EXPECT_EQ(std::memcmp(wanted->data(), outputs[i].data(), wanted->bytes()),
                0)
          << "output " << i << (is_private ? " with private storage" : "");
    }
  }
}

TEST_P(VmFixtureTest, VerifyFindsNothing) {
  const auto diagnostics = VerifyArtefact(Files());
  ASSERT_THAT(diagnostics, IsOk());
  for (const Diagnostic& diagnostic : diagnostics->items()) {
    ADD_FAILURE() << diagnostic.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Tvm, VmFixtureTest, testing::ValuesIn(AllFolders()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return FixtureName(info.param);
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VmFixtureTest);

TEST(VmFixturesTest, AreThere) {
  if (FixturesFolder().empty()) {
    GTEST_SKIP() << "no ../shared/fixtures: libraries of real TVM not tested";
  }
  EXPECT_GE(AllFolders().size(), 9u);
}

}  // namespace
}  // namespace nodewise
