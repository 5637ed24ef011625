#include "nodewise/planter/planter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "contrib/lab/planter/plan_overlap.h"
#include "contrib/lab/planter/sound_run.h"
#include "contrib/lab/planter/spoiling.h"
#include "contrib/lab/planter/trial.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Marks the node for the library. A library is asked for functions by the
// node's attributes, and is not told its name.
constexpr std::string_view kFaultAttribute = "nodewise.planted";

// How the kinds of faults in functions are made, in the order of the enum; null
// for the plan's.
constexpr SpoilingsOf kMakers[] = {
    &ScaledOutputs, &MissingBias,      &WrongWeight,    &SpoiledChannel,
    &WrongOrder,    &WrongPadding,     &WrongAttribute, &ShiftedOutput,
    &DroppedLane,   &UnmaskedTail,     &StaleBlock,     &SwappedInputs,
    &Float16Sums,   &TruncatedResults, &OneNan,         &ApproximatedFunction,
    nullptr,        &Overrun,          &FlakyOutput,    &Crash,
    &Hang,
};
static_assert(std::size(kMakers) == static_cast<size_t>(FaultKind::kHang) + 1);

std::string_view KindNameOf(const PlantedFault& fault) {
  if (!fault.further_kind.empty()) return fault.further_kind;
  return RowOf(fault.kind).name;
}

// What marks the node of this fault, and of no other one in the graph.
std::string MarkOf(const PlantedFault& fault) {
  return fmt::format("{} {}", KindNameOf(fault), Index(fault.node));
}

// Has the functions of another library, and spoils that of the marked node.
class PlantedLibrary : public Library {
 public:
  PlantedLibrary(Ref<Library> sound, std::string mark, Spoiling spoiling)
      : sound_(std::move(sound)),
        mark_(std::move(mark)),
        spoiling_(std::move(spoiling)) {}

  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return sound_->Find(name);
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    for (const auto& [name, value] : request.attrs) {
      if (name == kFaultAttribute && value == mark_) {
        return spoiling_.bind(*sound_, request);
      }
    }
    return sound_->Bind(request);
  }

 private:
  const Ref<Library> sound_;
  const std::string mark_;
  const Spoiling spoiling_;
};

PlantedGraph PlantSpoiling(Graph graph, Ref<Library> library,
                           PlantedFault fault, Spoiling spoiling) {
  fault.name = graph.node(fault.node).name;
  fault.what = spoiling.what;
  fault.factor = spoiling.factor;
  std::string mark = MarkOf(fault);
  graph.nodes[Index(fault.node)].attrs.emplace_back(kFaultAttribute, mark);
  Ref<Library> planted = MakeRef<PlantedLibrary>(
      std::move(library), std::move(mark), std::move(spoiling));
  return PlantedGraph{std::move(graph), std::move(planted), std::move(fault)};
}

bool ComputesSomething(const Graph& graph, NodeId id) {
  const GraphNode& node = graph.node(id);
  return graph.IsFunction(id) && node.function != kNopFunction &&
         node.function != kCopyFunction;
}

absl::Status CheckComputes(std::string_view kind, const Graph& graph,
                           NodeId node) {
  if (Index(node) < graph.nodes.size() && ComputesSomething(graph, node)) {
    return absl::OkStatus();
  }
  return Lacks(
      fmt::format("plant {}: node {} computes nothing", kind, Index(node)));
}

bool MakesFloats(const Graph& graph, NodeId id) {
  for (uint32_t slot = 0; slot < graph.OutputsOf(id); ++slot) {
    if (IsFloat(graph.entry(graph.EntryOf(id, slot)).dtype)) return true;
  }
  return false;
}

std::vector<NodeId> ComputingNodes(const Graph& graph) {
  std::vector<NodeId> nodes;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (ComputesSomething(graph, NodeId{n})) nodes.push_back(NodeId{n});
  }
  return nodes;
}

// Plants into the first of the nodes, in an order that the seed draws, that can
// have the fault.
template <typename PlantAt>
absl::StatusOr<PlantedGraph> PlantSomewhere(std::string_view kind,
                                            const Graph& graph, uint64_t seed,
                                            PlantAt plant_at) {
  std::vector<NodeId> nodes = ComputingNodes(graph);
  RandomSource random(seed, kind);
  Shuffle(&nodes, random);
  std::string reasons;
  for (size_t i = 0; i < nodes.size(); ++i) {
    auto planted = plant_at(nodes[i]);
    if (planted.ok()) return planted;
    // All nodes would be too long a list.
    if (i < 3) reasons += fmt::format("; {}", MessageOf(planted.status()));
  }
  return Lacks(fmt::format("plant {}: none of {} nodes can have it{}", kind,
                           nodes.size(), reasons));
}

// A place, and the region that it points to.
struct OwnedPlace {
  FaultPlace place;
  std::optional<Region> region;
};

void FindRegion(const OpSet& ops, OwnedPlace* owned) {
  FaultPlace& place = owned->place;
  const GraphNode& node = place.graph.node(place.node);
  std::vector<const DLTensor*> arguments;
  for (const auto* list : {&place.sound.inputs, &place.sound.outputs}) {
    for (const NDArray& tensor : *list) arguments.push_back(tensor.tensor());
  }
  auto region = RegionOf(
      {node.function, node.attrs, arguments, place.sound.outputs.size()}, ops);
  if (region.ok()) {
    place.is_constant = region->is_constant;
    owned->region = *std::move(region);
    return;
  }
  place.why_unknown = fmt::format("it is not known what it computes ({})",
                                  MessageOf(region.status()));
}

}  // namespace

absl::StatusOr<PlantedGraph> PlantScale(Graph graph, Ref<Library> library,
                                        uint64_t seed) {
  std::vector<NodeId> choices = ComputingNodes(graph);
  std::erase_if(choices, [&](NodeId id) { return !MakesFloats(graph, id); });
  if (choices.empty()) {
    return absl::InvalidArgumentError(
        "plant: the graph has no node that makes floats, expected one");
  }
  RandomSource random(seed, "planter");
  PlantedFault fault;
  fault.node = OneOf(choices, random);
  return PlantSpoiling(std::move(graph), std::move(library), std::move(fault),
                       ScalingOfFloats(random));
}

// The sound network, and what it made.
struct Planter::Sound {
  Graph graph;
  Ref<Library> library;
  PlanterOptions options;
  std::vector<NDArray> held;  // By entry.
  std::vector<PlanOverlap> overlaps;

  std::unique_ptr<OwnedPlace> PlaceOf(NodeId node) const;
  absl::StatusOr<PlantedGraph> PlantFunction(PlantedFault fault,
                                             SpoilingsOf spoilings_of,
                                             RandomSource& random) const;
  absl::StatusOr<PlantedGraph> PlantOverlap(NodeId node,
                                            RandomSource& random) const;
  bool DifferInBytes(EntryId a, EntryId b) const;
};

std::unique_ptr<OwnedPlace> Planter::Sound::PlaceOf(NodeId id) const {
  auto owned = std::make_unique<OwnedPlace>(OwnedPlace{{graph, id}, {}});
  FaultPlace& place = owned->place;
  for (const EntryRef& input : graph.node(id).inputs) {
    place.sound.inputs.push_back(held[Index(graph.EntryOf(input))]);
    const std::string& name = graph.nodes[input.node].name;
    const bool is_param = std::any_of(
        options.params.begin(), options.params.end(),
        [&](const NamedTensor& param) { return param.name == name; });
    place.is_constant.push_back(!graph.IsFunction(NodeId{input.node}) &&
                                is_param);
  }
  for (uint32_t slot = 0; slot < graph.OutputsOf(id); ++slot) {
    place.sound.outputs.push_back(held[Index(graph.EntryOf(id, slot))]);
  }
  FindRegion(options.operators, owned.get());
  if (owned->region.has_value()) place.region = &*owned->region;
  place.is_bound_by_attributes = HasBuiltInFunctions(graph);
  return owned;
}

absl::StatusOr<PlantedGraph> Planter::Sound::PlantFunction(
    PlantedFault fault, SpoilingsOf spoilings_of, RandomSource& random) const {
  const auto owned = PlaceOf(fault.node);
  NODEWISE_ASSIGN_OR_RETURN(const Spoilings spoilings,
                            spoilings_of(owned->place, random));
  const FaultSign sign = fault.further_kind.empty() ? RowOf(fault.kind).sign
                                                    : FaultSign::kWrongValues;
  if (sign == FaultSign::kVictims || sign == FaultSign::kNoReturn) {
    return PlantSpoiling(graph, library, std::move(fault), spoilings[0]);
  }
  absl::Status failure;
  for (const Spoiling& spoiling : spoilings) {
    const auto effect = TryFault(owned->place, spoiling, *library);
    if (!effect.ok()) {
      failure = At(spoiling.what, effect.status());
    } else if (effect->has_value()) {
      fault.effect = *effect;
      return PlantSpoiling(graph, library, std::move(fault), spoiling);
    }
  }
  return Lacks(fmt::format(
      "no effect: {} ({})",
      failure.ok() ? "it makes the same bits all the same" : "it does not run",
      failure.ok() ? spoilings[0].what : MessageOf(failure)));
}

bool Planter::Sound::DifferInBytes(EntryId a, EntryId b) const {
  const NDArray &one = held[Index(a)], &other = held[Index(b)];
  const size_t bytes = std::min(one.bytes(), other.bytes());
  return std::memcmp(one.data(), other.data(), bytes) != 0;
}

absl::StatusOr<PlantedGraph> Planter::Sound::PlantOverlap(
    NodeId node, RandomSource& random) const {
  std::vector<PlanOverlap> choices = overlaps;
  std::erase_if(choices, [&](const PlanOverlap& overlap) {
    return overlap.writer != node ||
           !DifferInBytes(overlap.written, overlap.victim);
  });
  if (choices.empty()) {
    return Lacks("no tensor is needed, while it writes, that it does not read");
  }
  const PlanOverlap overlap = OneOf(choices, random);
  const GraphIndex index(graph);
  PlantedFault fault;
  fault.node = node;
  fault.name = graph.node(node).name;
  fault.kind = FaultKind::kPlanOverlap;
  fault.victim = overlap.victim;
  fault.what =
      fmt::format("{} lies in the memory of {}", index.TitleOf(overlap.written),
                  index.TitleOf(overlap.victim));
  PlantedGraph planted{graph, library, std::move(fault)};
  planted.graph.entries[Index(overlap.written)].storage_id =
      graph.entry(overlap.victim).storage_id;
  return planted;
}

Planter::Planter(std::unique_ptr<const Sound> sound)
    : sound_(std::move(sound)) {}

Planter::~Planter() = default;

absl::StatusOr<std::unique_ptr<const Planter>> Planter::Create(
    Graph graph, Ref<Library> library, PlanterOptions options) {
  auto held = RunSoundly(graph, library, options);
  if (!held.ok()) return At("plant: the sound network", held.status());
  auto overlaps = FindPlanOverlaps(graph);
  auto sound = std::make_unique<const Sound>(
      Sound{std::move(graph), std::move(library), std::move(options),
            *std::move(held), std::move(overlaps)});
  return std::unique_ptr<const Planter>(new Planter(std::move(sound)));
}

absl::StatusOr<PlantedGraph> Planter::PlantAt(FaultKind kind, NodeId node,
                                              uint64_t seed) const {
  const std::string_view name = RowOf(kind).name;
  const Graph& graph = sound_->graph;
  NODEWISE_RETURN_IF_ERROR(CheckComputes(name, graph, node));
  RandomSource random(seed, fmt::format("{} {}", name, Index(node)));
  PlantedFault fault;
  fault.node = node;
  fault.kind = kind;
  auto planted =
      kind == FaultKind::kPlanOverlap
          ? sound_->PlantOverlap(node, random)
          : sound_->PlantFunction(std::move(fault),
                                  kMakers[static_cast<size_t>(kind)], random);
  if (planted.ok()) return planted;
  return At(fmt::format("plant {}: {}", name, NodeTitle(graph, node)),
            planted.status());
}

absl::StatusOr<PlantedGraph> Planter::PlantAt(const FurtherFaultKind& kind,
                                              NodeId node,
                                              uint64_t seed) const {
  const Graph& graph = sound_->graph;
  NODEWISE_RETURN_IF_ERROR(CheckComputes(kind.name, graph, node));
  RandomSource random(seed, fmt::format("{} {}", kind.name, Index(node)));
  PlantedFault fault;
  fault.node = node;
  fault.further_kind = kind.name;
  auto planted =
      sound_->PlantFunction(std::move(fault), kind.spoilings, random);
  if (planted.ok()) return planted;
  return At(fmt::format("plant {}: {}", kind.name, NodeTitle(graph, node)),
            planted.status());
}

absl::StatusOr<PlantedGraph> Planter::Plant(FaultKind kind,
                                            uint64_t seed) const {
  return PlantSomewhere(RowOf(kind).name, sound_->graph, seed,
                        [&](NodeId node) { return PlantAt(kind, node, seed); });
}

absl::StatusOr<PlantedGraph> Planter::Plant(const FurtherFaultKind& kind,
                                            uint64_t seed) const {
  return PlantSomewhere(kind.name, sound_->graph, seed,
                        [&](NodeId node) { return PlantAt(kind, node, seed); });
}

}  // namespace nodewise
