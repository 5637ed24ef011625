#include "nodewise/artefact/artefact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nodewise/graph/graph_json.h"
#include "tests/support/fixtures.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;
using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A folder of this test's own with files of these names.
fs::path FolderWith(const std::vector<std::string>& files) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(testing::TempDir()) / test->name();
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& file : files) std::ofstream(folder / file) << "content";
  return folder;
}

TEST(FindArtefactTest, FolderIsSearchedByName) {
  const fs::path folder = FolderWith({"graph.json", "other.json", "lib.so",
                                      "x.so", "params.params", "a.params"});
  const auto files = FindArtefact(folder);
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->graph, folder / "graph.json");
  EXPECT_EQ(files->library, folder / "lib.so");
  EXPECT_EQ(files->params, folder / "params.params");
  EXPECT_EQ(files->target, folder);
}

TEST(FindArtefactTest, OnlyFileOfItsKindMayHaveAnyName) {
  const fs::path folder = FolderWith({"net.json", "deploy.so", "w.params"});
  const auto files = FindArtefact(folder);
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->graph, folder / "net.json");
  EXPECT_EQ(files->library, folder / "deploy.so");
  EXPECT_EQ(files->params, folder / "w.params");
}

TEST(FindArtefactTest, SeveralFilesOfOneKindAreRefused) {
  const fs::path folder = FolderWith({"a.json", "b.json"});
  EXPECT_THAT(FindArtefact(folder),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr(folder.string() + ": has 2 files "
                                                          "*.json"),
                              HasSubstr("expected graph.json"))));
}

TEST(FindArtefactTest, DumpsOwnGraphGoesBeforeTheRewrittenOne) {
  const fs::path folder =
      FolderWith({"_tvmdbg_graph_dump.json", "_nodewise_graph.json",
                  "_tvmdbg_execution_trace.json", "output_tensors.params"});
  const auto files = FindArtefact(folder);
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->graph, folder / "_nodewise_graph.json");
  EXPECT_EQ(files->params, folder / "output_tensors.params");
}

TEST(FindArtefactTest, DumpWithoutItsSourceHasTheRewrittenGraph) {
  const fs::path folder =
      FolderWith({"_tvmdbg_graph_dump.json", "_tvmdbg_execution_trace.json"});
  const auto files = FindArtefact(folder);
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->graph, folder / "_tvmdbg_graph_dump.json");
}

TEST(FindArtefactTest, RootOfADumpStandsForTheDump) {
  const fs::path root = FolderWith({"table.txt"});
  const fs::path folder = root / "_tvmdbg_device_CPU_0";
  fs::create_directories(folder);
  std::ofstream(folder / "_tvmdbg_graph_dump.json") << "content";
  const auto files = FindArtefact(root);
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->graph, folder / "_tvmdbg_graph_dump.json");
  EXPECT_EQ(files->target, root);
}

TEST(FindArtefactTest, FolderWithoutAnArtefactSaysWhatIsMissing) {
  const fs::path folder = FolderWith({"readme.txt", "w.params"});
  EXPECT_THAT(FindArtefact(folder),
              FailsWith(StatusCode::kNotFound,
                        HasSubstr(folder.string() + ": holds no artefact")));
}

TEST(FindArtefactTest, FileIsAGraphOrALibraryByItsEnding) {
  const fs::path folder = FolderWith({"net.json", "net.so"});
  const auto graph = FindArtefact(folder / "net.json", "l.so", "p.params");
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->graph, folder / "net.json");
  EXPECT_EQ(graph->library, "l.so");
  EXPECT_EQ(graph->params, "p.params");
  const auto library = FindArtefact(folder / "net.so");
  ASSERT_THAT(library, IsOk());
  EXPECT_EQ(library->graph, "");
  EXPECT_EQ(library->library, folder / "net.so");
}

TEST(FindArtefactTest, NamedFilesGoBeforeThoseOfTheFolder) {
  const fs::path folder = FolderWith({"graph.json", "lib.so", "params.params"});
  const auto files = FindArtefact(folder, "other.so", "other.params");
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->library, "other.so");
  EXPECT_EQ(files->params, "other.params");
}

TEST(FindArtefactTest, MissingTargetIsNamed) {
  EXPECT_THAT(FindArtefact("/no/such/model"),
              FailsWith(StatusCode::kNotFound,
                        "/no/such/model: no such file or folder"));
}

TEST(LoadArtefactTest, GraphWithoutLibraryIsRefusedWithAHint) {
  const fs::path folder = FolderWith({});
  std::ofstream(folder / "graph.json") << AddThenRelu().Text();
  EXPECT_THAT(LoadArtefact(*FindArtefact(folder)),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("graph.json: no compiled library"),
                              HasSubstr("ArtefactFiles::library"))));
}

// A folder whose graph says that its functions are built in.
fs::path FolderWithBuiltIns() {
  fs::path folder = FolderWith({});
  Graph graph = AddThenRelu().Build();
  SetBuiltInFunctions(&graph);
  std::ofstream(folder / "graph.json") << WriteGraph(graph);
  return folder;
}

TEST(LoadArtefactTest, BuiltInFunctionsNeedNoLibrary) {
  const fs::path folder = FolderWithBuiltIns();
  const Ref<Library> built_ins = BuiltInLibrary({});
  const auto artefact = LoadArtefact(*FindArtefact(folder), {}, built_ins);
  ASSERT_THAT(artefact, IsOk());
  EXPECT_EQ(artefact->library.get(), built_ins.get());
}

TEST(LoadArtefactTest, AProgramWithoutBuiltInFunctionsSaysSo) {
  EXPECT_THAT(LoadArtefact(*FindArtefact(FolderWithBuiltIns())),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("graph.json: its functions are nodewise's "
                                  "own, and this program has none")));
}

TEST(VerifyArtefactTest, BuiltInFunctionsAreAskedFor) {
  const ArtefactFiles files = *FindArtefact(FolderWithBuiltIns());
  const auto found = VerifyArtefact(files, {{}, BuiltInLibrary({})});
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->ToStatus(), FailsWith(StatusCode::kDataLoss,
                                           HasSubstr("no built-in function")));
  const auto unasked = VerifyArtefact(files);
  ASSERT_THAT(unasked, IsOk());
  EXPECT_FALSE(unasked->HasErrors());
  EXPECT_EQ(unasked->items().size(), 1u);
}

TEST(LoadArtefactTest, DamagedGraphIsLocated) {
  const fs::path folder = FolderWith({"graph.json"});
  EXPECT_THAT(
      LoadArtefact(*FindArtefact(folder)),
      FailsWith(StatusCode::kDataLoss,
                HasSubstr((folder / "graph.json").string() + ":1:1: "
                                                             "not JSON")));
}

TEST(LoadArtefactTest, FileThatIsNotALibraryIsRefused) {
  const fs::path folder = FolderWith({"lib.so"});
  EXPECT_THAT(LoadArtefact(*FindArtefact(folder)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("lib.so")));
}

// A compiled network of the fixtures, or "" where there are none.
std::string CompiledNetwork() {
  const auto folders = FixtureFolders("tvm-0.14");
  for (const std::string& folder : folders) {
    if (folder.find("mlp-llvm") != std::string::npos) return folder;
  }
  return "";
}

// Runs an executor on the inputs that were recorded with the network, and
// returns whether the recorded outputs came out, bit for bit.
void ExpectRecordedOutputs(const std::string& folder,
                           const ArtefactFiles& files) {
  auto executor = CreateExecutor(files, {});
  ASSERT_THAT(executor, IsOk());
  const auto inputs = OpenParams(folder + "/inputs.params");
  const auto outputs = OpenParams(folder + "/outputs.params");
  ASSERT_THAT(inputs, IsOk());
  ASSERT_THAT(outputs, IsOk());
  for (const auto& [name, tensor] : inputs->tensors) {
    ASSERT_THAT((*executor)->SetInput(name, *tensor), IsOk());
  }
  ASSERT_THAT((*executor)->Run(), IsOk());
  ASSERT_EQ((*executor)->NumOutputs(), outputs->tensors.size());
  for (size_t i = 0; i < outputs->tensors.size(); ++i) {
    EXPECT_EQ(ValuesOf<uint8_t>(*(*executor)->GetOutput(i)),
              ValuesOf<uint8_t>(outputs->tensors[i].tensor));
  }
}

TEST(CreateExecutorTest, FolderOfGraphLibraryAndParamsRuns) {
  const std::string folder = CompiledNetwork();
  if (folder.empty()) GTEST_SKIP() << "no fixtures/tvm-0.14/mlp-llvm";
  ArtefactFiles files{folder + "/graph.json", folder + "/lib.so",
                      folder + "/params.params", folder};
  ExpectRecordedOutputs(folder, files);
}

TEST(CreateExecutorTest, FactoryLibraryAloneRuns) {
  const std::string folder = CompiledNetwork();
  if (folder.empty()) GTEST_SKIP() << "no fixtures/tvm-0.14/mlp-llvm";
  ExpectRecordedOutputs(folder, *FindArtefact(folder + "/factory.so"));
}

TEST(CreateExecutorTest, LibraryWithoutAGraphIsRefusedWithAHint) {
  const std::string folder = CompiledNetwork();
  if (folder.empty()) GTEST_SKIP() << "no fixtures/tvm-0.14/mlp-llvm";
  EXPECT_THAT(CreateExecutor(*FindArtefact(folder + "/lib.so"), {}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("lib.so: holds no graph")));
}

}  // namespace
}  // namespace nodewise
