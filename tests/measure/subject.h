#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ir/network.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// A compiled network that is right, to plant faults into or to accuse of none.
struct Subject {
  std::string name;
  Graph graph;
  Ref<Library> library;
  std::vector<NamedTensor> params;

  // Draws a tensor for each input that is not a parameter; one seed always
  // gives the same ones.
  absl::StatusOr<std::vector<NamedTensor>> DrawInputs(uint64_t seed) const;
};

// Where subjects come from beside the zoo.
struct SubjectFolders {
  std::string models;   // light:NAME is NAME.onnx in it.
  std::string scratch;  // Libraries that have been compiled are kept here.
  std::string python;   // Has onnxruntime's package; may be empty.
};

// Draws an input for each of a network; one seed always gives the same ones.
// REQUIRES: all sizes of inputs are known.
absl::StatusOr<std::vector<NamedTensor>> DrawInputsOf(const Network& network,
                                                      uint64_t seed);

// A model, and the file that it was read from.
struct LoadedModel {
  std::string path;
  Network network;
};
// Reads "light:NAME/SEED". Fails as the import, naming the file.
absl::StatusOr<LoadedModel> LoadModel(std::string_view name,
                                      const SubjectFolders& folders);

// Makes the subject that is called so: a network of the zoo, or light:NAME for
// a model; then, as far as they are given, /SEED for its weights (1), and
// +fp16, +bf16 or +int8 (int8 is calibrated with inputs of that seed),
// +unfused, +reference for the reference's kernels in place of the fastest, and
// +c for functions from a C compiler. Fails with kInvalidArgument for anything
// else, and as the steps do.
absl::StatusOr<Subject> MakeSubject(std::string_view name,
                                    const SubjectFolders& folders);

// A target of the subject, or of the same with a fault: all that Locate() asks
// for. The plan is that of the target's graph.
struct SubjectTarget {
  std::shared_ptr<const GraphTarget> target;
  StoragePlan plan;
  // How long a node may take until it is said to hang.
  int64_t node_limit_ms = 60'000;

  // Makes makers of runners that can be looked into.
  absl::StatusOr<RunnerMaker> Maker() const;
  // Makes such makers with memory of its own for each tensor.
  absl::StatusOr<RunnerMaker> PrivateMaker() const;
};
absl::StatusOr<SubjectTarget> TargetOf(const std::string& name, Graph graph,
                                       Ref<Library> library,
                                       const std::vector<NamedTensor>& params);

}  // namespace nodewise
