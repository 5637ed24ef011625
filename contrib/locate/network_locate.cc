#include "nodewise/locate/network_locate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/types/span.h"
#include "contrib/locate/output_error.h"
#include "fmt/format.h"
#include "nodewise/compare/compare.h"
#include "nodewise/foreign/foreign_observation.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/runner/graph_view.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_collector.h"

// Another program is asked for what is inside as outputs of its model, and that
// may change what it computes: operations that it fuses otherwise are computed
// apart. So the first question is whether the fault is still there when it is
// looked at, and the second one which values may be looked at with it. What
// lies between these is judged as one node.

namespace nodewise {
namespace {

using Names = std::vector<std::string>;

constexpr size_t kNamedValues = 8;  // In a note.
// Each value is a run of the candidate. Fewer at a time would take more turns,
// and what is left in the end is judged together.
constexpr size_t kMostTogether = 24;

Names ChosenOf(const Names& all, absl::Span<const size_t> chosen) {
  Names names;
  for (const size_t i : chosen) names.push_back(all[i]);
  return names;
}

std::string WithVerb(const Names& names) {
  return ListOf(names, kNamedValues) + (names.size() == 1 ? " is" : " are");
}

Names EvenlySpaced(const Names& all) {
  Names some;
  for (size_t i = 1; i <= kMostTogether; ++i) {
    some.push_back(all[i * all.size() / (kMostTogether + 1)]);
  }
  return some;
}

// Looks for the first value that something makes otherwise than the reference,
// where it hands out nothing but outputs: by models that end earlier. A few of
// the values are tried at a time, evenly over what is left. What a right one is
// made of is left out, and so is what the first wrong one is not made of.
struct PartSearch {
  const NetworkLocateRequest& request;  // Has by_parts.
  const Network& network;
  const std::vector<NDArray>& inputs;  // In the order of the network's.
  const Tolerance tolerance;
  // The values that are tried, by name.
  std::map<std::string, NDArray> expected = {};
  // In the order of the run; among them is the first wrong one.
  Names open = {};
  std::string last_right = {}, last_wrong = {};  // Empty: none.
  size_t runs = 0;                               // How many models were run.
  // In words: up to where all is right, and from where on it is not.
  std::string found = {};

  // Returns the values that are to be observed: what lies between those that
  // are right and the first one that is not, and what is read there. Fails as
  // running the candidate or the reference.
  absl::StatusOr<Names> Run() {
    open = request.observable;
    while (open.size() > kMostTogether) {
      const Names tried = EvenlySpaced(open);
      NODEWISE_ASSIGN_OR_RETURN(const auto are_wrong, AreWrong(tried));
      const size_t before = open.size();
      Narrow(tried, are_wrong);
      if (open.size() == before) break;
    }
    // Where none of the models that end earlier runs, more values are left than
    // can be observed together.
    if (open.size() > kMostTogether) open = EvenlySpaced(open);
    const Names chosen = WithValuesRead();
    runs += chosen.size();
    found =
        last_wrong.empty()
            ? last_right.empty()
                  ? std::string("all values were looked at")
                  : fmt::format("all is right up to {}", last_right)
            : fmt::format("{} is the first that is off{}", last_wrong,
                          last_right.empty()
                              ? std::string()
                              : fmt::format(", and {} is right", last_right));
    return chosen;
  }

  // All values of a large model need not fit the memory: each turn keeps its
  // own.
  absl::Status RunReference(const Names& values) {
    expected.clear();
    const std::set<std::string> wanted(values.begin(), values.end());
    InterpretOptions options;
    options.observe = [&](const OperationRun& run) {
      for (size_t i = 0; i < run.operation.outputs.size(); ++i) {
        if (run.operation.outputs[i] == kNoValue) continue;
        const std::string& name = network.value(run.operation.outputs[i]).name;
        if (wanted.contains(name)) expected[name] = run.result.outputs[i];
      }
      return false;
    };
    return Interpret(network, inputs, options).status();
  }

  // Returns which values are wrong; values that the candidate does not hand out
  // are left out.
  absl::StatusOr<std::map<std::string, bool>> AreWrong(const Names& values) {
    NODEWISE_RETURN_IF_ERROR(RunReference(values));
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, request.by_parts(values));
    TensorCollector made;
    NODEWISE_RETURN_IF_ERROR(
        runner->Run(request.inputs, {.sink = &made}).status());
    runs += values.size();
    std::map<std::string, bool> are_wrong;
    for (const std::string& name : values) {
      const auto tensor = made.Find({name});
      if (!tensor.ok()) continue;
      NODEWISE_ASSIGN_OR_RETURN(
          const auto compared,
          CompareNetworkOutputs({expected[name]}, {{name, *tensor}},
                                tolerance));
      are_wrong[name] = AnyIsWrong(compared);
    }
    return are_wrong;
  }

  // A right value may be made of a wrong one whose error it hides. All that it
  // is made of is left out all the same: that is most likely right, and the
  // outputs show that something else is wrong.
  void Narrow(const Names& tried,
              const std::map<std::string, bool>& are_wrong) {
    const auto is = [&](const std::string& name, bool wrong) {
      const auto known = are_wrong.find(name);
      return known != are_wrong.end() && known->second == wrong;
    };
    std::set<ValueId> out;
    for (const std::string& name : tried) {
      if (is(name, true)) {
        last_wrong = name;
        const std::set<ValueId> before = BeforeAndAt(name);
        std::erase_if(open, [&](const std::string& value) {
          return !before.contains(*network.FindValue(value));
        });
        break;
      }
      if (!is(name, false)) continue;
      last_right = name;
      out.merge(BeforeAndAt(name));
    }
    std::erase_if(open, [&](const std::string& value) {
      return out.contains(*network.FindValue(value));
    });
  }

  // The value, and all that it is made of.
  std::set<ValueId> BeforeAndAt(const std::string& value) const {
    std::vector<ValueId> waiting = {*network.FindValue(value)};
    std::set<ValueId> before(waiting.begin(), waiting.end());
    while (!waiting.empty()) {
      const ValueId next = waiting.back();
      waiting.pop_back();
      for (const ValueId input : ReadFor(next)) {
        if (before.insert(input).second) waiting.push_back(input);
      }
    }
    return before;
  }

  std::vector<ValueId> ReadFor(ValueId id) const {
    const NetworkValue& value = network.value(id);
    if (value.kind != NetworkValue::Kind::kOutput) return {};
    std::vector<ValueId> read = network.operation(value.producer).inputs;
    std::erase(read, kNoValue);
    return read;
  }

  // Adds what the open values read, since they are judged on that, and each
  // value before them that something elsewhere reads, so that nothing passes
  // from one side of them to the other unseen.
  Names WithValuesRead() const {
    std::set<ValueId> wanted;
    std::set<ValueId> before;
    for (const std::string& name : open) {
      const ValueId id = *network.FindValue(name);
      wanted.insert(id);
      before.merge(BeforeAndAt(name));
      for (const ValueId read : ReadFor(id)) wanted.insert(read);
    }
    for (const ValueId id : before) {
      for (const Use& use : network.value(id).uses) {
        const auto& made = network.operation(use.user).outputs;
        const bool is_before = std::ranges::any_of(
            made, [&](ValueId output) { return before.contains(output); });
        if (!is_before) wanted.insert(id);
      }
    }
    Names chosen;
    for (const std::string& name : request.observable) {
      if (wanted.contains(*network.FindValue(name))) chosen.push_back(name);
    }
    return chosen;
  }
};

struct NetworkLocator {
  const NetworkLocateRequest& request;
  const Network& network;  // That of the request, with all sizes.
  const LocateOptions& options;
  Tolerance tolerance = {};         // The tolerance of the outputs.
  std::vector<NDArray> given = {};  // In the order of the network's.
  std::vector<NDArray> reference = {};
  int64_t refer_ns = 0;                 // How long the reference took.
  std::vector<NamedTensor> plain = {};  // The outputs with nothing looked at.
  // The outputs of the file as it is.
  std::vector<TensorComparison> unseen = {};
  bool is_by_parts = false;
  // The values that make the error vanish when they are handed out.
  Names vanishing_with = {};
  NetworkLocated located = {};
  Names notes = {};

  absl::StatusOr<NetworkLocated> Run() {
    // Whether there is a graph at all is known before anything runs.
    NODEWISE_ASSIGN_OR_RETURN(
        auto graph, LowerObserved(network, network.name(), request.observable));
    tolerance = AccumulatedTolerance(graph->graph);
    // First: a program that cannot run says so before anything takes long.
    NODEWISE_ASSIGN_OR_RETURN(plain, OutputsWith({}, nullptr));
    NODEWISE_RETURN_IF_ERROR(RunReference());
    NODEWISE_ASSIGN_OR_RETURN(Names observed, Choose());
    if (observed.size() != request.observable.size()) {
      NODEWISE_ASSIGN_OR_RETURN(
          graph, LowerObserved(network, network.name(), observed));
    }
    located.graph = graph;
    // Tensors of another program share no memory that is known here.
    const StoragePlan plan = *PlanStorage(graph->graph, kDLCPU);
    const GraphIndex index(graph->graph, plan);
    const LocateRequest locate{
        index, request.operators,
        [&]() -> absl::StatusOr<std::unique_ptr<Runner>> {
          NODEWISE_ASSIGN_OR_RETURN(auto runner,
                                    is_by_parts ? request.by_parts(observed)
                                                : request.candidate(observed));
          return ViewAsGraph(std::move(runner), graph);
        },
        nullptr, request.inputs};
    LocateOptions own = options;
    own.only_handed_out = true;
    // Each value is a run of its own.
    if (is_by_parts) own.repeats = 0;
    NODEWISE_ASSIGN_OR_RETURN(located.result, Locate(locate, own));
    BlameVanishingErrors();
    NODEWISE_RETURN_IF_ERROR(MeasureRoundingEffect());
    if (request.referee != nullptr) {
      NODEWISE_ASSIGN_OR_RETURN(
          located.opinions,
          AskReferee(locate, located.result, request.referee));
    }
    Names& all = located.result.notes;
    all.insert(all.begin(), notes.begin(), notes.end());
    return std::move(located);
  }

  // Operations that were judged as one may have no bound together. Where the
  // error is gone as soon as a value between them is handed out, the runtime
  // contradicts itself there: that accuses them, if they are far off.
  void BlameVanishingErrors() {
    constexpr double kFarOff = 0.01;
    LocateResult& result = located.result;
    if (vanishing_with.empty() || !result.culprits.empty()) return;
    for (size_t i = 0; i < result.nodes.size(); ++i) {
      NodeReport& report = result.nodes[i];
      if (report.verdict != NodeVerdict::kInconclusive ||
          !report.worst.has_value() || !HasDropped(report) ||
          !(RelativeError(*report.worst) > kFarOff)) {
        continue;
      }
      // Two results of the runtime itself for one value cannot both be right.
      report.evidence.isolated = Verdict::kError;
      report.verdict = NodeVerdict::kBroken;
      report.reason += fmt::format(
          ", and the runtime itself makes something else when {} handed out",
          WithVerb(vanishing_with));
      result.culprits.push_back({i, std::nullopt, {}});
    }
  }

  bool HasDropped(const NodeReport& report) const {
    return std::ranges::any_of(vanishing_with, [&](const std::string& name) {
      const auto value = network.FindValue(name);
      if (!value.ok()) return false;
      const OperationId maker = network.value(*value).producer;
      return maker != kNoOperation &&
             std::ranges::count(report.covers, network.operation(maker).name) >
                 0;
    });
  }

  bool AreCulpritsKnown() const {
    const auto is_known = [this](const Culprit& culprit) {
      const auto& known = located.result.nodes[culprit.report].known;
      return known.has_value() && known->is_within();
    };
    return !options.is_strict &&
           std::ranges::all_of(located.result.culprits, is_known);
  }

  // Where no node is to blame and outputs differ all the same, the network may
  // enlarge what rounding does in every runtime: steps of 8-bit numbers flip,
  // or a logarithm is taken of nearly nothing.
  absl::Status MeasureRoundingEffect() {
    // SampledBounds() takes some sixty times as long as a run.
    constexpr int64_t kMostNanosecondsOfARun = 1'000'000'000;
    if (!AreCulpritsKnown() || !located.result.AreOutputsWrong() ||
        refer_ns > kMostNanosecondsOfARun) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<Bounds> bounds,
                              SampledBounds(network, given));
    for (size_t i = 0; i < plain.size(); ++i) {
      if (!unseen[i].is_wrong()) continue;
      TensorItem item{unseen[i].key};
      item.tensor = reference[i].tensor();
      item.proved_bounds = bounds[i].proved;
      item.expected_bounds = bounds[i].expected;
      NODEWISE_ASSIGN_OR_RETURN(const TensorComparison compared,
                                CompareTensors(item, *plain[i].tensor));
      const bool is_bounded =
          std::all_of(bounds[i].proved.begin(), bounds[i].proved.end(),
                      [](double bound) { return std::isfinite(bound); });
      if (!is_bounded || compared.is_wrong()) return absl::OkStatus();
    }
    for (const Culprit& culprit : located.result.culprits) {
      located.result.nodes[culprit.report].verdict = NodeVerdict::kDeviates;
    }
    located.result.culprits.clear();
    located.result.is_rounding = true;
    return absl::OkStatus();
  }

  absl::Status RunReference() {
    NODEWISE_ASSIGN_OR_RETURN(given, InputsInOrder(network, request.inputs));
    const int64_t start_ns = ClockNanoseconds();
    NODEWISE_ASSIGN_OR_RETURN(reference, Interpret(network, given));
    refer_ns = ClockNanoseconds() - start_ns;
    return absl::OkStatus();
  }

  // Runs the candidate with these values observed, or with none looked at for
  // a null sink, and returns its outputs.
  absl::StatusOr<std::vector<NamedTensor>> OutputsWith(const Names& observed,
                                                       TensorSink* sink) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, request.candidate(observed));
    NODEWISE_ASSIGN_OR_RETURN(RunResult result,
                              runner->Run(request.inputs, {.sink = sink}));
    return std::move(result.outputs);
  }

  absl::StatusOr<Names> Choose() {
    Names asked = request.observable;
    AbsentSink sink;
    auto seen = OutputsWith(asked, &sink);
    if (absl::IsUnavailable(seen.status()) && !asked.empty()) {
      // Asking for all has failed: either one value does it, or any.
      NODEWISE_ASSIGN_OR_RETURN(const bool can, CanObserveAny());
      if (can) {
        NODEWISE_ASSIGN_OR_RETURN(asked, FindObservableSubset(seen.status()));
      } else {
        asked.clear();
      }
      sink = AbsentSink();
      seen = OutputsWith(asked, &sink);
    }
    if (!seen.ok()) return seen.status();
    NODEWISE_RETURN_IF_ERROR(NoteChange(*seen));
    NODEWISE_ASSIGN_OR_RETURN(
        unseen, CompareNetworkOutputs(reference, plain, tolerance));
    const bool hands_out_none = sink.absent.size() == asked.size();
    if (hands_out_none && !request.observable.empty() &&
        request.by_parts != nullptr && AnyIsWrong(unseen)) {
      return ChooseByParts();
    }
    const Names observed = ObservedAmong(asked, sink);
    NODEWISE_ASSIGN_OR_RETURN(
        const auto looked_at,
        CompareNetworkOutputs(reference, *seen, tolerance));
    for (size_t i = 0; i < unseen.size(); ++i) {
      if (looked_at[i].is_wrong() && !unseen[i].is_wrong()) {
        notes.push_back(fmt::format(
            "output {} is right as long as nothing inside is handed out: the "
            "fault is in how the runtime computes the operations apart",
            plain[i].name));
      }
    }
    const std::vector<size_t> vanishing = VanishingOutputs(looked_at);
    if (vanishing.empty()) return observed;
    NODEWISE_ASSIGN_OR_RETURN(const bool is_steady, IsSteady());
    if (!is_steady) return observed;
    return Search(observed, vanishing);
  }

  // Returns the values around the first one that is off, as far as models that
  // end at them say: a few dozen, however many there are.
  absl::StatusOr<Names> ChooseByParts() {
    is_by_parts = true;
    PartSearch search{request, network, given, tolerance};
    NODEWISE_ASSIGN_OR_RETURN(Names chosen, search.Run());
    for (const std::string& name : request.observable) {
      if (std::ranges::find(chosen, name) == chosen.end()) {
        located.unobserved.push_back(name);
      }
    }
    notes.push_back(fmt::format(
        "the runtime hands out nothing but outputs, so {} were run that end at "
        "a value each: {}",
        CountOf(search.runs, "shorter model"), search.found));
    return chosen;
  }

  // Whether another run makes the same outputs, but for a small part of the
  // error: of a runtime that does not, less error says nothing of what was
  // looked at.
  absl::StatusOr<bool> IsSteady() {
    constexpr double kSmallPart = 0.01;
    NODEWISE_ASSIGN_OR_RETURN(const auto again, OutputsWith({}, nullptr));
    NODEWISE_ASSIGN_OR_RETURN(
        const auto moved,
        CompareNetworkOutputs(Unnamed(plain), again, tolerance));
    for (size_t i = 0; i < moved.size(); ++i) {
      if (RelativeError(moved[i]) > kSmallPart * RelativeError(unseen[i])) {
        return false;
      }
    }
    return true;
  }

  Names ObservedAmong(const Names& asked, const AbsentSink& sink) {
    Names observed;
    Names absent;
    for (const std::string& name : asked) {
      const auto found = sink.absent.find(name);
      if (found == sink.absent.end()) {
        observed.push_back(name);
        continue;
      }
      located.unobserved.push_back(name);
      absent.push_back(found->second.empty()
                           ? name
                           : fmt::format("{} ({})", name, found->second));
    }
    if (!absent.empty()) {
      notes.push_back(fmt::format("{}: the runtime does not hand out {}",
                                  CountOf(absent.size(), "value"),
                                  ListOf(absent, kNamedValues)));
    }
    return observed;
  }

  // Whether the candidate hands out one of three values, each asked for alone.
  // To ask a candidate that hands out none for all of them would take as many
  // runs.
  absl::StatusOr<bool> CanObserveAny() const {
    if (request.by_parts == nullptr) return true;
    const Names& all = request.observable;
    for (const size_t i : {size_t{0}, all.size() / 2, all.size() - 1}) {
      AbsentSink sink;
      const auto made = OutputsWith({all[i]}, &sink);
      if (made.ok()) return true;
      if (!absl::IsUnavailable(made.status())) return made.status();
    }
    return false;
  }

  // Returns the values that can be asked for together, where asking for all
  // makes the runtime fail.
  absl::StatusOr<Names> FindObservableSubset(const absl::Status& failure) {
    const Names& all = request.observable;
    NODEWISE_ASSIGN_OR_RETURN(
        const ObservationSearch search,
        SearchObservable(
            all.size(), request.most_search_runs,
            [&](absl::Span<const size_t> values) -> absl::StatusOr<bool> {
              AbsentSink sink;
              const auto made = OutputsWith(ChosenOf(all, values), &sink);
              if (absl::IsUnavailable(made.status())) return false;
              NODEWISE_RETURN_IF_ERROR(made.status());
              return true;
            }));
    located.unobserved = ChosenOf(all, search.dropped);
    notes.push_back(fmt::format(
        "the runtime fails when it is asked for all values inside: {}; {} of "
        "{} can be had together, without {}",
        MessageOf(failure), search.kept.size(), all.size(),
        ListOf(located.unobserved, kNamedValues)));
    return ChosenOf(all, search.kept);
  }

  absl::Status NoteChange(absl::Span<const NamedTensor> seen) {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto changed,
        CompareNetworkOutputs(Unnamed(plain), seen, tolerance));
    for (size_t i = 0; i < changed.size(); ++i) {
      const double change = RelativeError(changed[i]);
      if (change > located.change) {
        located.change = change;
        located.most_changed = plain[i].name;
      }
    }
    return absl::OkStatus();
  }

  bool DoesErrorRemain(size_t output, const TensorComparison& found) const {
    return RelativeError(found) > RelativeError(unseen[output]) / 2;
  }

  // Returns the outputs that are wrong as long as nothing is looked at, and
  // lose most of their error otherwise; the worst comes first.
  std::vector<size_t> VanishingOutputs(
      absl::Span<const TensorComparison> looked_at) const {
    std::vector<size_t> vanishing;
    for (size_t i = 0; i < unseen.size(); ++i) {
      if (unseen[i].is_wrong() && !DoesErrorRemain(i, looked_at[i])) {
        vanishing.push_back(i);
      }
    }
    std::ranges::stable_sort(vanishing, [&](size_t a, size_t b) {
      return RelativeError(unseen[a]) > RelativeError(unseen[b]);
    });
    return vanishing;
  }

  // Observes as much as leaves more than half of the error of all these
  // outputs; where nothing does, of the worst alone.
  absl::StatusOr<Names> Search(const Names& observable,
                               const std::vector<size_t>& vanishing) {
    located.vanishes = true;
    NODEWISE_ASSIGN_OR_RETURN(ObservationSearch search,
                              SearchWith(observable, vanishing));
    std::vector<size_t> followed = vanishing;
    if (search.kept.empty() && vanishing.size() > 1) {
      followed.resize(1);
      NODEWISE_ASSIGN_OR_RETURN(search, SearchWith(observable, followed));
    }
    if (search.kept.empty())
      NODEWISE_RETURN_IF_ERROR(CheckUnobserved(followed));
    NoteVanished(observable, search, followed);
    for (size_t i = followed.size(); i < vanishing.size(); ++i) {
      notes.push_back(fmt::format(
          "output {} loses most of its error, too, by what the search for {} "
          "observes: ask for it alone",
          unseen[vanishing[i]].key.Name(), unseen[followed[0]].key.Name()));
    }
    return ChosenOf(observable, search.kept);
  }

  absl::StatusOr<ObservationSearch> SearchWith(
      const Names& observable, const std::vector<size_t>& followed) const {
    return SearchObservable(
        observable.size(), request.most_search_runs,
        [&](absl::Span<const size_t> values) -> absl::StatusOr<bool> {
          AbsentSink sink;
          NODEWISE_ASSIGN_OR_RETURN(
              const auto outputs,
              OutputsWith(ChosenOf(observable, values), &sink));
          return DoErrorsRemain(followed, outputs);
        });
  }

  absl::StatusOr<bool> DoErrorsRemain(
      const std::vector<size_t>& followed,
      absl::Span<const NamedTensor> outputs) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto found, CompareNetworkOutputs(reference, outputs, tolerance));
    return std::ranges::all_of(
        followed, [&](size_t i) { return DoesErrorRemain(i, found[i]); });
  }

  void NoteVanished(const Names& observable, const ObservationSearch& search,
                    const std::vector<size_t>& followed) {
    Names dropped = ChosenOf(observable, search.dropped);
    Names outputs;
    for (const size_t i : followed) outputs.push_back(unseen[i].key.Name());
    notes.push_back(fmt::format(
        "vanishes when observed: most of the error of {} is gone when {} "
        "handed out, so the operations around {} were judged as one{}",
        ListOf(outputs, kNamedValues), WithVerb(dropped),
        dropped.size() == 1 ? "it" : "them",
        search.is_complete ? ""
                           : fmt::format(" (the search was ended after {})",
                                         CountOf(search.runs, "run"))));
    located.unobserved.insert(located.unobserved.end(), dropped.begin(),
                              dropped.end());
    vanishing_with = std::move(dropped);
  }

  absl::Status CheckUnobserved(const std::vector<size_t>& followed) {
    AbsentSink sink;
    NODEWISE_ASSIGN_OR_RETURN(const auto outputs, OutputsWith({}, &sink));
    NODEWISE_ASSIGN_OR_RETURN(const bool is_left,
                              DoErrorsRemain(followed, outputs));
    located.is_gone = !is_left;
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<NetworkLocated> LocateInNetwork(
    const NetworkLocateRequest& request, const LocateOptions& options) {
  if (!HasOpenSizes(request.network)) {
    return NetworkLocator{request, request.network, options}.Run();
  }
  Network sized = request.network;
  NODEWISE_RETURN_IF_ERROR(FindSizes(request.inputs, &sized));
  return NetworkLocator{request, sized, options}.Run();
}

}  // namespace nodewise
