#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

struct FaultPlace;
struct Spoiling;
class RandomSource;

// Plants a known fault into a compiled network, to see whether it is found:
// for demonstrations, and to measure how often those that look for faults are
// right. It shares no code with them.

// The kinds of faults that can be planted (docs/planter.md): those of compiled
// code, of the compiler's plan, and of the process that runs it.
enum class FaultKind {
  kScale,
  kMissingBias,
  kOneWeight,
  kOneChannel,
  kWrongOrder,
  kWrongPadding,
  kWrongAttribute,
  kOffByOne,
  kDroppedLane,
  kUnmaskedTail,
  kStaleBuffer,
  kSwappedInputs,
  kFloat16Sums,
  kTruncation,
  kNan,
  kApproximation,
  kPlanOverlap,
  kOverrun,
  kFlaky,
  kCrash,
  kHang,
};

// Where a fault shows.
enum class FaultSign {
  kWrongValues,  // What the node makes is wrong in every run.
  kVictims,      // What the node makes is right; what others made is spoiled.
  kSometimes,    // What the node makes is wrong in some runs.
  kNoReturn,     // The node ends the process, or never ends.
};

struct FaultKindRow {
  FaultKind kind;
  std::string_view name;   // "bias-missing"
  std::string_view means;  // "a constant that is added is taken to be 0"
  FaultSign sign = FaultSign::kWrongValues;
};

// Returns a row for each kind, in the order of the enum.
absl::Span<const FaultKindRow> FaultKinds();
const FaultKindRow& RowOf(FaultKind kind);
// Fails with kInvalidArgument, with all names, for a name that is none.
absl::StatusOr<FaultKind> ParseFaultKind(std::string_view name);

// What was planted, for the code that judges the answer.
struct PlantedFault {
  NodeId node{};
  std::string name = {};  // The node's.
  double factor = 1;  // For kScale: all outputs of the node that are floats are
                      // this times what they should be.
  FaultKind kind = FaultKind::kScale;
  // The name of the kind if it is a FurtherFaultKind; then `kind` says nothing.
  std::string further_kind = {};
  // The parameters in words: "element 3 of input 1 is 0.5 instead of -0.25".
  std::string what = {};
  // For kPlanOverlap: the entry whose memory the node's result takes.
  std::optional<EntryId> victim = {};
  // How far the faulty result was from the sound one when the planter tried it:
  // the largest difference over the largest sound number; infinite for a NaN.
  // None where no wrong result was made: for plan overlaps, overruns, crashes
  // and hangs.
  std::optional<double> effect = {};
};

// A compiled network with a fault in it. Nodes, names and functions are those
// of the sound one; an attribute tells the library which node to spoil. For a
// plan overlap the library is the sound one and a storage id is another.
struct PlantedGraph {
  Graph graph;
  Ref<Library> library;
  PlantedFault fault;
};

// Plants a fault of the kind `scale` into one node of a graph that runs with
// any library: a factor between 0.98 and 0.99, or 1.01 and 1.02, as a wrong
// constant or a dropped term in a kernel makes. One seed always chooses the
// same node and factor. Nodes without a float among their outputs, and those
// that compute nothing (__nop, __copy), are left out. Fails with
// kInvalidArgument if there is no other node.
//
// The library keeps the one that is given. Neither the new graph nor the new
// library should be used without the other.
absl::StatusOr<PlantedGraph> PlantScale(Graph graph, Ref<Library> library,
                                        uint64_t seed);

// What a Planter needs beside the graph and its functions.
struct PlanterOptions {
  // What the regions of the nodes are made of (docs/lowering.md). Without
  // operators, kinds that need to know what a node computes cannot be planted.
  OpSet operators = {};
  // By the names of the graph's inputs. Inputs that are not given are drawn.
  std::vector<NamedTensor> params = {};
  std::vector<NamedTensor> inputs = {};
  uint64_t input_seed = 1;
};

// A kind of faults in values that the planter does not have, such as one that
// is written for a measurement alone.
struct FurtherFaultKind {
  std::string_view name;
  // Returns ways to spoil a node: SpoilingsOf in
  // contrib/lab/planter/spoiling.h.
  absl::StatusOr<std::vector<Spoiling>> (*spoilings)(const FaultPlace& place,
                                                     RandomSource& random);
};

// Plants faults of all kinds into one network. It runs the sound network once
// to know what each node reads and makes, and keeps all of that, so that it can
// try each fault before it hands it out: one with which the node makes the same
// bits as without is not a fault.
//
// Any thread may call it, as far as the library's own code allows it. Several
// faults in one network: plant into what was planted.
class Planter {
 public:
  // Fails as making an executor and running it do; drawn integers are 0 or 1,
  // since they may be indices.
  static absl::StatusOr<std::unique_ptr<const Planter>> Create(
      Graph graph, Ref<Library> library, PlanterOptions options = {});
  ~Planter();
  Planter(const Planter&) = delete;
  Planter& operator=(const Planter&) = delete;

  // Plants a fault of that kind into a node that the seed chooses among those
  // that it can be planted into. One seed always gives the same fault, on every
  // machine where the library makes the same bits. Fails with
  // kFailedPrecondition, giving the reasons, if there is no such node.
  absl::StatusOr<PlantedGraph> Plant(FaultKind kind, uint64_t seed) const;
  // Plants a fault of that kind into this node. Fails with kFailedPrecondition,
  // saying what the node lacks, or "no effect" if it makes the same bits with
  // the fault.
  absl::StatusOr<PlantedGraph> PlantAt(FaultKind kind, NodeId node,
                                       uint64_t seed) const;

  // Plant a fault of a kind that the caller defines. It is tried as those of
  // the planter's own kinds are.
  absl::StatusOr<PlantedGraph> Plant(const FurtherFaultKind& kind,
                                     uint64_t seed) const;
  absl::StatusOr<PlantedGraph> PlantAt(const FurtherFaultKind& kind,
                                       NodeId node, uint64_t seed) const;

 private:
  struct Sound;
  explicit Planter(std::unique_ptr<const Sound> sound);

  const std::unique_ptr<const Sound> sound_;
};

}  // namespace nodewise
