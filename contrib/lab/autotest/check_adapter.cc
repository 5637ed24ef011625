#include "nodewise/autotest/check_adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "contrib/lab/autotest/spoiled_runner.h"
#include "fmt/format.h"
#include "nodewise/align/operation_edits.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/locate/network_locate.h"
#include "nodewise/precision/node_error.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

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
    const auto given =
        std::ranges::find(checked.inputs, name, &NamedTensor::name);
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
  const ValueId by = network->operation(made).outputs[0];
  if (!(network->value(by).type == network->value(output).type)) {
    return absl::InvalidArgumentError("makes another type");
  }
  NODEWISE_RETURN_IF_ERROR(network->ReplaceUses({output}, {by}));
  NODEWISE_RETURN_IF_ERROR(network->Remove(id));
  NODEWISE_RETURN_IF_ERROR(network->Rename(by, name));
  return network->Rename(made, old.name);
}

// Draws a change of one operation, and looks whether it shows: in the
// reference, by the outputs alone, since that is all that a runtime has to be
// told by. An operation none of whose changes shows is drawn no more.
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

// What the program is given.
struct Planted {
  std::shared_ptr<const Network> network;
  std::string operation = {};  // Where the fault is; empty if there is none.
  std::string change = {};
  std::optional<SpoiledResult> spoiling = std::nullopt;
};

Planted Sound(const CheckedNetwork& checked) { return {checked.network}; }

// A spoiled runtime needs two runners: the one that is spoiled, and one that is
// asked for the value that has to be spoiled.
absl::StatusOr<std::unique_ptr<Runner>> MakePlanted(
    const NetworkProgram& program, const CheckedNetwork& checked,
    const Planted& planted, const std::vector<std::string>& observed,
    bool ends_at_each = false) {
  ProgramRequest request{planted.network};
  // A changed network is another one than the file.
  if (planted.network == checked.network) {
    request.model_file = checked.model_file;
  }
  request.observed = observed;
  request.ends_at_each = ends_at_each;
  ProgramRequest of_value = request;
  NODEWISE_ASSIGN_OR_RETURN(auto runner, program.make(std::move(request)));
  if (!planted.spoiling.has_value()) return runner;
  of_value.observed = {planted.spoiling->value};
  NODEWISE_ASSIGN_OR_RETURN(auto asked, program.make(std::move(of_value)));
  return MakeSpoiledRunner(std::move(runner), std::move(asked),
                           *planted.spoiling);
}

// Searches a network in which something may have been planted.
AdapterTrial Searched(const NetworkProgram& program,
                      const CheckedNetwork& checked, const Planted& planted,
                      const OpSet& operators,
                      const AdapterCheckOptions& options,
                      std::string* runtime) {
  NetworkLocateRequest request{
      *checked.network, operators,
      [&](const std::vector<std::string>& observed) {
        return MakePlanted(program, checked, planted, observed);
      },
      ObservableValues(*checked.network), checked.inputs};
  request.by_parts = [&](const std::vector<std::string>& observed) {
    return MakePlanted(program, checked, planted, observed, true);
  };
  LocateOptions locate;
  locate.repeats = 1;
  locate.known = options.known;
  AdapterTrial trial{checked.name, planted.operation, planted.change};
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
    // The spoiled tensor is the result of all of them: the runtime has none of
    // the tensors between.
    if (planted.spoiling.has_value() && !node.covers.empty() &&
        node.covers.back() == planted.operation) {
      trial.judged_with.assign(node.covers.begin(), node.covers.end() - 1);
    }
  }
  return trial;
}

absl::StatusOr<std::vector<NamedTensor>> RunBy(
    const NetworkProgram& program, const CheckedNetwork& checked,
    const Planted& planted, const std::vector<std::string>& observed = {},
    TensorSink* sink = nullptr) {
  RunOptions run;
  run.sink = sink;
  NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                            MakePlanted(program, checked, planted, observed));
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
                 const Planted& changed) {
  const auto before = RunBy(program, checked, Sound(checked));
  const auto after = RunBy(program, checked, changed);
  return before.ok() && after.ok() && !before->empty() &&
         std::equal(before->begin(), before->end(), after->begin(),
                    after->end(), AreSame);
}

// Returns the operation and all that depend on it.
std::set<std::string> WithWhatFollows(const Network& network,
                                      const std::string& operation) {
  std::set<std::string> followers;
  std::set<ValueId> reached;
  for (const OperationId id : network.order()) {
    const Operation& each = network.operation(id);
    const bool follows = each.name == operation ||
                         std::ranges::any_of(each.inputs, [&](ValueId input) {
                           return reached.contains(input);
                         });
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
                                     const Planted& changed,
                                     const std::vector<std::string>& accused) {
  const Network& network = *checked.network;
  const std::set<std::string> followers =
      WithWhatFollows(network, changed.operation);
  std::vector<std::string> others;
  for (const std::string& name : accused) {
    if (!followers.contains(name) && network.HasOperation(name)) {
      others.push_back(name);
    }
  }
  if (others.empty()) return {};
  // All as in the search: a converter makes another program of what is observed
  // elsewhere.
  const auto observed = ObservableValues(network);
  ValueKeeper sound;
  ValueKeeper wrong;
  if (!RunBy(program, checked, Sound(checked), observed, &sound).ok() ||
      !RunBy(program, checked, changed, observed, &wrong).ok()) {
    return {};
  }
  std::vector<std::string> carried;
  for (const std::string& name : others) {
    const Operation& operation =
        network.operation(*network.FindOperation(name));
    const std::string& value = network.value(operation.outputs[0]).name;
    const auto before = sound.values().find(value);
    const auto after = wrong.values().find(value);
    if (before == sound.values().end() || after == wrong.values().end()) {
      continue;
    }
    const std::vector<NDArray> expected = {before->second};
    const std::vector<NDArray> found = {after->second};
    if (OutputError({&expected, 1}, {&found, 1}) > kLeastEffect) {
      carried.push_back(name);
    }
  }
  return carried;
}

// Draws what is planted next: a change of the model, or where that does not
// reach the runtime, other numbers in the place of one of the values that it
// hands out.
absl::StatusOr<Planted> Draw(const NetworkProgram& program,
                             const CheckedNetwork& checked,
                             const OpSet& operators, bool spoils,
                             uint64_t seed) {
  if (!spoils) {
    NODEWISE_ASSIGN_OR_RETURN(const ChangedNetwork changed,
                              ChangeOneOperation(checked, operators, seed));
    return Planted{changed.network, changed.operation, changed.change};
  }
  ValueKeeper keeper;
  NODEWISE_RETURN_IF_ERROR(RunBy(program, checked, Sound(checked),
                                 ObservableValues(*checked.network), &keeper)
                               .status());
  std::set<std::string> values;
  for (const auto& [name, tensor] : keeper.values()) values.insert(name);
  NODEWISE_ASSIGN_OR_RETURN(SpoiledResult spoiling,
                            DrawSpoiling(checked, values, kLeastEffect, seed));
  Planted planted = Sound(checked);
  planted.operation = spoiling.operation;
  planted.change = spoiling.what;
  planted.spoiling = std::move(spoiling);
  return planted;
}

bool WasPlanted(const AdapterCheck& check, const CheckedNetwork& checked,
                const Planted& planted) {
  return std::ranges::any_of(check.trials, [&](const AdapterTrial& trial) {
    return trial.network == checked.name &&
           trial.operation == planted.operation &&
           trial.change == planted.change;
  });
}

// Right is what accuses all that has a reason to be accused and nothing else; a
// trial in which nothing was planted has no such operation.
void Judge(AdapterTrial* trial) {
  using Outcome = AdapterTrial::Outcome;
  if (trial->outcome == Outcome::kFailed) return;
  const std::set<std::string> accused(trial->accused.begin(),
                                      trial->accused.end());
  std::set<std::string> right(trial->carried_into.begin(),
                              trial->carried_into.end());
  right.insert(trial->judged_with.begin(), trial->judged_with.end());
  if (!trial->operation.empty()) right.insert(trial->operation);
  if (accused == right) {
    trial->outcome = Outcome::kRight;
  } else {
    trial->outcome = accused.empty() ? Outcome::kMissed : Outcome::kWrong;
  }
}

std::string AccusedText(const AdapterTrial& trial) {
  if (trial.outcome == AdapterTrial::Outcome::kFailed) return "did not run";
  const std::string accused = ListOf(trial.accused, 3);
  if (trial.precision.empty()) return accused.empty() ? "none" : accused;
  return fmt::format("{}; computes in {}", accused.empty() ? "none" : accused,
                     trial.precision);
}

// Members that say nothing of this trial are left out.
void AddTrial(const AdapterTrial& trial, JsonWriter* json) {
  json->BeginObject();
  json->Add("network", trial.network);
  if (!trial.operation.empty()) {
    json->Add("operation", trial.operation);
    json->Add("change", trial.change);
  }
  json->Add("outcome", NameOf(trial.outcome));
  json->Add("accused", trial.accused);
  if (!trial.carried_into.empty()) {
    json->Add("carried_into", trial.carried_into);
  }
  if (!trial.judged_with.empty()) json->Add("judged_with", trial.judged_with);
  if (!trial.precision.empty()) json->Add("precision", trial.precision);
  if (!trial.why.empty()) json->Add("reason", trial.why);
  json->EndObject();
}

// How many trials had something planted, or not, and came out right.
size_t CountRight(const AdapterCheck& check, bool has_fault) {
  return static_cast<size_t>(
      std::ranges::count_if(check.trials, [&](const AdapterTrial& each) {
        return each.operation.empty() != has_fault &&
               each.outcome == AdapterTrial::Outcome::kRight;
      }));
}

// "network: operation: change"
std::string PlaceText(const AdapterTrial& trial) {
  return fmt::format("{}: {}: {}", trial.network, Printable(trial.operation),
                     Printable(trial.change));
}

void AddDropped(const AdapterCheck& check, Report* report) {
  report->json.BeginArray("dropped");
  for (const AdapterTrial& trial : check.dropped) {
    report->text += fmt::format(
        "{}: not counted: the runtime makes the same with this change as "
        "without "
        "it\n",
        PlaceText(trial));
    AddTrial(trial, &report->json);
  }
  report->json.EndArray();
}

void ShowCarried(const AdapterCheck& check, ReportText* text) {
  for (const AdapterTrial& trial : check.trials) {
    if (trial.carried_into.empty()) continue;
    *text += fmt::format(
        "{}: the runtime carries this change into {}, of which it makes "
        "something else than without the change\n",
        PlaceText(trial), ListOf(trial.carried_into, 3));
  }
}

}  // namespace

std::string_view NameOf(AdapterTrial::Outcome outcome) {
  constexpr std::string_view kNames[] = {"right", "missed", "wrong", "failed"};
  return kNames[static_cast<size_t>(outcome)];
}

bool AdapterCheck::IsTrusted() const {
  return std::ranges::count(trials, AdapterTrial::Outcome::kRight,
                            &AdapterTrial::outcome) == std::ssize(trials);
}

absl::StatusOr<ChangedNetwork> ChangeOneOperation(const CheckedNetwork& checked,
                                                  const OpSet& operators,
                                                  uint64_t seed) {
  return ChangeSearch(checked, operators, seed).Run();
}

// The networks as they are come first, since they name the runtime, and show
// which of them it runs at all. Faults go through these in turns. A draw that
// the runtime refuses or drops is drawn again with the next seed, a few times;
// the last one counts in any case, so that a runtime which drops everything is
// not trusted.
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
    add(Searched(*program, checked, Sound(checked), operators, options,
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
      NODEWISE_ASSIGN_OR_RETURN(
          const Planted planted,
          Draw(*program, checked, operators, options.spoils, seed++));
      // A file of few values would have the same one spoiled again and again.
      const bool may_repeat = !options.spoils || tried + 1 == kMostDraws;
      if (!may_repeat && WasPlanted(check, checked, planted)) continue;
      trial = Searched(*program, checked, planted, operators, options,
                       &check.runtime);
      // A runtime may refuse what a changed operation has become.
      if (trial.outcome == AdapterTrial::Outcome::kFailed) continue;
      if (options.spoils) break;
      if (!trial.accused.empty() || !DropsChange(*program, checked, planted)) {
        trial.carried_into =
            CarriedInto(*program, checked, planted, trial.accused);
        break;
      }
      check.dropped.push_back(trial);
    }
    add(std::move(trial));
  }
  return check;
}

Report ReportOf(const AdapterCheck& check, const AdapterCheckOptions& options) {
  Report report;
  if (!check.IsTrusted()) report.status = Report::Status::kDiffers;
  const auto changed =
      check.trials.size() - static_cast<size_t>(std::ranges::count(
                                check.trials, "", &AdapterTrial::operation));
  const size_t sound = check.trials.size() - changed;
  const std::string said = fmt::format(
      "{}: {} of {} sound networks accuse no operation, and {} of {} {} "
      "operations are named and no other{}.",
      check.runtime.empty() ? "the runtime" : Printable(check.runtime),
      CountRight(check, false), sound, CountRight(check, true), changed,
      options.spoils ? "spoiled" : "changed",
      options.spoils ? "; whether the runtime has the model that it is judged "
                       "by was not tried with a change of it"
                     : "");
  report.text += said + "\n\n";
  report.json.Add("said", said);
  report.json.Add("runtime", check.runtime);
  report.json.Add("seed", options.seed);
  TextTable table;
  table.AddRow({"Network", "Changed", "Accused", ""});
  report.json.BeginArray("trials");
  for (const AdapterTrial& trial : check.trials) {
    table.AddRow({trial.network,
                  trial.operation.empty()
                      ? "nothing"
                      : fmt::format("{}: {}", Printable(trial.operation),
                                    Printable(trial.change)),
                  AccusedText(trial), std::string(NameOf(trial.outcome))});
    AddTrial(trial, &report.json);
  }
  report.json.EndArray();
  report.text.Add(table, 0, 0);
  AddDropped(check, &report);
  ShowCarried(check, &report.text);
  for (const AdapterTrial& trial : check.trials) {
    if (trial.why.empty()) continue;
    report.text += fmt::format("{}: {}\n", trial.network, Printable(trial.why));
  }
  return report;
}

}  // namespace nodewise
