#include "nodewise/locate/network_locate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/part_search.h"
#include "fmt/format.h"
#include "nodewise/foreign/observation_search.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/interp/sampled_bounds.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/runner/bind_sizes.h"
#include "nodewise/runner/graph_view.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kNamedValues = 8;

// Takes tensors and remembers only which did not come.
class AbsentSink : public TensorSink {
 public:
  absl::Status Take(const TensorItem& item) override {
    if (item.tensor == nullptr) absent_[item.key.node] = item.why_absent;
    return absl::OkStatus();
  }
  // By name, with the reasons.
  const std::map<std::string, std::string>& absent() const { return absent_; }

 private:
  std::map<std::string, std::string> absent_;
};

class NetworkLocator {
 public:
  NetworkLocator(const NetworkLocateRequest& request,
                 const LocateOptions& options)
      : request_(request), options_(options) {}

  absl::StatusOr<NetworkLocated> Run() {
    // Whether there is a graph at all is known before anything runs.
    NODEWISE_ASSIGN_OR_RETURN(auto graph, LowerWith(request_.observable));
    tolerance_ = AccumulatedTolerance(graph->graph);
    // First: a program that cannot run says so before anything takes long.
    NODEWISE_ASSIGN_OR_RETURN(plain_, OutputsWith({}, nullptr));
    NODEWISE_RETURN_IF_ERROR(Refer());
    NODEWISE_ASSIGN_OR_RETURN(std::vector<std::string> observed, Choose());
    if (observed.size() != request_.observable.size()) {
      NODEWISE_ASSIGN_OR_RETURN(graph, LowerWith(observed));
    }
    located_.graph = graph;
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
    std::vector<std::string>& notes = located_.result.notes;
    notes.insert(notes.begin(), notes_.begin(), notes_.end());
    return std::move(located_);
  }

 private:
  absl::StatusOr<std::shared_ptr<const Lowered>> LowerWith(
      const std::vector<std::string>& observed) const {
    const std::set<std::string> names(observed.begin(), observed.end());
    LowerOptions options;
    options.reuse_storage = false;
    options.is_observed = [&](const Network& network, ValueId id) {
      return names.contains(network.value(id).name);
    };
    NODEWISE_ASSIGN_OR_RETURN(
        Lowered lowered,
        Lower(request_.network, request_.network.name(), options));
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
      report.evidence.isolated = Verdict::kError;
      report.verdict = NodeVerdict::kBroken;
      report.reason += fmt::format(
          ", and the runtime itself makes something else when {} handed out",
          ListOf(dropped_, kNamedValues) +
              (dropped_.size() == 1 ? " is" : " are"));
      result.culprits.push_back({i, std::nullopt, {}});
    }
  }

  bool HasDropped(const NodeReport& report) const {
    return std::any_of(
        dropped_.begin(), dropped_.end(), [&](const std::string& name) {
          const auto value = request_.network.FindValue(name);
          if (!value.ok()) return false;
          const OperationId maker = request_.network.value(*value).producer;
          return maker != kNoOperation &&
                 std::count(report.covers.begin(), report.covers.end(),
                            request_.network.operation(maker).name) > 0;
        });
  }

  // Whether every culprit does only what is known of the runtime.
  bool AreCulpritsKnown() const {
    const std::vector<Culprit>& culprits = located_.result.culprits;
    return !options_.is_strict &&
           std::all_of(culprits.begin(), culprits.end(),
                       [this](const Culprit& culprit) {
                         const auto& known =
                             located_.result.nodes[culprit.report].known;
                         return known.has_value() && known->is_within();
                       });
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
                              SampledBounds(request_.network, inputs_));
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

  // What the reference makes of the inputs.
  absl::Status Refer() {
    for (const ValueId id : request_.network.inputs()) {
      const std::string& name = request_.network.value(id).name;
      const auto given = std::find_if(
          request_.inputs.begin(), request_.inputs.end(),
          [&](const NamedTensor& input) { return input.name == name; });
      if (given == request_.inputs.end()) {
        return absl::InvalidArgumentError(
            fmt::format("input {}: was not given, expected a tensor", name));
      }
      inputs_.push_back(given->tensor);
    }
    const int64_t start_ns = ClockNanoseconds();
    NODEWISE_ASSIGN_OR_RETURN(reference_, Interpret(request_.network, inputs_));
    refer_ns_ = ClockNanoseconds() - start_ns;
    return absl::OkStatus();
  }

  // Runs the candidate with these values observed, or with none looked at for
  // a null sink, and returns its outputs.
  absl::StatusOr<std::vector<NamedTensor>> OutputsWith(
      const std::vector<std::string>& observed, TensorSink* sink) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, request_.candidate(observed));
    RunOptions run;
    run.sink = sink;
    NODEWISE_ASSIGN_OR_RETURN(RunResult result,
                              runner->Run(request_.inputs, run));
    return std::move(result.outputs);
  }

  absl::StatusOr<std::vector<TensorComparison>> CompareWithReference(
      absl::Span<const NamedTensor> outputs) const {
    return CompareNetworkOutputs(reference_, outputs, tolerance_);
  }

  // Returns what is to be observed.
  absl::StatusOr<std::vector<std::string>> Choose() {
    const std::vector<NamedTensor>& unseen = plain_;
    std::vector<std::string> asked = request_.observable;
    AbsentSink sink;
    auto seen = OutputsWith(asked, &sink);
    if (absl::IsUnavailable(seen.status()) && !asked.empty()) {
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
    NODEWISE_ASSIGN_OR_RETURN(unseen_, CompareWithReference(unseen));
    const bool hands_out_none = sink.absent().size() == asked.size();
    if (hands_out_none && !request_.observable.empty() &&
        request_.by_parts != nullptr && IsAnyWrong(unseen_)) {
      return ChooseByParts();
    }
    const std::vector<std::string> observed = HandedOut(asked, sink);
    NODEWISE_ASSIGN_OR_RETURN(const auto looked_at,
                              CompareWithReference(*seen));
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

  static bool IsAnyWrong(absl::Span<const TensorComparison> outputs) {
    return std::any_of(
        outputs.begin(), outputs.end(),
        [](const TensorComparison& output) { return output.is_wrong(); });
  }

  // Returns the values around the first one that is off, as far as models that
  // end at them say: a few dozen, however many there are.
  absl::StatusOr<std::vector<std::string>> ChooseByParts() {
    is_by_parts_ = true;
    PartSearch search(request_, inputs_, tolerance_);
    NODEWISE_ASSIGN_OR_RETURN(std::vector<std::string> chosen, search.Run());
    for (const std::string& name : request_.observable) {
      if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) {
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
    std::vector<NDArray> first;
    for (const NamedTensor& output : unseen) first.push_back(output.tensor);
    NODEWISE_ASSIGN_OR_RETURN(const auto moved,
                              CompareNetworkOutputs(first, again, tolerance_));
    for (size_t i = 0; i < moved.size(); ++i) {
      if (RelativeError(moved[i]) > kSmallPart * RelativeError(unseen_[i])) {
        return false;
      }
    }
    return true;
  }

  // Returns those that came, and notes why the others did not.
  std::vector<std::string> HandedOut(const std::vector<std::string>& asked,
                                     const AbsentSink& sink) {
    std::vector<std::string> observed;
    std::vector<std::string> absent;
    for (const std::string& name : asked) {
      const auto found = sink.absent().find(name);
      if (found == sink.absent().end()) {
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
    const std::vector<std::string>& all = request_.observable;
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
  absl::StatusOr<std::vector<std::string>> AskForLess(
      const absl::Status& failure) {
    const std::vector<std::string>& all = request_.observable;
    const auto named = [&](absl::Span<const size_t> values) {
      std::vector<std::string> names;
      for (const size_t i : values) names.push_back(all[i]);
      return names;
    };
    NODEWISE_ASSIGN_OR_RETURN(
        const ObservationSearch search,
        SearchObservable(
            all.size(), request_.most_search_runs,
            [&](absl::Span<const size_t> values) -> absl::StatusOr<bool> {
              AbsentSink sink;
              const auto made = OutputsWith(named(values), &sink);
              if (absl::IsUnavailable(made.status())) return false;
              NODEWISE_RETURN_IF_ERROR(made.status());
              return true;
            }));
    located_.unobserved = named(search.dropped);
    notes_.push_back(fmt::format(
        "the runtime fails when it is asked for all values inside: {}; {} of "
        "{} can be had together, without {}",
        MessageOf(failure), search.kept.size(), all.size(),
        ListOf(located_.unobserved, kNamedValues)));
    return named(search.kept);
  }

  // Says how much it changes the outputs that what is inside is handed out.
  absl::Status NoteChange(absl::Span<const NamedTensor> unseen,
                          absl::Span<const NamedTensor> seen) {
    std::vector<NDArray> as_read;
    for (const NamedTensor& output : unseen) as_read.push_back(output.tensor);
    NODEWISE_ASSIGN_OR_RETURN(const auto changed,
                              CompareNetworkOutputs(as_read, seen, tolerance_));
    located_.change = 0;
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
    std::stable_sort(
        vanishing.begin(), vanishing.end(), [&](size_t a, size_t b) {
          return RelativeError(unseen_[a]) > RelativeError(unseen_[b]);
        });
    return vanishing;
  }

  // Observes as much as leaves more than half of the error of all these
  // outputs; where nothing does, of the worst alone.
  absl::StatusOr<std::vector<std::string>> Search(
      const std::vector<std::string>& observable,
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
    std::vector<std::string> kept;
    for (const size_t i : search.kept) kept.push_back(observable[i]);
    return kept;
  }

  absl::StatusOr<ObservationSearch> SearchWith(
      const std::vector<std::string>& observable,
      const std::vector<size_t>& followed) const {
    return SearchObservable(
        observable.size(), request_.most_search_runs,
        [&](absl::Span<const size_t> values) -> absl::StatusOr<bool> {
          std::vector<std::string> names;
          for (const size_t i : values) names.push_back(observable[i]);
          AbsentSink sink;
          NODEWISE_ASSIGN_OR_RETURN(const auto outputs,
                                    OutputsWith(names, &sink));
          return AreLeft(followed, outputs);
        });
  }

  absl::StatusOr<bool> AreLeft(const std::vector<size_t>& followed,
                               absl::Span<const NamedTensor> outputs) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto found, CompareWithReference(outputs));
    return std::all_of(followed.begin(), followed.end(),
                       [&](size_t i) { return IsLeft(i, found[i]); });
  }

  void NoteVanished(const std::vector<std::string>& observable,
                    const ObservationSearch& search,
                    const std::vector<size_t>& followed) {
    std::vector<std::string> dropped;
    for (const size_t i : search.dropped) dropped.push_back(observable[i]);
    std::vector<std::string> outputs;
    for (const size_t i : followed) outputs.push_back(unseen_[i].key.Name());
    notes_.push_back(fmt::format(
        "vanishes when observed: most of the error of {} is gone when {} "
        "handed out, so the operations around {} were judged as one{}",
        ListOf(outputs, kNamedValues),
        ListOf(dropped, kNamedValues) + (dropped.size() == 1 ? " is" : " are"),
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
  const LocateOptions& options_;
  Tolerance tolerance_;          // The tolerance of the outputs.
  std::vector<NDArray> inputs_;  // In the order of the network's.
  std::vector<NDArray> reference_;
  int64_t refer_ns_ = 0;                  // How long the reference took.
  std::vector<NamedTensor> plain_;        // The outputs with nothing looked at.
  std::vector<TensorComparison> unseen_;  // The outputs of the file as it is.
  bool is_by_parts_ = false;
  // What makes the error vanish when it is handed out.
  std::vector<std::string> dropped_;
  NetworkLocated located_;
  std::vector<std::string> notes_;
};

}  // namespace

absl::StatusOr<NetworkLocated> LocateInNetwork(
    const NetworkLocateRequest& request, const LocateOptions& options) {
  if (!HasOpenSizes(request.network)) {
    return NetworkLocator(request, options).Run();
  }
  Network sized = request.network;
  NODEWISE_RETURN_IF_ERROR(FindSizes(request.inputs, &sized));
  const NetworkLocateRequest of_sized{sized,
                                      request.operators,
                                      request.candidate,
                                      request.observable,
                                      request.inputs,
                                      request.most_search_runs,
                                      request.referee,
                                      request.by_parts};
  return NetworkLocator(of_sized, options).Run();
}

}  // namespace nodewise
