#include "nodewise/planter/planter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "contrib/lab/planter/plan_faults.h"
#include "contrib/lab/planter/spoiling.h"
#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Arrays = std::vector<NDArray>;

// --- The kinds ---

// In the order of the enum, as RowOf takes them.
constexpr FaultKindRow kFaultKindRows[] = {
    {FaultKind::kScale, "scale",
     "all that the node makes is one to two per cent too large or too small"},
    {FaultKind::kMissingBias, "bias-missing",
     "a constant that is added is taken to be 0"},
    {FaultKind::kOneWeight, "one-weight", "one element of a constant is wrong"},
    {FaultKind::kOneChannel, "one-channel",
     "one index along one side of the result is wrong"},
    {FaultKind::kWrongOrder, "wrong-order",
     "an axis is another one, or the result is stored transposed"},
    {FaultKind::kWrongPadding, "wrong-padding",
     "padding stands at the other end"},
    {FaultKind::kWrongAttribute, "wrong-attribute",
     "a number or a switch among the attributes is wrong: epsilon, a slope, "
     "whether padding counts"},
    {FaultKind::kOffByOne, "off-by-one",
     "the result is shifted by one along a side"},
    {FaultKind::kDroppedLane, "lane-drop",
     "every n-th element of the result is 0"},
    {FaultKind::kUnmaskedTail, "tail-not-masked",
     "what is left of a row behind the last whole vector holds other elements "
     "of the row"},
    {FaultKind::kStaleBuffer, "stale-buffer",
     "a block of the result is not written and holds something older"},
    {FaultKind::kSwappedInputs, "swapped-inputs",
     "two inputs of one type are exchanged"},
    {FaultKind::kFloat16Sums, "float16-sums",
     "sums are accumulated in float16"},
    {FaultKind::kTruncation, "truncation",
     "results are truncated instead of rounded: to integers, or to fewer bits"},
    {FaultKind::kNan, "nan", "one element of the result is NaN"},
    {FaultKind::kApproximation, "approximation",
     "exp, erf or another function is interpolated between few points"},
    {FaultKind::kPlanOverlap, "plan-overlap",
     "the node's result lies in the memory of another one that is still needed",
     FaultSign::kVictims},
    {FaultKind::kOverrun, "overrun",
     "the node writes past the end of its result", FaultSign::kVictims},
    {FaultKind::kFlaky, "flaky", "in a third of the calls the result is wrong",
     FaultSign::kSometimes},
    {FaultKind::kCrash, "crash", "the node ends the process by SIGSEGV",
     FaultSign::kNoReturn},
    {FaultKind::kHang, "hang", "the node never ends", FaultSign::kNoReturn},
};

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

// --- The sound run ---

// The graph with every entry of a function as an output, in memory of its own:
// in that of the plan later nodes would overwrite what earlier ones made.
Graph WithAllOutputs(Graph graph) {
  graph.heads.clear();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    for (uint32_t slot = 0; slot < graph.OutputsOf(NodeId{n}); ++slot) {
      const EntryId id = graph.EntryOf(NodeId{n}, slot);
      graph.entries[Index(id)].storage_id = static_cast<int32_t>(Index(id));
      if (graph.IsFunction(NodeId{n})) graph.heads.push_back({n, slot});
    }
  }
  return graph;
}

const NDArray* FindTensor(const std::vector<NamedTensor>& tensors,
                          const std::string& name) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor.tensor;
  }
  return nullptr;
}

// Integers may be indices, and those that are always in range are 0 and 1.
absl::StatusOr<NDArray> DrawnInput(const TensorInfo& info, uint64_t seed) {
  RandomSource random(seed, info.name);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray drawn,
                            RandomTensor(random, info.shape, info.dtype));
  if (!IsInteger(info.dtype)) return drawn;
  ChangeNumbers(drawn, [&](Numbers& numbers) {
    for (double& number : numbers) {
      number = static_cast<double>(random.Between(0, 1));
    }
  });
  return drawn;
}

// A tensor that is given as an input goes before a parameter of that name.
absl::Status SetAllInputs(const PlanterOptions& options,
                          GraphExecutor* executor) {
  for (size_t i = 0; i < executor->NumInputs(); ++i) {
    const TensorInfo info = executor->InputInfo(i);
    const NDArray* given = FindTensor(options.inputs, info.name);
    if (given == nullptr) given = FindTensor(options.params, info.name);
    NDArray drawn;
    if (given == nullptr) {
      NODEWISE_ASSIGN_OR_RETURN(drawn, DrawnInput(info, options.input_seed));
      given = &drawn;
    }
    NODEWISE_RETURN_IF_ERROR(executor->SetInput(i, **given));
  }
  return absl::OkStatus();
}

// Runs a graph once, each entry in memory of its own, and returns what every
// entry held, by entry, as host copies; undefined for what no node reads or
// makes. Inputs that the options do not give are drawn.
absl::StatusOr<Arrays> RunWithoutFaults(const Graph& graph,
                                        const Ref<Library>& library,
                                        const PlanterOptions& options) {
  NODEWISE_ASSIGN_OR_RETURN(
      const auto executor,
      GraphExecutor::Create(WithAllOutputs(graph), library));
  NODEWISE_RETURN_IF_ERROR(SetAllInputs(options, executor.get()));
  NODEWISE_RETURN_IF_ERROR(executor->Run());
  Arrays held(graph.entries.size());
  for (size_t i = 0; i < graph.arg_nodes.size(); ++i) {
    const EntryId entry = graph.EntryOf(NodeId{graph.arg_nodes[i]}, 0);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray input, executor->GetInput(i));
    NODEWISE_ASSIGN_OR_RETURN(held[Index(entry)], input.CopyToHost());
  }
  const std::vector<EntryRef>& heads = executor->graph().heads;
  for (size_t i = 0; i < heads.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray output, executor->GetOutput(i));
    NODEWISE_ASSIGN_OR_RETURN(held[Index(graph.EntryOf(heads[i]))],
                              output.CopyToHost());
  }
  return held;
}

// --- The trial of a fault ---

// Tensors as the node's function gets them: flat if the node says so.
absl::StatusOr<Arrays> InShapeOfCall(Arrays list, bool flatten) {
  if (!flatten) return list;
  for (NDArray& tensor : list) {
    NODEWISE_ASSIGN_OR_RETURN(
        tensor,
        tensor.View(std::vector<int64_t>{CountOf(tensor)}, tensor.dtype()));
  }
  return list;
}

// What a fault leaves unwritten is then the same in each trial.
absl::StatusOr<Arrays> ZerosLike(Arrays list) {
  for (NDArray& tensor : list) {
    NODEWISE_ASSIGN_OR_RETURN(
        tensor, NDArray::Empty(tensor.shape(), tensor.dtype(), kCpu));
    if (tensor.bytes() > 0) std::memset(tensor.data(), 0, tensor.bytes());
  }
  return list;
}

// PlantedFault::effect of one output. NaN in both is not a difference, and NaN
// or an infinity in one of them an infinite one. So is any difference from a
// result that is all zeros, since there is nothing to compare it with.
double RelativeEffectOn(const NDArray& sound, const NDArray& faulty) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const DLDataType dtype = sound.dtype();
  if (!IsNumeric(dtype) && !IsBool(dtype)) return kInfinite;
  const Numbers was = ToDoubles(sound), is = ToDoubles(faulty);
  double largest = 0;
  for (size_t i = 0; i < was.size(); ++i) {
    const bool are_same =
        was[i] == is[i] || (std::isnan(was[i]) && std::isnan(is[i]));
    if (are_same) continue;
    const double difference = std::fabs(was[i] - is[i]);
    if (!std::isfinite(difference)) return kInfinite;
    largest = std::max(largest, difference);
  }
  const double scale = LargestOf(sound);
  return largest == 0 || scale > 0 ? largest / std::max(scale, 1e-300)
                                   : kInfinite;
}

// Binds the faulty function of a node and calls it with what the node read in
// the sound run. Returns how far what it makes is from what the sound one made,
// as PlantedFault::effect says; none if all bits are the same. Fails as binding
// and calling do.
absl::StatusOr<std::optional<double>> TryFault(const FaultPlace& place,
                                               const Spoiling& way,
                                               Library& sound) {
  const GraphNode& node = place.graph.node(place.node);
  NODEWISE_ASSIGN_OR_RETURN(const Arrays made, ZerosLike(place.sound.outputs));
  NodeCall call;
  NODEWISE_ASSIGN_OR_RETURN(call.inputs,
                            InShapeOfCall(place.sound.inputs, node.flatten));
  NODEWISE_ASSIGN_OR_RETURN(call.outputs, InShapeOfCall(made, node.flatten));
  const auto& bind = way.bind_for_trial ? way.bind_for_trial : way.bind;
  NODEWISE_ASSIGN_OR_RETURN(
      const PackedFunc faulty,
      bind(sound, {node.function, node.attrs, ArgumentsOf(call), made.size()}));
  NODEWISE_RETURN_IF_ERROR(CallNode(faulty, call));
  std::optional<double> effect;
  for (size_t i = 0; i < made.size(); ++i) {
    const NDArray& right = place.sound.outputs[i];
    if (std::memcmp(right.data(), made[i].data(), right.bytes()) == 0) continue;
    effect = std::max(effect.value_or(0), RelativeEffectOn(right, made[i]));
  }
  return effect;
}

// --- Planting ---

// Marks the node for the library. A library is asked for functions by the
// node's attributes, and is not told its name.
constexpr std::string_view kFaultAttribute = "nodewise.planted";

std::string_view KindNameOf(const PlantedFault& fault) {
  if (!fault.further_kind.empty()) return fault.further_kind;
  return RowOf(fault.kind).name;
}

// What marks the node of this fault, and of no other one in the graph. The
// fault's parameters are drawn by it as well.
std::string MarkOf(const PlantedFault& fault) {
  return fmt::format("{} {}", KindNameOf(fault), Index(fault.node));
}

// Has the functions of another library, and spoils that of the marked node.
// Where several faults are planted, libraries stand around each other, and each
// knows the mark of its own node alone.
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

bool MakesFloats(const Graph& graph, NodeId id) {
  for (uint32_t slot = 0; slot < graph.OutputsOf(id); ++slot) {
    if (IsFloat(graph.entry(graph.EntryOf(id, slot)).dtype)) return true;
  }
  return false;
}

}  // namespace

absl::Span<const FaultKindRow> FaultKinds() { return kFaultKindRows; }

const FaultKindRow& RowOf(FaultKind kind) {
  return kFaultKindRows[static_cast<size_t>(kind)];
}

absl::StatusOr<FaultKind> ParseFaultKind(std::string_view name) {
  std::string names;
  for (const FaultKindRow& row : kFaultKindRows) {
    if (row.name == name) return row.kind;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return InvalidArgument("{}: is not a kind of fault, expected one of {}", name,
                         names);
}

absl::StatusOr<PlantedGraph> PlantScale(Graph graph, Ref<Library> library,
                                        uint64_t seed) {
  std::vector<NodeId> choices = ComputingNodes(graph);
  std::erase_if(choices, [&](NodeId id) { return !MakesFloats(graph, id); });
  if (choices.empty()) {
    return InvalidArgument(
        "plant: the graph has no node that makes floats, expected one");
  }
  RandomSource random(seed, "planter");
  PlantedFault fault{.node = OneOf(choices, random)};
  return PlantSpoiling(std::move(graph), std::move(library), std::move(fault),
                       ScalingOfFloats(random));
}

// The sound network, and what it made.
struct Planter::Sound {
  Graph graph;
  Ref<Library> library;
  PlanterOptions options;
  Arrays held;  // By entry.
  std::vector<PlanOverlap> overlaps;

  // The place points to the region, which is none if it is not known.
  FaultPlace PlaceOf(NodeId node, std::optional<Region>* region) const;
  // Plants into the node of the fault; without a function for the kind, an
  // overlap of the plan.
  absl::StatusOr<PlantedGraph> PlantAt(PlantedFault fault,
                                       SpoilingsOf spoilings_of,
                                       uint64_t seed) const;
  // Plants into the first of the nodes, in an order that the seed draws, that
  // can have the fault.
  absl::StatusOr<PlantedGraph> PlantSomewhere(PlantedFault fault,
                                              SpoilingsOf spoilings_of,
                                              uint64_t seed) const;
  absl::StatusOr<PlantedGraph> PlantFunction(PlantedFault fault,
                                             SpoilingsOf spoilings_of,
                                             RandomSource& random) const;
  absl::StatusOr<PlantedGraph> PlantOverlap(PlantedFault fault,
                                            RandomSource& random) const;
  bool DifferInBytes(EntryId a, EntryId b) const;
};

FaultPlace Planter::Sound::PlaceOf(NodeId id,
                                   std::optional<Region>* region) const {
  FaultPlace place{graph, id};
  const GraphNode& node = graph.node(id);
  for (const EntryRef& input : node.inputs) {
    place.sound.inputs.push_back(held[Index(graph.EntryOf(input))]);
    place.is_constant.push_back(
        !graph.IsFunction(NodeId{input.node}) &&
        FindTensor(options.params, graph.nodes[input.node].name) != nullptr);
  }
  for (uint32_t slot = 0; slot < graph.OutputsOf(id); ++slot) {
    place.sound.outputs.push_back(held[Index(graph.EntryOf(id, slot))]);
  }
  auto found = RegionOf({node.function, node.attrs, ArgumentsOf(place.sound),
                         place.sound.outputs.size()},
                        options.operators);
  if (found.ok()) {
    // The node itself says it, also where no parameters were given.
    place.is_constant = found->is_constant;
    place.region = &region->emplace(*std::move(found));
  } else {
    place.why_unknown = fmt::format("it is not known what it computes ({})",
                                    MessageOf(found.status()));
  }
  place.is_bound_by_attributes = HasBuiltInFunctions(graph);
  return place;
}

absl::StatusOr<PlantedGraph> Planter::Sound::PlantFunction(
    PlantedFault fault, SpoilingsOf spoilings_of, RandomSource& random) const {
  std::optional<Region> region;
  const FaultPlace place = PlaceOf(fault.node, &region);
  NODEWISE_ASSIGN_OR_RETURN(const Spoilings ways, spoilings_of(place, random));
  const FaultSign sign = fault.further_kind.empty() ? RowOf(fault.kind).sign
                                                    : FaultSign::kWrongValues;
  // A trial would see nothing of a victim, and not come back from a crash.
  if (sign == FaultSign::kVictims || sign == FaultSign::kNoReturn) {
    return PlantSpoiling(graph, library, std::move(fault), ways[0]);
  }
  absl::Status failure;
  for (const Spoiling& spoiling : ways) {
    const auto effect = TryFault(place, spoiling, *library);
    if (!effect.ok()) {
      failure = At(spoiling.what, effect.status());
    } else if (effect->has_value()) {
      fault.effect = *effect;
      return PlantSpoiling(graph, library, std::move(fault), spoiling);
    }
  }
  // The last failure says more than the first way, if there was one.
  return NotPlantable(fmt::format(
      "no effect: {} ({})",
      failure.ok() ? "it makes the same bits all the same" : "it does not run",
      failure.ok() ? ways[0].what : MessageOf(failure)));
}

// Where the two results are equal, an overlap would change nothing.
bool Planter::Sound::DifferInBytes(EntryId a, EntryId b) const {
  const NDArray &one = held[Index(a)], &other = held[Index(b)];
  const size_t bytes = std::min(one.bytes(), other.bytes());
  return std::memcmp(one.data(), other.data(), bytes) != 0;
}

// Moves nothing but a storage id; the library stays the sound one.
absl::StatusOr<PlantedGraph> Planter::Sound::PlantOverlap(
    PlantedFault fault, RandomSource& random) const {
  std::vector<PlanOverlap> choices = overlaps;
  std::erase_if(choices, [&](const PlanOverlap& overlap) {
    return overlap.writer != fault.node ||
           !DifferInBytes(overlap.written, overlap.victim);
  });
  if (choices.empty()) {
    return NotPlantable(
        "no tensor is needed, while it writes, that it does not read");
  }
  const PlanOverlap overlap = OneOf(choices, random);
  const GraphIndex index(graph);
  fault.name = graph.node(fault.node).name;
  fault.victim = overlap.victim;
  fault.what =
      fmt::format("{} lies in the memory of {}", index.TitleOf(overlap.written),
                  index.TitleOf(overlap.victim));
  PlantedGraph planted{graph, library, std::move(fault)};
  planted.graph.entries[Index(overlap.written)].storage_id =
      graph.entry(overlap.victim).storage_id;
  return planted;
}

absl::StatusOr<PlantedGraph> Planter::Sound::PlantAt(PlantedFault fault,
                                                     SpoilingsOf spoilings_of,
                                                     uint64_t seed) const {
  const std::string kind(KindNameOf(fault));
  const NodeId node = fault.node;
  if (Index(node) >= graph.nodes.size() || !ComputesSomething(graph, node)) {
    return NotPlantable(
        fmt::format("plant {}: node {} computes nothing", kind, Index(node)));
  }
  RandomSource random(seed, MarkOf(fault));
  auto planted = spoilings_of == nullptr
                     ? PlantOverlap(std::move(fault), random)
                     : PlantFunction(std::move(fault), spoilings_of, random);
  if (planted.ok()) return planted;
  return At(fmt::format("plant {}: {}", kind, NodeTitle(graph, node)),
            planted.status());
}

absl::StatusOr<PlantedGraph> Planter::Sound::PlantSomewhere(
    PlantedFault fault, SpoilingsOf spoilings_of, uint64_t seed) const {
  const std::string_view kind = KindNameOf(fault);
  std::vector<NodeId> nodes = ComputingNodes(graph);
  RandomSource random(seed, kind);
  Shuffle(&nodes, random);
  std::string reasons;
  for (size_t i = 0; i < nodes.size(); ++i) {
    fault.node = nodes[i];
    auto planted = PlantAt(fault, spoilings_of, seed);
    if (planted.ok()) return planted;
    // All nodes would be too long a list.
    if (i < 3) reasons += fmt::format("; {}", MessageOf(planted.status()));
  }
  return NotPlantable(fmt::format("plant {}: none of {} nodes can have it{}",
                                  kind, nodes.size(), reasons));
}

Planter::Planter(std::unique_ptr<const Sound> sound)
    : sound_(std::move(sound)) {}

Planter::~Planter() = default;

absl::StatusOr<std::unique_ptr<const Planter>> Planter::Create(
    Graph graph, Ref<Library> library, PlanterOptions options) {
  auto held = RunWithoutFaults(graph, library, options);
  if (!held.ok()) return At("plant: the sound network", held.status());
  auto overlaps = FindPlanOverlaps(graph);
  auto sound = std::make_unique<const Sound>(
      Sound{std::move(graph), std::move(library), std::move(options),
            *std::move(held), std::move(overlaps)});
  return std::unique_ptr<const Planter>(new Planter(std::move(sound)));
}

absl::StatusOr<PlantedGraph> Planter::PlantAt(FaultKind kind, NodeId node,
                                              uint64_t seed) const {
  return sound_->PlantAt({.node = node, .kind = kind},
                         kMakers[static_cast<size_t>(kind)], seed);
}

absl::StatusOr<PlantedGraph> Planter::PlantAt(const FurtherFaultKind& kind,
                                              NodeId node,
                                              uint64_t seed) const {
  return sound_->PlantAt({.node = node, .further_kind = std::string(kind.name)},
                         kind.spoilings, seed);
}

absl::StatusOr<PlantedGraph> Planter::Plant(FaultKind kind,
                                            uint64_t seed) const {
  return sound_->PlantSomewhere({.kind = kind},
                                kMakers[static_cast<size_t>(kind)], seed);
}

absl::StatusOr<PlantedGraph> Planter::Plant(const FurtherFaultKind& kind,
                                            uint64_t seed) const {
  return sound_->PlantSomewhere({.further_kind = std::string(kind.name)},
                                kind.spoilings, seed);
}

}  // namespace nodewise
