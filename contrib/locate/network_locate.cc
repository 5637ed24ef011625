#include "nodewise/locate/network_locate.h"

#include <algorithm>
#include <set>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/output_error.h"
#include "fmt/format.h"
#include "nodewise/foreign/observation_search.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/runner/graph_view.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kNamedValues = 8;

// Takes tensors and remembers only which did not come.
class AbsentSink : public TensorSink {
 public:
  absl::Status Take(const TensorItem& item) override {
    if (item.tensor == nullptr) absent_.insert(item.key.node);
    return absl::OkStatus();
  }
  const std::set<std::string>& absent() const { return absent_; }

 private:
  std::set<std::string> absent_;
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
          NODEWISE_ASSIGN_OR_RETURN(auto runner, request_.candidate(observed));
          return ViewAsGraph(std::move(runner), graph);
        },
        nullptr, request_.inputs};
    NODEWISE_ASSIGN_OR_RETURN(located_.result, Locate(request, options_));
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

  // What the reference makes of the inputs.
  absl::Status Refer() {
    std::vector<NDArray> inputs;
    for (const ValueId id : request_.network.inputs()) {
      const std::string& name = request_.network.value(id).name;
      const auto given = std::find_if(
          request_.inputs.begin(), request_.inputs.end(),
          [&](const NamedTensor& input) { return input.name == name; });
      if (given == request_.inputs.end()) {
        return absl::InvalidArgumentError(
            fmt::format("input {}: was not given, expected a tensor", name));
      }
      inputs.push_back(given->tensor);
    }
    NODEWISE_ASSIGN_OR_RETURN(reference_,
                              Interpret(request_.network, std::move(inputs)));
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

  absl::StatusOr<bool> AreWrong(absl::Span<const NamedTensor> outputs) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto compared,
        CompareNetworkOutputs(reference_, outputs, tolerance_));
    return std::any_of(
        compared.begin(), compared.end(),
        [](const TensorComparison& output) { return output.is_wrong(); });
  }

  // Returns what is to be observed.
  absl::StatusOr<std::vector<std::string>> Choose() {
    NODEWISE_ASSIGN_OR_RETURN(const auto unseen, OutputsWith({}, nullptr));
    AbsentSink sink;
    NODEWISE_ASSIGN_OR_RETURN(const auto seen,
                              OutputsWith(request_.observable, &sink));
    std::vector<std::string> observed;
    for (const std::string& name : request_.observable) {
      (sink.absent().contains(name) ? located_.unobserved : observed)
          .push_back(name);
    }
    if (!located_.unobserved.empty()) {
      notes_.push_back(fmt::format("{}: the runtime does not hand out {}",
                                   CountOf(located_.unobserved.size(), "value"),
                                   ListOf(located_.unobserved, kNamedValues)));
    }
    NODEWISE_ASSIGN_OR_RETURN(const bool wrong_unseen, AreWrong(unseen));
    NODEWISE_ASSIGN_OR_RETURN(const bool wrong_seen, AreWrong(seen));
    if (wrong_seen && !wrong_unseen) {
      notes_.push_back(
          "the outputs are right as long as nobody looks inside: the fault is "
          "in how the runtime computes the operations apart");
    }
    if (!wrong_unseen || wrong_seen) return observed;
    return Search(observed);
  }

  absl::StatusOr<std::vector<std::string>> Search(
      const std::vector<std::string>& observable) {
    const auto names_of = [&](absl::Span<const size_t> numbers) {
      std::vector<std::string> names;
      for (const size_t i : numbers) names.push_back(observable[i]);
      return names;
    };
    NODEWISE_ASSIGN_OR_RETURN(
        const ObservationSearch search,
        SearchObservable(
            observable.size(), request_.most_search_runs,
            [&](absl::Span<const size_t> values) -> absl::StatusOr<bool> {
              AbsentSink sink;
              NODEWISE_ASSIGN_OR_RETURN(const auto outputs,
                                        OutputsWith(names_of(values), &sink));
              return AreWrong(outputs);
            }));
    located_.vanishes = true;
    if (search.kept.empty()) NODEWISE_RETURN_IF_ERROR(LookWithNothing());
    const std::vector<std::string> dropped = names_of(search.dropped);
    notes_.push_back(fmt::format(
        "vanishes when observed: the outputs are right when {} handed out, so "
        "the operations around {} were judged as one{}",
        ListOf(dropped, kNamedValues) + (dropped.size() == 1 ? " is" : " are"),
        dropped.size() == 1 ? "it" : "them",
        search.is_complete ? ""
                           : fmt::format(" (the search was ended after {})",
                                         CountOf(search.runs, "run"))));
    located_.unobserved.insert(located_.unobserved.end(), dropped.begin(),
                               dropped.end());
    return names_of(search.kept);
  }

  absl::Status LookWithNothing() {
    AbsentSink sink;
    NODEWISE_ASSIGN_OR_RETURN(const auto outputs, OutputsWith({}, &sink));
    NODEWISE_ASSIGN_OR_RETURN(const bool wrong, AreWrong(outputs));
    located_.is_gone = !wrong;
    return absl::OkStatus();
  }

  const NetworkLocateRequest& request_;
  const LocateOptions& options_;
  Tolerance tolerance_;  // Of the outputs.
  std::vector<NDArray> reference_;
  NetworkLocated located_;
  std::vector<std::string> notes_;
};

}  // namespace

absl::StatusOr<NetworkLocated> LocateInNetwork(
    const NetworkLocateRequest& request, const LocateOptions& options) {
  return NetworkLocator(request, options).Run();
}

}  // namespace nodewise
