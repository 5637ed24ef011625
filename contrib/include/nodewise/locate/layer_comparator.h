#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/params.h"
#include "nodewise/ir/network.h"
#include "nodewise/locate/locate.h"
#include "nodewise/lower/region.h"
#include "nodewise/module/module.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/op/op_def.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// A layer: a function node of a compiled network, as people speak of it.
struct Layer {
  NodeId node{};
  std::string name;  // GraphIndex::KeyOf().
  // The operators in it: "Conv", or "Conv+Relu" for a node that two operations
  // are fused into.
  std::string kind;
  // What its inputs and outputs are called in the operators' signatures: "X",
  // "W", "B" and "Y". All different: a second "B" is "B_2", and so is an output
  // that is called as an input. By entry that the
  // node reads, each once, and by output.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> covers;  // The network's operations in it.
};

// Returns whether a node is a layer: a function that is called.
bool IsLayer(const Graph& graph, NodeId node);

// Returns the layer alone as a network. Its inputs and outputs are called as
// their roles are, in the order of Layer::inputs and Layer::outputs, so that
// files of tensors named by roles go with it. Fails as RegionOf().
absl::StatusOr<Network> NetworkOfLayer(const Graph& graph, const Layer& layer,
                                       const OpSet& ops);

// Describes the layer. Fails as RegionOf(), naming the node.
absl::StatusOr<Layer> DescribeLayer(const GraphIndex& index, NodeId node,
                                    const OpSet& ops);

// Returns the call that an operation or a value belongs to, by its name; null
// if it is in none.
const ImportedCall* CallOf(absl::Span<const ImportedCall> calls,
                           const std::string& name);

// Calls a layer that is all of one call as that is called, with its kind and
// roles. Fails as RegionOf().
absl::Status NameByCall(const Graph& graph,
                        absl::Span<const ImportedCall> calls, const OpSet& ops,
                        Layer* layer);

class LayerSides;    // contrib/locate/layer_sides.h
struct LayerValues;  // contrib/locate/layer_sides.h

// Comparators find the layers of a network that a backend computes wrong, by
// running it on a reference backend, too. They are for use inside applications:
//
//   IntermediateLayerComparator comparator(mod, "Interpreter", backend, 1e-5);
//   const absl::StatusOr<bool> match = comparator.verify();
//   for (const LayerResult& layer : comparator.culprits()) ...
//
// Not thread-safe. Only in builds with USE_PROFILER: others fail in verify().

// A compiled network and the inputs of a run.
struct LayerModule {
  std::string name;  // For messages.
  // Sound. Its nodes say what they compute, as those of Lower() do.
  Graph graph;
  Params params;
  std::vector<NamedTensor> inputs;  // By the graph's names.
  // What the graph was made of, for backends that are programs; else it may be
  // null.
  std::shared_ptr<const Network> network = nullptr;
  std::vector<ImportedCall> calls = {};  // By which layers are called.
};

// Compiles a network for comparators. Without `fuse` each operation is a layer
// of its own. `layouts` says whether tensors lie as the fastest kernels want
// them: backends that do not know them, such as programs, need it as
// kReference. With `fuse`, the operations of each of these calls are a layer
// together, and others are not fused then. Fails as Lower().
absl::StatusOr<LayerModule> MakeLayerModule(
    const Network& network, std::string name, bool fuse = true,
    Backend layouts = Backend::kFastest, std::vector<ImportedCall> calls = {});

// What computes the layers of one side: one of LayerBackendNames(), any
// functions for the nodes of the module's graph, or, of the candidate, a
// program that compiles and runs models: the whole network, and each layer
// alone.
class LayerBackend {
 public:
  LayerBackend(std::string name,  // NOLINT: a name is a backend.
               Ref<Library> functions = nullptr)
      : name_(std::move(name)), functions_(std::move(functions)) {}
  LayerBackend(const char* name) : LayerBackend(std::string(name)) {}  // NOLINT
  LayerBackend(std::string name, ForeignCommand program)
      : name_(std::move(name)), program_(std::move(program)) {}

  const std::string& name() const { return name_; }
  // Returns the program, or null.
  const ForeignCommand* program() const {
    return program_.has_value() ? &*program_ : nullptr;
  }
  // Returns null for a program. Fails with kNotFound for a name that no backend
  // has.
  absl::StatusOr<Ref<Library>> Functions() const;

 private:
  std::string name_;
  Ref<Library> functions_;  // May be null.
  std::optional<ForeignCommand> program_;
};
// "Interpreter", which computes by the operators' definitions, and the others
// that this build has. Upper and lower case do not matter.
std::vector<std::string> LayerBackendNames();

// What was found out about a layer.
struct LayerResult {
  Layer layer;
  // kHealthy, kInherits, kInconclusive, kBroken, kHangs or kCrashes.
  NodeVerdict verdict = NodeVerdict::kHealthy;
  std::string reason;  // In words; empty for a healthy layer.
  // Its outputs, each with the reference's: as both backends made them in the
  // network; and alone, fed with the reference's inputs. The second is empty if
  // that was not tried.
  std::vector<TensorComparison> in_network;
  std::vector<TensorComparison> alone;
  // How far what it read was off, as RelativeError(), and whether that was
  // wrong.
  double received = 0;
  bool read_wrong = false;
  // How it has ended a run of the candidate: then the reference stood in for
  // it, also in what is compared here.
  std::optional<NodeFailure> failure;
};

// A broken layer, with what a test case needs. All of it is lent for the call.
struct BrokenLayer {
  const LayerResult& result;
  const Network& network;             // That layer alone.
  absl::Span<const NDArray> inputs;   // The reference's, by Layer::inputs.
  absl::Span<const NDArray> outputs;  // The reference's, by Layer::outputs.
};

// Sees how a comparison goes. An error ends it and is what verify() returns.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual absl::Status Begins(const Layer&) { return absl::OkStatus(); }
  virtual absl::Status IsBroken(const BrokenLayer&) { return absl::OkStatus(); }
  virtual absl::Status Ends(const LayerResult&) { return absl::OkStatus(); }
};

// What a comparison took.
struct LayerCost {
  double seconds = 0;
  // The most that was resident at once (VmHWM), less what was at the start,
  // with the parameters,
  // with what processes of the candidate's own took; 0 where the system does
  // not say. verify() sets the process's mark back.
  uint64_t peak_bytes = 0;
  // The largest set of tensors that are alive at once in a run of the network,
  // without its parameters: what no comparison can do without.
  uint64_t live_bytes = 0;
};

// Each run of the candidate has a process of its own, a fork of this one. A
// layer that crashes, hangs or ends the process is a culprit, and the reference
// stands in for it, so that the others are judged. If that ends the run, too,
// no layer is accused, and verify() fails.
//
// A rule says how layers are judged. kBounds: alone, by the bounds on rounding
// errors that the reference, which must be "Interpreter", knows, and in the
// network by the tolerance of its shortest float type; then every layer is
// tried alone. Any other rule judges both, and layers that differ are tried
// alone.
class LayerComparator {
 public:
  // The threshold is for the absolute error of each element. The module must
  // outlive the object.
  LayerComparator(const LayerModule& mod, LayerBackend reference,
                  LayerBackend candidate, double threshold)
      : LayerComparator(mod, std::move(reference), std::move(candidate),
                        Rule{Rule::Kind::kAbsolute, {.absolute = threshold}}) {}
  LayerComparator(const LayerModule& mod, LayerBackend reference,
                  LayerBackend candidate, Rule rule)
      : mod_(mod),
        reference_(std::move(reference)),
        candidate_(std::move(candidate)),
        rule_(rule) {}
  virtual ~LayerComparator() = default;
  LayerComparator(const LayerComparator&) = delete;
  LayerComparator& operator=(const LayerComparator&) = delete;

  // Calls the observer from then on; null: none. It must outlive the calls of
  // verify().
  void set_observer(LayerObserver* observer) { observer_ = observer; }

  // Compares all layers, in the order in which they run. Returns whether they
  // match: all are healthy. May be called again, also with other inputs than
  // the module's. Fails as runs do, with kNotFound for a backend that there is
  // not, and with kFailedPrecondition if there is no layer.
  absl::StatusOr<bool> verify() { return verify(mod_.inputs); }
  absl::StatusOr<bool> verify(const std::vector<NamedTensor>& inputs);

  // Whether every layer is tried alone, also one that matches in the network.
  void set_all_alone(bool all_alone) { all_alone_ = all_alone; }

  // How long a layer of the candidate may take before it hangs: a minute if it
  // is not said. From 1 to kMostTimeLimitMs of nodewise/process/isolation.h.
  void set_node_limit_ms(int64_t limit_ms) { node_limit_ms_ = limit_ms; }

  // The results of the last verify(): for all layers, and for those that are to
  // blame (kBroken, kHangs, kCrashes).
  const std::vector<LayerResult>& layers() const { return layers_; }
  std::vector<LayerResult> culprits() const;
  const LayerCost& cost() const { return cost_; }

 protected:
  // Judges all layers with Judge().
  virtual absl::Status Compare(LayerSides& sides) = 0;
  // Judges a layer by what both backends made in the network, and alone if that
  // is called for.
  absl::Status Judge(LayerSides& sides, NodeId node, LayerValues values);

 private:
  absl::Status TryAlone(LayerSides& sides, const LayerValues& values,
                        LayerResult* result) const;
  void NoteRead(const Graph& graph, LayerResult* result) const;

  const LayerModule& mod_;
  const LayerBackend reference_;
  const LayerBackend candidate_;
  const Rule rule_;
  LayerObserver* observer_ = nullptr;
  bool all_alone_ = false;
  int64_t node_limit_ms_ = RunOptions().node_limit_ms;
  std::vector<LayerResult> layers_;
  LayerCost cost_;
};

// Runs the network once on each backend and keeps what the reference made; then
// tries the layers that differ alone.
class IntermediateLayerComparator : public LayerComparator {
 public:
  using LayerComparator::LayerComparator;

 private:
  absl::Status Compare(LayerSides& sides) override;
};

// Runs for each layer the part of the network that leads to it, on one backend
// after the other. Takes as many runs as there are layers, and no more memory
// than the largest of them. Parameters are read where they lie; candidates
// whose functions cannot do that (Library::NeededAlignment) get copies. From
// the first verify() on, the process's allocator gives large blocks back to the
// system as soon as they are freed (ReturnLargeBlocksAtOnce()).
class RecursiveLayerComparator : public LayerComparator {
 public:
  using LayerComparator::LayerComparator;

 private:
  absl::Status Compare(LayerSides& sides) override;
};

// Returns the last comparison as what Locate() returns.
LocateResult LocatedLayers(const LayerModule& mod,
                           const LayerComparator& comparator);

}  // namespace nodewise
