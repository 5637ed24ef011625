#include "apps/nodewise/aligned_model.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/align/build_network.h"
#include "nodewise/align/similar_inputs.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/bind_sizes.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The target's inputs by the names that the model has for them.
std::vector<NamedTensor> InputsOfModel(const Session& target,
                                       const Network& network,
                                       absl::Span<const size_t> pairs) {
  std::vector<NamedTensor> inputs;
  for (size_t i = 0; i < target.inputs.size() && i < pairs.size(); ++i) {
    inputs.push_back({network.value(network.inputs()[pairs[i]]).name,
                      target.inputs[i].tensor});
  }
  return inputs;
}

absl::Status PairAll(const Session& target, const Network& network,
                     ModelOfTarget* model) {
  const InputList& compiled = target.target->inputs();
  const auto list = ListInputs(network);
  auto pairs = PairInputs(compiled, *list);
  if (!pairs.ok()) return At(model->path, pairs.status());
  model->inputs = *std::move(pairs);
  std::vector<std::string> needed;
  for (size_t i = 0; i < compiled.size(); ++i) {
    if (compiled.IsNeeded(i)) needed.push_back(compiled.Name(i));
  }
  for (const size_t i : PairsByPlace(compiled, *list, model->inputs)) {
    model->notes.push_back(fmt::format(
        "input {} is taken for {} of {}, by its place and its type: none there "
        "has its name",
        Printable(needed[i]), Printable(list->Name(model->inputs[i])),
        model->path));
  }
  return absl::OkStatus();
}

}  // namespace

void ShowPairs(const ModelOfTarget& model, Outcome* outcome) {
  for (const std::string& note : model.notes) outcome->notes.push_back(note);
}

absl::StatusOr<ModelOfTarget> LoadModelOf(const Session& target,
                                          const std::string& path,
                                          const ModelOptions& options,
                                          Outcome* outcome) {
  ModelOfTarget model;
  model.path = path;
  NODEWISE_ASSIGN_OR_RETURN(const ModelSpec spec, SpecOf(options));
  DiagnosticList diagnostics;
  auto network = LoadModel(path, spec, &diagnostics);
  if (!network.ok()) {
    if (!diagnostics.HasErrors()) return network.status();
    outcome->AddErrors(diagnostics);
    return model;
  }
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    outcome->notes.push_back(diagnostic.ToString());
  }
  NODEWISE_RETURN_IF_ERROR(PairAll(target, *network, &model));
  BindSizes(InputsOfModel(target, *network, model.inputs), &*network);
  auto opaque = TakeOpaque(spec, &*network);
  if (!opaque.ok()) return At(path, opaque.status());
  model.opaque = *std::move(opaque);
  model.network = std::make_shared<const Network>(*std::move(network));
  return model;
}

absl::StatusOr<ModelOfTarget> BuildAsModel(const Session& target,
                                           const Session& build) {
  ModelOfTarget model;
  model.path = build.target->name();
  NODEWISE_ASSIGN_OR_RETURN(Network network, NetworkOfBuild(build.target));
  NODEWISE_RETURN_IF_ERROR(PairAll(target, network, &model));
  model.network = std::make_shared<const Network>(std::move(network));
  return model;
}

void AddSetsOption(OptionList* options, std::optional<uint64_t>* sets) {
  constexpr uint64_t kMostSets = 100;
  options->AddNumber("--sets", "N",
                     "how many sets of inputs a compiled network and its model "
                     "both run with: the given one, and others drawn like it "
                     "(2)",
                     {sets, 1, kMostSets});
}

std::string NameOfSet(const SetsOfInputs& sets, size_t set) {
  if (set == 0) return "the given inputs";
  return set < sets.sets ? "inputs drawn like them"
                         : "inputs with NaN and infinities";
}

absl::StatusOr<std::vector<RecordedPair>> RecordBoth(const Session& target,
                                                     const ModelOfTarget& model,
                                                     const SetsOfInputs& sets) {
  const std::string& name = target.target->name();
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker compiled,
                            MakerOf("debug", {name, target.target}));
  NODEWISE_ASSIGN_OR_RETURN(
      const RunnerMaker network,
      MakerOf("interpreter", {model.path, nullptr, model.network}));
  NODEWISE_ASSIGN_OR_RETURN(const auto compiled_runner, compiled());
  NODEWISE_ASSIGN_OR_RETURN(const auto network_runner, network());
  const std::vector<NamedTensor> given =
      InputsOfModel(target, *model.network, model.inputs);
  std::vector<NamedTensor> inputs = given;
  std::vector<RecordedPair> pairs;
  for (uint64_t set = 0; set < sets.sets + (sets.has_special ? 1 : 0); ++set) {
    if (set == sets.sets) {
      NODEWISE_ASSIGN_OR_RETURN(inputs,
                                WithSpecialNumbers(inputs, sets.seed + set));
    } else if (set > 0) {
      NODEWISE_ASSIGN_OR_RETURN(inputs, DrawSimilar(given, sets.seed + set));
    }
    NODEWISE_ASSIGN_OR_RETURN(
        RecordedPair pair,
        RecordPair(compiled_runner.get(), network_runner.get(), model.inputs,
                   inputs));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

absl::StatusOr<ValueLocateResult> LocateInRecorded(
    const GraphIndex& index, const Network& network,
    const std::vector<RecordedPair>& pairs, std::vector<ValueId> open) {
  NODEWISE_ASSIGN_OR_RETURN(Alignment alignment, Align(index, network, pairs));
  alignment.open = std::move(open);
  return LocateByValue(index, network, pairs, alignment, AllOperators());
}

absl::StatusOr<ValueLocateResult> LocateBeside(const Session& target,
                                               const ModelOfTarget& model,
                                               const SetsOfInputs& sets) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<RecordedPair> pairs,
                            RecordBoth(target, model, sets));
  return LocateInRecorded(target.target->index(), *model.network, pairs,
                          model.opaque.open);
}

}  // namespace nodewise
