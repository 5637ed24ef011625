#include "nodewise/autotest/check_adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "contrib/lab/autotest/candidates/run_executor.h"
#include "contrib/lab/autotest/networks/case_network.h"
#include "nodewise/align/operation_edits.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/locate/network_locate.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/precision/sensitivity.h"
#include "nodewise/random/random.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {
namespace {

using Names = std::vector<std::string>;

// How much a change must matter to an output to be worth looking for: more than
// computing in bfloat16 does.
constexpr double kLeastEffect = 0.05;
// Operations, and changes of each, that are tried until one shows.
constexpr size_t kMostTried = 200;
// Changes that are drawn until the runtime takes one.
constexpr int kMostDraws = 8;

// A fault planted in a runtime that has a file of its own, so that no change of
// the model reaches it: what one operation makes is exchanged for other
// numbers, and all that depends on it is computed from these.
struct SpoiledResult {
  std::string operation;
  std::string value;  // What the operation makes.
  std::string what;   // "its result 1.25 times as large".
  std::function<absl::StatusOr<NDArray>(const NDArray&)> spoil;
};

struct ValueKeeper : public TensorSink {
  absl::Status Consume(const TensorItem& item) override {
    if (item.tensor == nullptr) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(values[std::string(item.key.node)], item.Keep());
    return absl::OkStatus();
  }

  std::map<std::string, NDArray> values;
};

// More than any rounding, also in the shortest types.
absl::StatusOr<NDArray> Scaled(const NDArray& value) {
  constexpr float kFactor = 1.25F;
  NODEWISE_ASSIGN_OR_RETURN(NDArray spoiled, value.CopyToHost());
  float* const elements = spoiled.As<float>();
  const size_t count = spoiled.bytes() / sizeof(float);
  for (size_t i = 0; i < count; ++i) elements[i] *= kFactor;
  return spoiled;
}

// Has only numbers that were there before, so that indices stay indices.
absl::StatusOr<NDArray> Reversed(const NDArray& value) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray from, value.CopyToHost());
  NODEWISE_ASSIGN_OR_RETURN(NDArray spoiled, value.CopyToHost());
  const size_t size = ElementBytes(value.dtype());
  const size_t count = spoiled.bytes() / size;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(spoiled.As<uint8_t>() + i * size,
                from.As<uint8_t>() + (count - 1 - i) * size, size);
  }
  return spoiled;
}

// Scaling needs floats, while elements of any type can be reversed, unless
// several of them share a byte.
std::vector<SpoiledResult> SpoilingsOf(const Operation& operation,
                                       const NetworkValue& value) {
  std::vector<SpoiledResult> all;
  if (value.type.dtype == kFloat32) {
    all.push_back(
        {operation.name, value.name, "its result 1.25 times as large", Scaled});
  }
  if (value.type.dtype.bits % 8 == 0) {
    all.push_back({operation.name, value.name,
                   "its result with its elements in reverse order", Reversed});
  }
  return all;
}

std::vector<NDArray> TensorsIn(const std::vector<NamedTensor>& named) {
  std::vector<NDArray> tensors;
  for (const NamedTensor& each : named) tensors.push_back(each.tensor);
  return tensors;
}

// A runtime that makes something wrong in the middle passes it on to all
// behind, so a value is exchanged by a patch: what follows is computed from it,
// and the sink is shown the wrong value in the place of the right one.
class SpoiledRunner : public Runner {
 public:
  SpoiledRunner(std::unique_ptr<Runner> runner, std::unique_ptr<Runner> asked,
                SpoiledResult spoiling)
      : runner_(std::move(runner)),
        asked_(std::move(asked)),
        spoiling_(std::move(spoiling)) {}

  const std::string& name() const override { return runner_->name(); }
  const InputList& inputs() const override { return runner_->inputs(); }
  const Names& outputs() const override { return runner_->outputs(); }
  bool Can(Capability capability) const override {
    return runner_->Can(capability);
  }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override {
    std::vector<NamedTensor> given;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined()) continue;
      given.push_back({inputs().Key(i), std::move(tensors[i])});
    }
    if (std::ranges::count(options.patches, spoiling_.value,
                           &TensorPatch::entry) > 0) {
      return runner_->Run(given, options);
    }
    NODEWISE_ASSIGN_OR_RETURN(const NDArray spoiled,
                              SpoiledIn(given, options.patches));
    RunOptions run = options;
    run.patches.push_back({spoiling_.value, spoiled, "", "a planted fault"});
    SpoilingSink sink(spoiling_.value, spoiled, options.sink);
    if (options.sink != nullptr) run.sink = &sink;
    return runner_->Run(given, run);
  }

 private:
  class SpoilingSink : public TensorSink {
   public:
    SpoilingSink(const std::string& value, const NDArray& spoiled,
                 TensorSink* next)
        : value_(value), spoiled_(spoiled), next_(next) {}
    absl::Status Consume(const TensorItem& item) override {
      if (item.key.node != value_) return next_->Consume(item);
      TensorItem shown{item.key};
      shown.tensor = spoiled_.tensor();
      shown.lasting = spoiled_;
      return next_->Consume(shown);
    }

   private:
    const std::string& value_;
    const NDArray& spoiled_;
    TensorSink* next_;
  };

  // Returns what the value would be with these inputs and patches, spoiled. The
  // other runner gets the same patches: an operation before the fault may be
  // exchanged, too.
  absl::StatusOr<NDArray> SpoiledIn(const std::vector<NamedTensor>& given,
                                    const std::vector<TensorPatch>& patches) {
    ValueKeeper keeper;
    RunOptions run;
    run.sink = &keeper;
    run.patches = patches;
    run.select = [&](const std::string& node) {
      return node == spoiling_.value;
    };
    NODEWISE_RETURN_IF_ERROR(asked_->Run(given, run).status());
    const auto found = keeper.values.find(spoiling_.value);
    if (found == keeper.values.end()) {
      return Unavailable(
          "{}: has not handed out {}, expected it for a planted fault",
          asked_->name(), spoiling_.value);
    }
    return spoiling_.spoil(found->second);
  }

  const std::unique_ptr<Runner> runner_;
  const std::unique_ptr<Runner> asked_;  // For the spoiled value.
  const SpoiledResult spoiling_;
};

// Draws spoilings until one shows in what the reference makes: the runtime
// itself is not asked, since each of its runs may take long.
class SpoilingSearch {
 public:
  SpoilingSearch(const CheckedNetwork& checked, uint64_t seed)
      : checked_(checked), random_(seed, checked.name) {}

  absl::StatusOr<SpoiledResult> Run(const std::set<std::string>& values) {
    ValueKeeper keeper;
    RunOptions run;
    run.sink = &keeper;
    NODEWISE_ASSIGN_OR_RETURN(auto sound,
                              reference_->Run(checked_.inputs, run));
    expected_ = TensorsIn(sound.outputs);
    std::vector<SpoiledResult> all = All(values);
    while (!all.empty()) {
      const auto chosen = all.begin() + random_.Between(0, std::ssize(all) - 1);
      const auto known = keeper.values.find(chosen->value);
      if (known != keeper.values.end() && Shows(*chosen, known->second)) {
        return *chosen;
      }
      all.erase(chosen);
    }
    return NotFound(
        "{}: no value that the runtime hands out changes an output when it is "
        "spoiled, expected one to plant a fault in",
        checked_.name);
  }

 private:
  // Outputs cannot be exchanged: nothing reads them.
  std::vector<SpoiledResult> All(const std::set<std::string>& values) const {
    const Network& network = *checked_.network;
    const auto outputs = network.outputs();
    std::vector<SpoiledResult> all;
    for (const OperationId id : network.order()) {
      for (const ValueId output : OutputsOf(network.operation(id))) {
        const NetworkValue& value = network.value(output);
        if (std::ranges::count(outputs, output) > 0 ||
            !values.contains(value.name)) {
          continue;
        }
        std::ranges::move(SpoilingsOf(network.operation(id), value),
                          std::back_inserter(all));
      }
    }
    return all;
  }

  bool Shows(const SpoiledResult& spoiling, const NDArray& value) const {
    auto spoiled = spoiling.spoil(value);
    if (!spoiled.ok()) return false;
    RunOptions run;
    run.patches = {{spoiling.value, *spoiled, "", "a planted fault"}};
    const auto made = reference_->Run(checked_.inputs, run);
    if (!made.ok()) return false;
    const std::vector<NDArray> found = TensorsIn(made->outputs);
    const double effect = OutputError({&expected_, 1}, {&found, 1});
    return effect > kLeastEffect && std::isfinite(effect);
  }

  const CheckedNetwork& checked_;
  RandomSource random_;
  const std::unique_ptr<Runner> reference_ =
      MakeNetworkRunner("reference", checked_.name, checked_.network);
  std::vector<NDArray> expected_;
};

absl::StatusOr<std::vector<NDArray>> RunOn(const CheckedNetwork& checked,
                                           const Network& network) {
  std::vector<NDArray> inputs;
  for (const ValueId id : network.inputs()) {
    const std::string& name = network.value(id).name;
    const auto at = std::ranges::find(checked.inputs, name, &NamedTensor::name);
    if (at == checked.inputs.end()) {
      return InvalidArgument("{}: input {}: is not given, expected a tensor",
                             checked.name, Printable(name));
    }
    inputs.push_back(at->tensor);
  }
  return Interpret(network, std::move(inputs));
}

// The names stay, so that the changed operation is found under that of the old
// one.
absl::Status Apply(const OperationEdit& edit, OperationId id,
                   Network* network) {
  const Operation old = network->operation(id);
  NewOperation changed{edit.attrs, {}};
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
    return InvalidArgument("makes another type");
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
    NODEWISE_ASSIGN_OR_RETURN(expected_, RunOn(checked_, *checked_.network));
    std::vector<OperationId> order(checked_.network->order().begin(),
                                   checked_.network->order().end());
    for (size_t tried = 0; tried < kMostTried && !order.empty();) {
      const auto chosen = order.begin() + random_.Between(0, order.size() - 1);
      const std::optional<ChangedNetwork> found = Try(*chosen, &tried);
      if (found.has_value()) return *found;
      order.erase(chosen);
    }
    return NotFound(
        "{}: no mistake in one operation changes its outputs, expected one to "
        "plant",
        checked_.name);
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

  // None if the change cannot be made, or does not show. An output of another
  // shape or type would be noticed without any search.
  std::optional<ChangedNetwork> Shown(const OperationEdit& edit,
                                      OperationId id) const {
    Network changed = *checked_.network;
    const std::string name = changed.operation(id).name;
    if (!Apply(edit, id, &changed).ok()) return std::nullopt;
    const auto found = RunOn(checked_, changed);
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
    const Planted& planted, const Names& observed, bool ends_at_each = false) {
  // The model file holds the network without the change.
  const bool is_file = planted.network == checked.network;
  ProgramRequest request{planted.network, is_file ? checked.model_file : "",
                         observed, ends_at_each};
  ProgramRequest of_value = request;
  NODEWISE_ASSIGN_OR_RETURN(auto runner, program.make(std::move(request)));
  if (!planted.spoiling.has_value()) return runner;
  of_value.observed = {planted.spoiling->value};
  NODEWISE_ASSIGN_OR_RETURN(auto asked, program.make(std::move(of_value)));
  return std::make_unique<SpoiledRunner>(std::move(runner), std::move(asked),
                                         *planted.spoiling);
}

AdapterTrial Searched(const NetworkProgram& program,
                      const CheckedNetwork& checked, const Planted& planted,
                      const OpSet& operators,
                      const AdapterCheckOptions& options,
                      std::string* runtime) {
  NetworkLocateRequest request{
      *checked.network, operators,
      [&](const Names& observed) {
        return MakePlanted(program, checked, planted, observed);
      },
      ObservableValues(*checked.network), checked.inputs};
  request.by_parts = [&](const Names& observed) {
    return MakePlanted(program, checked, planted, observed, true);
  };
  const LocateOptions locate{.repeats = 1, .known = options.known};
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
    // A runtime that joins several operations has no tensor between them, so
    // that all are judged by the spoiled one, the result of the last.
    if (planted.spoiling.has_value() && !node.covers.empty() &&
        node.covers.back() == planted.operation) {
      trial.judged_with.assign(node.covers.begin(), node.covers.end() - 1);
    }
  }
  return trial;
}

absl::StatusOr<std::vector<NamedTensor>> RunBy(const NetworkProgram& program,
                                               const CheckedNetwork& checked,
                                               const Planted& planted,
                                               const Names& observed = {},
                                               TensorSink* sink = nullptr) {
  NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                            MakePlanted(program, checked, planted, observed));
  RunOptions run;
  run.sink = sink;
  NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner->Run(checked.inputs, run));
  return std::move(result.outputs);
}

bool AreSame(const NamedTensor& a, const NamedTensor& b) {
  return a.name == b.name && a.tensor.shape() == b.tensor.shape() &&
         a.tensor.dtype() == b.tensor.dtype() &&
         HasEqualBytes(a.tensor, b.tensor);
}

// Whether the runtime makes the same of a network that was changed, to the last
// bit: a converter may drop the attribute that the change is in. There is
// nothing to be named then, however right the search is.
bool DropsChange(const NetworkProgram& program, const CheckedNetwork& checked,
                 const Planted& changed) {
  const auto before = RunBy(program, checked, Sound(checked));
  const auto after = RunBy(program, checked, changed);
  return before.ok() && after.ok() && !before->empty() &&
         std::ranges::equal(*before, *after, AreSame);
}

std::set<std::string> WithDependents(const Network& network,
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
Names CarriedInto(const NetworkProgram& program, const CheckedNetwork& checked,
                  const Planted& changed, const Names& accused) {
  const Network& network = *checked.network;
  const std::set<std::string> followers =
      WithDependents(network, changed.operation);
  Names others;
  for (const std::string& name : accused) {
    if (!followers.contains(name) && network.HasOperation(name)) {
      others.push_back(name);
    }
  }
  if (others.empty()) return {};
  // Observes the values that the search does, since a converter may make
  // another program where others are observed.
  const auto observed = ObservableValues(network);
  ValueKeeper sound;
  ValueKeeper wrong;
  if (!RunBy(program, checked, Sound(checked), observed, &sound).ok() ||
      !RunBy(program, checked, changed, observed, &wrong).ok()) {
    return {};
  }
  Names carried;
  for (const std::string& name : others) {
    const Operation& one = network.operation(*network.FindOperation(name));
    const std::string& value = network.value(one.outputs[0]).name;
    const auto before = sound.values.find(value);
    const auto after = wrong.values.find(value);
    if (before == sound.values.end() || after == wrong.values.end()) {
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
  for (const auto& [name, tensor] : keeper.values) values.insert(name);
  NODEWISE_ASSIGN_OR_RETURN(const auto spoiling,
                            SpoilingSearch(checked, seed).Run(values));
  return Planted{checked.network, spoiling.operation, spoiling.what, spoiling};
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
    return InvalidArgument(
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
  // A network that the runtime cannot run says nothing of changes in it.
  std::vector<const CheckedNetwork*> run;
  for (size_t i = 0; i < networks.size(); ++i) {
    if (check.trials[i].outcome != AdapterTrial::Outcome::kFailed) {
      run.push_back(&networks[i]);
    }
  }
  if (run.empty()) {
    return FailedPrecondition("ran none of the networks; the first: {}",
                              check.trials[0].why);
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

}  // namespace nodewise
