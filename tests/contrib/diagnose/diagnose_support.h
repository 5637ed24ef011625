#pragma once

// Networks of every kind that a question may be about, sound or with one
// operation exchanged.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/demo/silent_build.h"
#include "nodewise/diagnose/diagnose.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/runner/debug_runner.h"
#include "nodewise/runner/runner.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/temporary.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"

namespace nodewise {

// y = exp(size(-x)); `kind` computes size.
inline std::shared_ptr<const Network> ThreeOperations(
    const char* kind = "Abs") {
  NetBuilder b;
  const ValueId x = b.In("x", {8});
  const ValueId t = b.Op("Neg", {x}, {}, {"t"}, "turn")[0];
  const ValueId s = b.Op(kind, {t}, {}, {"s"}, "size")[0];
  b.Out(b.Op("Exp", {s}, {}, {"y"}, "grow"));
  return std::make_shared<const Network>(b.net);
}

inline NamedTensor GivenX() {
  return {"x", Floats({-2, -1.5, -0.5, 0.25, 0.5, 1, 1.5, 2})};
}

// The network lowered, a node for each operation.
inline Lowered LoweredOf(const Network& network) {
  LowerOptions options;
  options.fuse = false;
  return Lower(network, "net", options).value();
}

inline std::shared_ptr<const GraphTarget> TargetOf(Graph graph,
                                                   Ref<Library> library,
                                                   std::string name) {
  return GraphTarget::FromArtefact(std::move(name),
                                   {std::move(graph), std::move(library), {}},
                                   {kCpu})
      .value();
}

// An artefact whose nodes say what they compute.
inline std::shared_ptr<const GraphTarget> Speaking(const Network& network) {
  return TargetOf(LoweredOf(network).graph, BuiltInFunctions(AllOperators()),
                  "speaking");
}

// One that says that it computes `meant`, and computes something else.
inline std::shared_ptr<const GraphTarget> Lying(const Network& meant,
                                                const Network& computed) {
  Graph graph = LoweredOf(computed).graph;
  SilentBuild silent = MakeSilentBuild(graph, BuiltInFunctions(AllOperators()));
  Graph told = LoweredOf(meant).graph;
  for (size_t n = 0; n < told.nodes.size(); ++n) {
    told.nodes[n].function = silent.graph.nodes[n].function;
  }
  told.text = GraphText::FromString("lying", WriteGraph(told));
  return TargetOf(std::move(told), silent.library, "lying");
}

inline std::shared_ptr<const GraphTarget> Silent(const Network& network,
                                                 std::string name = "silent") {
  SilentBuild build = MakeSilentBuild(LoweredOf(network).graph,
                                      BuiltInFunctions(AllOperators()));
  return TargetOf(std::move(build.graph), build.library, std::move(name));
}

// A program that runs `computed`, no matter what it is asked to run.
inline std::shared_ptr<const NetworkProgram> ProgramFor(
    std::shared_ptr<const Network> computed) {
  NetworkProgram program;
  program.name = "program";
  program.make = [computed](ProgramRequest) {
    return MakerOf("interpreter", {"program", nullptr, computed}).value()();
  };
  return std::make_shared<const NetworkProgram>(std::move(program));
}

inline TargetSpec SpecOfGraph(std::shared_ptr<const GraphTarget> graph) {
  TargetSpec spec;
  spec.path = graph->name();
  spec.graph = std::move(graph);
  spec.inputs.tensors = {GivenX()};
  return spec;
}

inline TargetSpec SpecOfNetwork(std::shared_ptr<const Network> network) {
  TargetSpec spec;
  spec.path = "model";
  spec.network = std::move(network);
  spec.inputs.tensors = {GivenX()};
  return spec;
}

inline Session Opened(const TargetSpec& spec) {
  DiagnosticList faults;
  return OpenTarget(spec, &faults).value();
}

// Records a run of a target as a dump.
class DumpOf {
 public:
  explicit DumpOf(const std::shared_ptr<const GraphTarget>& target)
      : folder_(TemporaryFolder::Create("diagnose").value()) {
    const Session session = Opened(SpecOfGraph(target));
    const auto executor =
        MakerOfDebugExecutors(*target, session.inputs)({}).value();
    RecordOptions record;
    record.root = folder_.path();
    EXPECT_THAT(executor->StartRecording(record), IsOk());
    EXPECT_THAT(executor->Run(), IsOk());
    executor->StopRecording();
  }
  TargetSpec spec() const {
    TargetSpec spec;
    spec.path = folder_.path();
    spec.is_dump = true;
    return spec;
  }

 private:
  const TemporaryFolder folder_;
};

}  // namespace nodewise
