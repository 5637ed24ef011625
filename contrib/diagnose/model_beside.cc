// A compiled network beside its model, or another build, run with the same
// inputs.

#include "nodewise/diagnose/model_beside.h"

#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/align/build_network.h"
#include "nodewise/align/similar_inputs.h"
#include "nodewise/runner/bind_sizes.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The target's inputs by the names that the network has for them.
std::vector<NamedTensor> InputsOfNetwork(const Session& target,
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
                     NetworkBeside* beside) {
  const InputList& compiled = target.target->inputs();
  const auto list = ListInputs(network);
  auto pairs = PairInputs(compiled, *list);
  if (!pairs.ok()) return At(beside->name, pairs.status());
  beside->inputs = *std::move(pairs);
  std::vector<std::string> needed;
  for (size_t i = 0; i < compiled.size(); ++i) {
    if (compiled.IsNeeded(i)) needed.push_back(compiled.Name(i));
  }
  for (const size_t i : PairsByPlace(compiled, *list, beside->inputs)) {
    beside->notes.push_back(fmt::format(
        "input {} is taken for {} of {}, by its place and its type: none there "
        "has its name",
        Printable(needed[i]), Printable(list->Name(beside->inputs[i])),
        beside->name));
  }
  return absl::OkStatus();
}

absl::StatusOr<Network> NetworkOf(const TargetSpec& model,
                                  DiagnosticList* diagnostics,
                                  std::vector<std::string>* notes) {
  if (model.network != nullptr) return *model.network;
  DiagnosticList found;
  auto network = LoadModel(model.path, model.model, &found);
  for (Diagnostic& diagnostic : found.items()) {
    if (network.ok()) {
      notes->push_back(diagnostic.ToString());
    } else {
      diagnostics->Add(std::move(diagnostic));
    }
  }
  return network;
}

}  // namespace

absl::StatusOr<NetworkBeside> ModelFor(const Session& target,
                                       const TargetSpec& model,
                                       DiagnosticList* diagnostics) {
  NetworkBeside beside;
  beside.name = model.path.empty() ? "the model" : model.path;
  NODEWISE_ASSIGN_OR_RETURN(Network network,
                            NetworkOf(model, diagnostics, &beside.notes));
  NODEWISE_RETURN_IF_ERROR(PairAll(target, network, &beside));
  BindSizes(InputsOfNetwork(target, network, beside.inputs), &network);
  auto opaque = TakeOpaque(model.model, &network);
  if (!opaque.ok()) return At(beside.name, opaque.status());
  beside.opaque = *std::move(opaque);
  beside.network = std::make_shared<const Network>(std::move(network));
  return beside;
}

absl::StatusOr<NetworkBeside> BuildFor(const Session& target,
                                       const Session& build) {
  NetworkBeside beside;
  beside.name = build.name;
  NODEWISE_ASSIGN_OR_RETURN(Network network, NetworkOfBuild(build.target));
  NODEWISE_RETURN_IF_ERROR(PairAll(target, network, &beside));
  beside.network = std::make_shared<const Network>(std::move(network));
  return beside;
}

std::string NameOfSet(const SetsOfInputs& sets, size_t set) {
  if (set == 0) return "the given inputs";
  return set < sets.sets ? "inputs drawn like them"
                         : "inputs with NaN and infinities";
}

absl::StatusOr<std::vector<RecordedPair>> RecordBoth(
    const Session& target, const NetworkBeside& beside,
    const SetsOfInputs& sets) {
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker compiled,
                            MakerOf("debug", {target.name, target.target}));
  NODEWISE_ASSIGN_OR_RETURN(
      const RunnerMaker network,
      MakerOf("interpreter", {beside.name, nullptr, beside.network}));
  NODEWISE_ASSIGN_OR_RETURN(const auto compiled_runner, compiled());
  NODEWISE_ASSIGN_OR_RETURN(const auto network_runner, network());
  const std::vector<NamedTensor> given =
      InputsOfNetwork(target, *beside.network, beside.inputs);
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
        RecordPair(compiled_runner.get(), network_runner.get(), beside.inputs,
                   inputs));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

absl::StatusOr<AlignAnswer> AlignWith(const Session& target,
                                      const Reference& reference, uint64_t sets,
                                      DiagnosticList* diagnostics) {
  AlignAnswer answer;
  answer.target = target;
  if (reference.kind == Reference::Kind::kModel) {
    NODEWISE_ASSIGN_OR_RETURN(answer.beside,
                              ModelFor(target, reference.spec, diagnostics));
  } else {
    NODEWISE_ASSIGN_OR_RETURN(
        const Session build,
        OpenReference(target, reference.spec, diagnostics));
    NODEWISE_ASSIGN_OR_RETURN(answer.beside, BuildFor(target, build));
    answer.notes = build.notes;
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<RecordedPair> pairs,
      RecordBoth(target, answer.beside,
                 {sets, target.seed.value_or(1), /*has_special=*/false}));
  NODEWISE_ASSIGN_OR_RETURN(
      answer.alignment,
      Align(target.target->index(), *answer.beside.network, pairs));
  return answer;
}

}  // namespace nodewise
