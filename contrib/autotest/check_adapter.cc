#include "nodewise/autotest/check_adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "contrib/autotest/run_executor.h"
#include "fmt/format.h"
#include "nodewise/align/operation_edits.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/locate/network_locate.h"
#include "nodewise/precision/node_error.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {
namespace {

// What a change must make of an output to be worth looking for: more than
// computing in bfloat16 does.
constexpr double kLeastEffect = 0.05;
// Operations, and changes of each, that are tried until one shows.
constexpr size_t kMostTried = 200;
// Changes that are drawn until the runtime takes one.
constexpr int kMostDraws = 8;

absl::StatusOr<std::vector<NDArray>> OutputsOf(const CheckedNetwork& checked,
                                               const Network& network) {
  std::vector<NDArray> inputs;
  for (const ValueId id : network.inputs()) {
    const std::string& name = network.value(id).name;
    const auto given = std::find_if(
        checked.inputs.begin(), checked.inputs.end(),
        [&](const NamedTensor& each) { return each.name == name; });
    if (given == checked.inputs.end()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: input {}: is not given, expected a tensor",
                      checked.name, Printable(name)));
    }
    inputs.push_back(given->tensor);
  }
  return Interpret(network, std::move(inputs));
}

// Puts the changed operation in the place of the one it was, under its names.
absl::Status Apply(const OperationEdit& edit, OperationId id,
                   Network* network) {
  const Operation old = network->operation(id);
  NewOperation changed;
  changed.attrs = edit.attrs;
  for (const size_t slot : edit.slots) {
    changed.inputs.push_back(
        slot == OperationEdit::kDropped ? kNoValue : old.inputs[slot]);
  }
  const ValueId output = old.outputs[0];
  const std::string name = network->value(output).name;
  NODEWISE_ASSIGN_OR_RETURN(const OperationId made,
                            network->AddOperation(std::move(changed)));
  const TensorType& type = network->value(output).type;
  if (!(network->value(network->operation(made).outputs[0]).type == type)) {
    return absl::InvalidArgumentError("makes another type");
  }
  const ValueId from[] = {output};
  const ValueId to[] = {network->operation(made).outputs[0]};
  NODEWISE_RETURN_IF_ERROR(network->ReplaceUses(from, to));
  NODEWISE_RETURN_IF_ERROR(network->Remove(id));
  NODEWISE_RETURN_IF_ERROR(network->Rename(to[0], name));
  return network->Rename(made, old.name);
}

// Draws a change of one operation, and looks whether it shows.
class ChangeSearch {
 public:
  ChangeSearch(const CheckedNetwork& checked, const OpSet& operators,
               uint64_t seed)
      : checked_(checked), operators_(operators), random_(seed, checked.name) {}

  absl::StatusOr<ChangedNetwork> Run() {
    NODEWISE_ASSIGN_OR_RETURN(expected_,
                              OutputsOf(checked_, *checked_.network));
    std::vector<OperationId> order(checked_.network->order().begin(),
                                   checked_.network->order().end());
    for (size_t tried = 0; tried < kMostTried && !order.empty();) {
      const auto chosen = order.begin() + random_.Between(0, order.size() - 1);
      const std::optional<ChangedNetwork> found = Try(*chosen, &tried);
      if (found.has_value()) return *found;
      order.erase(chosen);
    }
    return absl::NotFoundError(
        fmt::format("{}: no mistake in one operation changes its outputs, "
                    "expected one to plant",
                    checked_.name));
  }

 private:
  std::optional<ChangedNetwork> Try(OperationId id, size_t* tried) {
    const Network& network = *checked_.network;
    const Operation& operation = network.operation(id);
    if (operation.outputs.size() != 1) return std::nullopt;
    std::vector<OperationEdit> edits;
    VisitEdits(network, operation, operators_, [&](const OperationEdit& edit) {
      // Without the operation there is none to be named.
      if (!edit.is_skipped) edits.push_back(edit);
      return edits.size() < kMostTried;
    });
    while (!edits.empty() && *tried < kMostTried) {
      const auto chosen = edits.begin() + random_.Between(0, edits.size() - 1);
      ++*tried;
      if (auto shown = Shown(*chosen, id); shown.has_value()) return shown;
      edits.erase(chosen);
    }
    return std::nullopt;
  }

  // None if the change cannot be made, or does not show.
  std::optional<ChangedNetwork> Shown(const OperationEdit& edit,
                                      OperationId id) const {
    Network changed = *checked_.network;
    const std::string name = changed.operation(id).name;
    if (!Apply(edit, id, &changed).ok()) return std::nullopt;
    const auto found = OutputsOf(checked_, changed);
    if (!found.ok()) return std::nullopt;
    for (size_t i = 0; i < expected_.size(); ++i) {
      if ((*found)[i].shape() != expected_[i].shape() ||
          (*found)[i].dtype() != expected_[i].dtype()) {
        return std::nullopt;
      }
    }
    const double effect = OutputError({&expected_, 1}, {&*found, 1});
    // Infinities and NaN hide what is behind them.
    if (!(effect > kLeastEffect) || std::isinf(effect)) return std::nullopt;
    return ChangedNetwork{std::make_shared<const Network>(std::move(changed)),
                          name, edit.what};
  }

  const CheckedNetwork& checked_;
  const OpSet& operators_;
  RandomSource random_;
  std::vector<NDArray> expected_;
};

// Searches a network that the program runs as `given`.
AdapterTrial Searched(const NetworkProgram& program,
                      const CheckedNetwork& checked,
                      std::shared_ptr<const Network> given,
                      const OpSet& operators,
                      const AdapterCheckOptions& options,
                      std::string* runtime) {
  const auto make = [&](const std::vector<std::string>& observed,
                        bool ends_at_each) {
    ProgramRequest request{given};
    request.observed = observed;
    request.ends_at_each = ends_at_each;
    return program.make(std::move(request));
  };
  NetworkLocateRequest request{*checked.network, operators,
                               [&](const std::vector<std::string>& observed) {
                                 return make(observed, false);
                               },
                               ObservableValues(*checked.network),
                               checked.inputs};
  request.by_parts = [&](const std::vector<std::string>& observed) {
    return make(observed, true);
  };
  LocateOptions locate;
  locate.repeats = 1;
  locate.known = options.known;
  AdapterTrial trial{checked.name};
  const auto found = LocateInNetwork(request, locate);
  if (!found.ok()) {
    trial.outcome = AdapterTrial::Outcome::kFailed;
    trial.why = std::string(MessageOf(found.status()));
    return trial;
  }
  *runtime = found->result.runtime;
  for (const Culprit& culprit : found->result.culprits) {
    const NodeReport& node = found->result.nodes[culprit.report];
    if (node.cause.has_value() && node.cause->kind == Cause::Kind::kPrecision) {
      trial.precision = node.cause->type;
      continue;
    }
    trial.accused.insert(trial.accused.end(), node.covers.begin(),
                         node.covers.end());
  }
  return trial;
}

absl::StatusOr<std::vector<NamedTensor>> RunBy(
    const NetworkProgram& program, const CheckedNetwork& checked,
    std::shared_ptr<const Network> given,
    const std::vector<std::string>& observed = {}, TensorSink* sink = nullptr) {
  ProgramRequest request{std::move(given)};
  request.observed = observed;
  RunOptions run;
  run.sink = sink;
  NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                            program.make(std::move(request)));
  NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner->Run(checked.inputs, run));
  return std::move(result.outputs);
}

bool AreSame(const NamedTensor& a, const NamedTensor& b) {
  return a.name == b.name && a.tensor.shape() == b.tensor.shape() &&
         a.tensor.dtype() == b.tensor.dtype() &&
         HasEqualBytes(a.tensor, b.tensor);
}

// Whether the runtime makes the same of a network that was changed: a converter
// may drop the attribute that the change is in. There is nothing to be named
// then, however right the search is.
bool DropsChange(const NetworkProgram& program, const CheckedNetwork& checked,
                 std::shared_ptr<const Network> changed) {
  const auto before = RunBy(program, checked, checked.network);
  const auto after = RunBy(program, checked, std::move(changed));
  return before.ok() && after.ok() && !before->empty() &&
         std::equal(before->begin(), before->end(), after->begin(),
                    after->end(), AreSame);
}

// Keeps what a program hands out, by the names of values.
class ValueKeeper : public TensorSink {
 public:
  absl::Status Take(const TensorItem& item) override {
    if (item.tensor == nullptr) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(values_[std::string(item.key.node)], item.Keep());
    return absl::OkStatus();
  }
  const std::map<std::string, NDArray>& values() const { return values_; }

 private:
  std::map<std::string, NDArray> values_;
};

// Returns the operation and all that depend on it.
std::set<std::string> WithWhatFollows(const Network& network,
                                      const std::string& operation) {
  std::set<std::string> followers;
  std::set<ValueId> reached;
  for (const OperationId id : network.order()) {
    const Operation& each = network.operation(id);
    const bool follows =
        each.name == operation ||
        std::any_of(each.inputs.begin(), each.inputs.end(),
                    [&](ValueId input) { return reached.contains(input); });
    if (!follows) continue;
    followers.insert(each.name);
    for (const ValueId output : each.outputs) {
      if (output != kNoValue) reached.insert(output);
    }
  }
  return followers;
}

// Returns the accused operations that do not depend on the changed one, and of
// which the runtime makes something else than in the network as it is: a
// converter may keep in one place what the model says in two, the scale of
// QuantizeLinear and DequantizeLinear for example. These are wrong, too, and
// the values say so, not the search that is tried.
std::vector<std::string> CarriedInto(const NetworkProgram& program,
                                     const CheckedNetwork& checked,
                                     const ChangedNetwork& changed,
                                     const std::vector<std::string>& accused) {
  const Network& network = *checked.network;
  const std::set<std::string> followers =
      WithWhatFollows(network, changed.operation);
  std::vector<std::string> others;
  std::vector<std::string> observed;
  for (const std::string& name : accused) {
    const auto id = network.FindOperation(name);
    if (followers.contains(name) || !id.ok()) continue;
    others.push_back(name);
    observed.push_back(network.value(network.operation(*id).outputs[0]).name);
  }
  if (others.empty()) return {};
  ValueKeeper sound;
  ValueKeeper wrong;
  if (!RunBy(program, checked, checked.network, observed, &sound).ok() ||
      !RunBy(program, checked, changed.network, observed, &wrong).ok()) {
    return {};
  }
  std::vector<std::string> carried;
  for (size_t i = 0; i < others.size(); ++i) {
    const auto before = sound.values().find(observed[i]);
    const auto after = wrong.values().find(observed[i]);
    if (before == sound.values().end() || after == wrong.values().end()) {
      continue;
    }
    const std::vector<NDArray> expected = {before->second};
    const std::vector<NDArray> found = {after->second};
    if (OutputError({&expected, 1}, {&found, 1}) > kLeastEffect) {
      carried.push_back(others[i]);
    }
  }
  return carried;
}

void Judge(AdapterTrial* trial) {
  using Outcome = AdapterTrial::Outcome;
  if (trial->outcome == Outcome::kFailed) return;
  const std::set<std::string> accused(trial->accused.begin(),
                                      trial->accused.end());
  std::set<std::string> right(trial->carried_into.begin(),
                              trial->carried_into.end());
  if (!trial->operation.empty()) right.insert(trial->operation);
  if (accused == right) {
    trial->outcome = Outcome::kRight;
  } else {
    trial->outcome = accused.empty() ? Outcome::kMissed : Outcome::kWrong;
  }
}

}  // namespace

std::string_view NameOf(AdapterTrial::Outcome outcome) {
  switch (outcome) {
    case AdapterTrial::Outcome::kRight:
      return "right";
    case AdapterTrial::Outcome::kMissed:
      return "missed";
    case AdapterTrial::Outcome::kWrong:
      return "wrong";
    case AdapterTrial::Outcome::kFailed:
      return "failed";
  }
  return "";
}

bool AdapterCheck::IsTrusted() const {
  return std::all_of(trials.begin(), trials.end(),
                     [](const AdapterTrial& trial) {
                       return trial.outcome == AdapterTrial::Outcome::kRight;
                     });
}

absl::StatusOr<ChangedNetwork> ChangeOneOperation(const CheckedNetwork& checked,
                                                  const OpSet& operators,
                                                  uint64_t seed) {
  return ChangeSearch(checked, operators, seed).Run();
}

absl::StatusOr<AdapterCheck> CheckAdapter(
    std::shared_ptr<const NetworkProgram> program,
    const std::vector<CheckedNetwork>& networks, const OpSet& operators,
    const AdapterCheckOptions& options) {
  if (networks.empty()) {
    return absl::InvalidArgumentError(
        "check of an adapter: has no network, expected one at least");
  }
  AdapterCheck check;
  const size_t total = networks.size() + options.faults;
  const auto add = [&](AdapterTrial trial) {
    Judge(&trial);
    check.trials.push_back(std::move(trial));
    if (options.progress) options.progress(check.trials.size(), total);
  };
  for (const CheckedNetwork& checked : networks) {
    add(Searched(*program, checked, checked.network, operators, options,
                 &check.runtime));
  }
  // What a runtime cannot run says nothing of changes in it.
  std::vector<const CheckedNetwork*> run;
  for (size_t i = 0; i < networks.size(); ++i) {
    if (check.trials[i].outcome != AdapterTrial::Outcome::kFailed) {
      run.push_back(&networks[i]);
    }
  }
  if (run.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "ran none of the networks; the first: {}", check.trials[0].why));
  }
  uint64_t seed = options.seed;
  for (size_t i = 0; i < options.faults; ++i) {
    AdapterTrial trial;
    for (int tried = 0; tried < kMostDraws; ++tried) {
      const CheckedNetwork& checked = *run[i % run.size()];
      NODEWISE_ASSIGN_OR_RETURN(const ChangedNetwork changed,
                                ChangeOneOperation(checked, operators, seed++));
      trial = Searched(*program, checked, changed.network, operators, options,
                       &check.runtime);
      trial.operation = changed.operation;
      trial.change = changed.change;
      // A runtime may refuse what a changed operation has become.
      if (trial.outcome == AdapterTrial::Outcome::kFailed) continue;
      const bool is_dropped = trial.accused.empty() &&
                              DropsChange(*program, checked, changed.network);
      if (!is_dropped) {
        trial.carried_into =
            CarriedInto(*program, checked, changed, trial.accused);
        break;
      }
      check.dropped.push_back(trial);
    }
    add(std::move(trial));
  }
  return check;
}

}  // namespace nodewise
