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

// Takes tensors and remembers only which did not come.
struct AbsentSink : public TensorSink {
  absl::Status Take(const TensorItem& item) override {
    if (item.tensor == nullptr) absent[item.key.node] = item.why_absent;
    return absl::OkStatus();
  }

  std::map<std::string, std::string> absent;  // By name, with the reasons.
};

Names ChosenOf(const Names& all, absl::Span<const size_t> chosen) {
  Names names;
  for (const size_t i : chosen) names.push_back(all[i]);
  return names;
}

std::string WithVerb(const Names& names) {
  return ListOf(names, kNamedValues) + (names.size() == 1 ? " is" : " are");
}

Names EvenlyOf(const Names& all) {
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
class PartSearch {
 public:
  // `inputs` are in the order of the network's. REQUIRES: `request` has
  // by_parts, and all outlive this.
  PartSearch(const NetworkLocateRequest& request, const Network& network,
             const std::vector<NDArray>& inputs, const Tolerance& tolerance)
      : request_(request),
        network_(network),
        inputs_(inputs),
        tolerance_(tolerance) {}

  // Returns the values that are to be observed: what lies between those that
  // are right and the first one that is not, and what is read there. Fails as
  // running the candidate or the reference.
  absl::StatusOr<Names> Run() {
    left_ = request_.observable;
    while (left_.size() > kMostTogether) {
      const Names tried = EvenlyOf(left_);
      NODEWISE_ASSIGN_OR_RETURN(const auto are_wrong, AreWrong(tried));
      const size_t before = left_.size();
      Narrow(tried, are_wrong);
      if (left_.size() == before) break;
    }
    // More than can be run where none of the models that end earlier does.
    if (left_.size() > kMostTogether) left_ = EvenlyOf(left_);
    const Names chosen = WithWhatIsRead();
    runs_ += chosen.size();
    found_ = wrong_.empty()
                 ? right_.empty() ? std::string("all values were looked at")
                                  : fmt::format("all is right up to {}", right_)
                 : fmt::format("{} is the first that is off{}", wrong_,
                               right_.empty()
                                   ? std::string()
                                   : fmt::format(", and {} is right", right_));
    return chosen;
  }

  // Returns how many models were run.
  size_t runs() const { return runs_; }
  // In words: up to where all is right, and from where on it is not.
  const std::string& what_was_found() const { return found_; }

 private:
  // All values of a large model need not fit the memory: each turn keeps its
  // own.
  absl::Status Refer(const Names& values) {
    reference_.clear();
    const std::set<std::string> wanted(values.begin(), values.end());
    InterpretOptions options;
    options.observe = [&](const OperationRun& run) {
      for (size_t i = 0; i < run.operation.outputs.size(); ++i) {
        if (run.operation.outputs[i] == kNoValue) continue;
        const std::string& name = network_.value(run.operation.outputs[i]).name;
        if (wanted.contains(name)) reference_[name] = run.result.outputs[i];
      }
      return false;
    };
    return Interpret(network_, inputs_, options).status();
  }

  // Values that cannot be had are not among them.
  absl::StatusOr<std::map<std::string, bool>> AreWrong(const Names& values) {
    NODEWISE_RETURN_IF_ERROR(Refer(values));
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, request_.by_parts(values));
    TensorCollector made;
    RunOptions run;
    run.sink = &made;
    NODEWISE_RETURN_IF_ERROR(runner->Run(request_.inputs, run).status());
    runs_ += values.size();
    std::map<std::string, bool> are_wrong;
    for (const std::string& name : values) {
      const auto tensor = made.Find({name});
      if (!tensor.ok()) continue;
      NODEWISE_ASSIGN_OR_RETURN(
          const auto compared,
          CompareNetworkOutputs({reference_[name]}, {{name, *tensor}},
                                tolerance_));
      are_wrong[name] = AnyIsWrong(compared);
    }
    return are_wrong;
  }

  // A wrong value may be hidden by what is made of it, so what a right one is
  // made of need not all be right; it is what is likely, and the outputs are
  // wrong.
  void Narrow(const Names& tried,
              const std::map<std::string, bool>& are_wrong) {
    const auto is = [&](const std::string& name, bool wrong) {
      const auto known = are_wrong.find(name);
      return known != are_wrong.end() && known->second == wrong;
    };
    std::set<ValueId> out;
    for (const std::string& name : tried) {
      if (is(name, true)) {
        wrong_ = name;
        const std::set<ValueId> before = BeforeAndAt(name);
        std::erase_if(left_, [&](const std::string& value) {
          return !before.contains(*network_.FindValue(value));
        });
        break;
      }
      if (!is(name, false)) continue;
      right_ = name;
      out.merge(BeforeAndAt(name));
    }
    std::erase_if(left_, [&](const std::string& value) {
      return out.contains(*network_.FindValue(value));
    });
  }

  // The value, and all that it is made of.
  std::set<ValueId> BeforeAndAt(const std::string& value) const {
    std::vector<ValueId> waiting = {*network_.FindValue(value)};
    std::set<ValueId> found(waiting.begin(), waiting.end());
    while (!waiting.empty()) {
      const ValueId next = waiting.back();
      waiting.pop_back();
      for (const ValueId input : ReadFor(next)) {
        if (found.insert(input).second) waiting.push_back(input);
      }
    }
    return found;
  }

  std::vector<ValueId> ReadFor(ValueId id) const {
    const NetworkValue& value = network_.value(id);
    if (value.kind != NetworkValue::Kind::kOutput) return {};
    std::vector<ValueId> read = network_.operation(value.producer).inputs;
    std::erase(read, kNoValue);
    return read;
  }

  // The values that are left are to be judged on what was read for them, and
  // must be apart from what comes before and after it: what these hand on to
  // each other is wanted, too.
  Names WithWhatIsRead() const {
    std::set<ValueId> wanted;
    std::set<ValueId> before;
    for (const std::string& name : left_) {
      const ValueId id = *network_.FindValue(name);
      wanted.insert(id);
      before.merge(BeforeAndAt(name));
      for (const ValueId read : ReadFor(id)) wanted.insert(read);
    }
    for (const ValueId id : before) {
      for (const Use& use : network_.value(id).uses) {
        const auto& made = network_.operation(use.user).outputs;
        const bool is_before = std::ranges::any_of(
            made, [&](ValueId output) { return before.contains(output); });
        if (!is_before) wanted.insert(id);
      }
    }
    Names chosen;
    for (const std::string& name : request_.observable) {
      if (wanted.contains(*network_.FindValue(name))) chosen.push_back(name);
    }
    return chosen;
  }

  const NetworkLocateRequest& request_;
  const Network& network_;
  const std::vector<NDArray>& inputs_;
  const Tolerance tolerance_;
  // The values that are tried, by name.
  std::map<std::string, NDArray> reference_;
  Names left_;  // In the order of the run; among them is the first wrong one.
  std::string right_, wrong_;  // The last of each; empty: none.
  size_t runs_ = 0;
  std::string found_;
};

class NetworkLocator {
 public:
  // `network` is that of the request, with all sizes. All must outlive this.
  NetworkLocator(const NetworkLocateRequest& request, const Network& network,
                 const LocateOptions& options)
      : request_(request), network_(network), options_(options) {}

  absl::StatusOr<NetworkLocated> Run() {
    // Whether there is a graph at all is known before anything runs.
    NODEWISE_ASSIGN_OR_RETURN(auto graph, LowerWith(request_.observable));
    tolerance_ = AccumulatedTolerance(graph->graph);
    // First: a program that cannot run says so before anything takes long.
    NODEWISE_ASSIGN_OR_RETURN(plain_, OutputsWith({}, nullptr));
    NODEWISE_RETURN_IF_ERROR(Refer());
    NODEWISE_ASSIGN_OR_RETURN(Names observed, Choose());
    if (observed.size() != request_.observable.size()) {
      NODEWISE_ASSIGN_OR_RETURN(graph, LowerWith(observed));
    }
    located_.graph = graph;
    // Tensors of another program share no memory that is known here.
    const StoragePlan plan = *PlanStorage(graph->graph, kDLCPU);
    const GraphIndex index(graph->graph, plan);
    const LocateRequest request{
        index, request_.operators,
        [&]() -> absl::StatusOr<std::unique_ptr<Runner>> {
          NODEWISE_ASSIGN_OR_RETURN(
              auto runner, is_by_parts_ ? request_.by_parts(observed)
                                        : request_.candidate(observed));
          return ViewAsGraph(std::move(runner), graph);
        },
        nullptr, request_.inputs};
    LocateOptions options = options_;
    options.only_handed_out = true;
    // Each value is a run of its own.
    if (is_by_parts_) options.repeats = 0;
    NODEWISE_ASSIGN_OR_RETURN(located_.result, Locate(request, options));
    AccuseWhatVanishes();
    NODEWISE_RETURN_IF_ERROR(AskWhatRoundingDoes());
    if (request_.referee != nullptr) {
      NODEWISE_ASSIGN_OR_RETURN(
          located_.opinions,
          AskReferee(request, located_.result, request_.referee));
    }
    Names& notes = located_.result.notes;
    notes.insert(notes.begin(), notes_.begin(), notes_.end());
    return std::move(located_);
  }

 private:
  absl::StatusOr<std::shared_ptr<const Lowered>> LowerWith(
      const Names& observed) const {
    const std::set<std::string> names(observed.begin(), observed.end());
    LowerOptions options;
    // Each value is a tensor of its own, as it is handed out.
    options.reuse_storage = false;
    options.is_observed = [&](const Network& network, ValueId id) {
      return names.contains(network.value(id).name);
    };
    NODEWISE_ASSIGN_OR_RETURN(Lowered lowered,
                              Lower(network_, network_.name(), options));
    return std::make_shared<const Lowered>(std::move(lowered));
  }

  // Operations that were judged as one may have no bound together. Where the
  // error is gone as soon as a value between them is handed out, the runtime
  // contradicts itself there: that accuses them, if they are far off.
  void AccuseWhatVanishes() {
    constexpr double kFarOff = 0.01;
    LocateResult& result = located_.result;
    if (dropped_.empty() || !result.culprits.empty()) return;
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
          WithVerb(dropped_));
      result.culprits.push_back({i, std::nullopt, {}});
    }
  }

  bool HasDropped(const NodeReport& report) const {
    return std::ranges::any_of(dropped_, [&](const std::string& name) {
      const auto value = network_.FindValue(name);
      if (!value.ok()) return false;
      const OperationId maker = network_.value(*value).producer;
      return maker != kNoOperation &&
             std::ranges::count(report.covers, network_.operation(maker).name) >
                 0;
    });
  }

  // Whether every culprit does only what is known of the runtime.
  bool AreCulpritsKnown() const {
    const auto is_known = [this](const Culprit& culprit) {
      const auto& known = located_.result.nodes[culprit.report].known;
      return known.has_value() && known->is_within();
    };
    return !options_.is_strict &&
           std::ranges::all_of(located_.result.culprits, is_known);
  }

  // Where no node is to blame and outputs differ all the same, the network may
  // enlarge what rounding does in every runtime: steps of 8-bit numbers flip,
  // or a logarithm is taken of nearly nothing.
  absl::Status AskWhatRoundingDoes() {
    // SampledBounds() takes some sixty times as long as a run.
    constexpr int64_t kMostNanosecondsOfARun = 1'000'000'000;
    if (!AreCulpritsKnown() || !located_.result.AreOutputsWrong() ||
        refer_ns_ > kMostNanosecondsOfARun) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<Bounds> bounds,
                              SampledBounds(network_, inputs_));
    for (size_t i = 0; i < plain_.size(); ++i) {
      if (!unseen_[i].is_wrong()) continue;
      TensorItem item{unseen_[i].key};
      item.tensor = reference_[i].tensor();
      item.proved_bounds = bounds[i].proved;
      item.expected_bounds = bounds[i].expected;
      NODEWISE_ASSIGN_OR_RETURN(const TensorComparison compared,
                                CompareTensors(item, *plain_[i].tensor));
      const bool is_bounded =
          std::all_of(bounds[i].proved.begin(), bounds[i].proved.end(),
                      [](double bound) { return std::isfinite(bound); });
      if (!is_bounded || compared.is_wrong()) return absl::OkStatus();
    }
    for (const Culprit& culprit : located_.result.culprits) {
      located_.result.nodes[culprit.report].verdict = NodeVerdict::kDeviates;
    }
    located_.result.culprits.clear();
    located_.result.is_rounding = true;
    return absl::OkStatus();
  }

  // Computes what the reference makes of the inputs.
  absl::Status Refer() {
    for (const ValueId id : network_.inputs()) {
      const std::string& name = network_.value(id).name;
      const auto given = std::ranges::find_if(
          request_.inputs,
          [&](const NamedTensor& input) { return input.name == name; });
      if (given == request_.inputs.end()) {
        return InvalidArgument("input {}: was not given, expected a tensor",
                               name);
      }
      inputs_.push_back(given->tensor);
    }
    const int64_t start_ns = ClockNanoseconds();
    NODEWISE_ASSIGN_OR_RETURN(reference_, Interpret(network_, inputs_));
    refer_ns_ = ClockNanoseconds() - start_ns;
    return absl::OkStatus();
  }

  // Runs the candidate with these values observed, or with none looked at for
  // a null sink, and returns its outputs.
  absl::StatusOr<std::vector<NamedTensor>> OutputsWith(const Names& observed,
                                                       TensorSink* sink) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, request_.candidate(observed));
    RunOptions run;
    run.sink = sink;
    NODEWISE_ASSIGN_OR_RETURN(RunResult result,
                              runner->Run(request_.inputs, run));
    return std::move(result.outputs);
  }

  // Returns what is to be observed.
  absl::StatusOr<Names> Choose() {
    const std::vector<NamedTensor>& unseen = plain_;
    Names asked = request_.observable;
    AbsentSink sink;
    auto seen = OutputsWith(asked, &sink);
    if (absl::IsUnavailable(seen.status()) && !asked.empty()) {
      // Asking for all has failed: either one value does it, or any.
      NODEWISE_ASSIGN_OR_RETURN(const bool can, CanHandOutOne());
      if (can) {
        NODEWISE_ASSIGN_OR_RETURN(asked, AskForLess(seen.status()));
      } else {
        asked.clear();
      }
      sink = AbsentSink();
      seen = OutputsWith(asked, &sink);
    }
    if (!seen.ok()) return seen.status();
    NODEWISE_RETURN_IF_ERROR(NoteChange(unseen, *seen));
    NODEWISE_ASSIGN_OR_RETURN(
        unseen_, CompareNetworkOutputs(reference_, unseen, tolerance_));
    const bool hands_out_none = sink.absent.size() == asked.size();
    if (hands_out_none && !request_.observable.empty() &&
        request_.by_parts != nullptr && AnyIsWrong(unseen_)) {
      return ChooseByParts();
    }
    const Names observed = HandedOut(asked, sink);
    NODEWISE_ASSIGN_OR_RETURN(
        const auto looked_at,
        CompareNetworkOutputs(reference_, *seen, tolerance_));
    for (size_t i = 0; i < unseen_.size(); ++i) {
      if (looked_at[i].is_wrong() && !unseen_[i].is_wrong()) {
        notes_.push_back(fmt::format(
            "output {} is right as long as nothing inside is handed out: the "
            "fault is in how the runtime computes the operations apart",
            unseen[i].name));
      }
    }
    const std::vector<size_t> vanishing = Vanishing(looked_at);
    if (vanishing.empty()) return observed;
    NODEWISE_ASSIGN_OR_RETURN(const bool is_steady, IsSteady(unseen));
    if (!is_steady) return observed;
    return Search(observed, vanishing);
  }

  // Returns the values around the first one that is off, as far as models that
  // end at them say: a few dozen, however many there are.
  absl::StatusOr<Names> ChooseByParts() {
    is_by_parts_ = true;
    PartSearch search(request_, network_, inputs_, tolerance_);
    NODEWISE_ASSIGN_OR_RETURN(Names chosen, search.Run());
    for (const std::string& name : request_.observable) {
      if (std::ranges::find(chosen, name) == chosen.end()) {
        located_.unobserved.push_back(name);
      }
    }
    notes_.push_back(fmt::format(
        "the runtime hands out nothing but outputs, so {} were run that end at "
        "a value each: {}",
        CountOf(search.runs(), "shorter model"), search.what_was_found()));
    return chosen;
  }

  // Whether another run makes the same outputs, but for a small part of the
  // error: of a runtime that does not, less error says nothing of what was
  // looked at.
  absl::StatusOr<bool> IsSteady(const std::vector<NamedTensor>& unseen) {
    constexpr double kSmallPart = 0.01;
    NODEWISE_ASSIGN_OR_RETURN(const auto again, OutputsWith({}, nullptr));
    NODEWISE_ASSIGN_OR_RETURN(
        const auto moved,
        CompareNetworkOutputs(Unnamed(unseen), again, tolerance_));
    for (size_t i = 0; i < moved.size(); ++i) {
      if (RelativeError(moved[i]) > kSmallPart * RelativeError(unseen_[i])) {
        return false;
      }
    }
    return true;
  }

  // Returns those that came, and notes why the others did not.
  Names HandedOut(const Names& asked, const AbsentSink& sink) {
    Names observed;
    Names absent;
    for (const std::string& name : asked) {
      const auto found = sink.absent.find(name);
      if (found == sink.absent.end()) {
        observed.push_back(name);
        continue;
      }
      located_.unobserved.push_back(name);
      absent.push_back(found->second.empty()
                           ? name
                           : fmt::format("{} ({})", name, found->second));
    }
    if (!absent.empty()) {
      notes_.push_back(fmt::format("{}: the runtime does not hand out {}",
                                   CountOf(absent.size(), "value"),
                                   ListOf(absent, kNamedValues)));
    }
    return observed;
  }

  // Whether it hands out one of three values, each asked for alone. To ask one
  // that hands out none for all of them would take as many runs.
  absl::StatusOr<bool> CanHandOutOne() const {
    if (request_.by_parts == nullptr) return true;
    const Names& all = request_.observable;
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
  absl::StatusOr<Names> AskForLess(const absl::Status& failure) {
    const Names& all = request_.observable;
    NODEWISE_ASSIGN_OR_RETURN(
        const ObservationSearch search,
        SearchObservable(
            all.size(), request_.most_search_runs,
            [&](absl::Span<const size_t> values) -> absl::StatusOr<bool> {
              AbsentSink sink;
              const auto made = OutputsWith(ChosenOf(all, values), &sink);
              if (absl::IsUnavailable(made.status())) return false;
              NODEWISE_RETURN_IF_ERROR(made.status());
              return true;
            }));
    located_.unobserved = ChosenOf(all, search.dropped);
    notes_.push_back(fmt::format(
        "the runtime fails when it is asked for all values inside: {}; {} of "
        "{} can be had together, without {}",
        MessageOf(failure), search.kept.size(), all.size(),
        ListOf(located_.unobserved, kNamedValues)));
    return ChosenOf(all, search.kept);
  }

  // Says how much it changes the outputs that what is inside is handed out.
  absl::Status NoteChange(absl::Span<const NamedTensor> unseen,
                          absl::Span<const NamedTensor> seen) {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto changed,
        CompareNetworkOutputs(Unnamed(unseen), seen, tolerance_));
    for (size_t i = 0; i < changed.size(); ++i) {
      const double change = RelativeError(changed[i]);
      if (change > located_.change) {
        located_.change = change;
        located_.most_changed = unseen[i].name;
      }
    }
    return absl::OkStatus();
  }

  // Whether more than half of an output's error is there.
  bool IsLeft(size_t output, const TensorComparison& found) const {
    return RelativeError(found) > RelativeError(unseen_[output]) / 2;
  }

  // Returns the outputs that are wrong as long as nothing is looked at, and
  // lose most of their error otherwise; the worst comes first.
  std::vector<size_t> Vanishing(
      absl::Span<const TensorComparison> looked_at) const {
    std::vector<size_t> vanishing;
    for (size_t i = 0; i < unseen_.size(); ++i) {
      if (unseen_[i].is_wrong() && !IsLeft(i, looked_at[i])) {
        vanishing.push_back(i);
      }
    }
    std::ranges::stable_sort(vanishing, [&](size_t a, size_t b) {
      return RelativeError(unseen_[a]) > RelativeError(unseen_[b]);
    });
    return vanishing;
  }

  // Observes as much as leaves more than half of the error of all these
  // outputs; where nothing does, of the worst alone.
  absl::StatusOr<Names> Search(const Names& observable,
                               const std::vector<size_t>& vanishing) {
    located_.vanishes = true;
    NODEWISE_ASSIGN_OR_RETURN(ObservationSearch search,
                              SearchWith(observable, vanishing));
    std::vector<size_t> followed = vanishing;
    if (search.kept.empty() && vanishing.size() > 1) {
      followed.resize(1);
      NODEWISE_ASSIGN_OR_RETURN(search, SearchWith(observable, followed));
    }
    if (search.kept.empty())
      NODEWISE_RETURN_IF_ERROR(LookWithNothing(followed));
    NoteVanished(observable, search, followed);
    for (size_t i = followed.size(); i < vanishing.size(); ++i) {
      notes_.push_back(fmt::format(
          "output {} loses most of its error, too, by what the search for {} "
          "observes: ask for it alone",
          unseen_[vanishing[i]].key.Name(), unseen_[followed[0]].key.Name()));
    }
    return ChosenOf(observable, search.kept);
  }

  absl::StatusOr<ObservationSearch> SearchWith(
      const Names& observable, const std::vector<size_t>& followed) const {
    return SearchObservable(
        observable.size(), request_.most_search_runs,
        [&](absl::Span<const size_t> values) -> absl::StatusOr<bool> {
          AbsentSink sink;
          NODEWISE_ASSIGN_OR_RETURN(
              const auto outputs,
              OutputsWith(ChosenOf(observable, values), &sink));
          return AreLeft(followed, outputs);
        });
  }

  absl::StatusOr<bool> AreLeft(const std::vector<size_t>& followed,
                               absl::Span<const NamedTensor> outputs) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto found,
        CompareNetworkOutputs(reference_, outputs, tolerance_));
    return std::ranges::all_of(followed,
                               [&](size_t i) { return IsLeft(i, found[i]); });
  }

  void NoteVanished(const Names& observable, const ObservationSearch& search,
                    const std::vector<size_t>& followed) {
    Names dropped = ChosenOf(observable, search.dropped);
    Names outputs;
    for (const size_t i : followed) outputs.push_back(unseen_[i].key.Name());
    notes_.push_back(fmt::format(
        "vanishes when observed: most of the error of {} is gone when {} "
        "handed out, so the operations around {} were judged as one{}",
        ListOf(outputs, kNamedValues), WithVerb(dropped),
        dropped.size() == 1 ? "it" : "them",
        search.is_complete ? ""
                           : fmt::format(" (the search was ended after {})",
                                         CountOf(search.runs, "run"))));
    located_.unobserved.insert(located_.unobserved.end(), dropped.begin(),
                               dropped.end());
    dropped_ = std::move(dropped);
  }

  absl::Status LookWithNothing(const std::vector<size_t>& followed) {
    AbsentSink sink;
    NODEWISE_ASSIGN_OR_RETURN(const auto outputs, OutputsWith({}, &sink));
    NODEWISE_ASSIGN_OR_RETURN(const bool is_left, AreLeft(followed, outputs));
    located_.is_gone = !is_left;
    return absl::OkStatus();
  }

  const NetworkLocateRequest& request_;
  const Network& network_;
  const LocateOptions& options_;
  Tolerance tolerance_;          // The tolerance of the outputs.
  std::vector<NDArray> inputs_;  // In the order of the network's.
  std::vector<NDArray> reference_;
  int64_t refer_ns_ = 0;                  // How long the reference took.
  std::vector<NamedTensor> plain_;        // The outputs with nothing looked at.
  std::vector<TensorComparison> unseen_;  // The outputs of the file as it is.
  bool is_by_parts_ = false;
  // The values that make the error vanish when they are handed out.
  Names dropped_;
  NetworkLocated located_;
  Names notes_;
};

}  // namespace

absl::StatusOr<NetworkLocated> LocateInNetwork(
    const NetworkLocateRequest& request, const LocateOptions& options) {
  if (!HasOpenSizes(request.network)) {
    return NetworkLocator(request, request.network, options).Run();
  }
  Network sized = request.network;
  NODEWISE_RETURN_IF_ERROR(FindSizes(request.inputs, &sized));
  return NetworkLocator(request, sized, options).Run();
}

}  // namespace nodewise
