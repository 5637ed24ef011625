// Searches between two models of one network, whose graphs differ.

#include <algorithm>
#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/align/similar_inputs.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/precision/node_error.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"
#include "nodewise/two_models/compare_models.h"

namespace nodewise {
namespace {

constexpr std::string_view kDid =
    "the models differ, so their values were paired by their names and "
    "numbers, and each layer of one was run in the place of the other's";
// A layer that costs less of the error is not worth naming as a culprit.
constexpr double kLeastOfError = 0.05;

// The target's inputs in the order of its network, by set.
absl::StatusOr<std::vector<std::vector<NDArray>>> SetsFor(
    const Question& question) {
  const Session& session = question.target;
  std::vector<std::vector<NamedTensor>> named = {session.NamedInputs()};
  for (uint64_t set = 1; set < question.input_sets.value_or(1); ++set) {
    NODEWISE_ASSIGN_OR_RETURN(
        auto drawn, DrawSimilar(named[0], session.seed.value_or(1) + set));
    named.push_back(std::move(drawn));
  }
  std::vector<std::vector<NDArray>> sets;
  for (const std::vector<NamedTensor>& set : named) {
    sets.emplace_back();
    for (const ValueId id : session.network->inputs()) {
      const std::string& name = session.network->value(id).name;
      const auto found = std::find_if(
          set.begin(), set.end(),
          [&](const NamedTensor& tensor) { return tensor.name == name; });
      if (found == set.end()) {
        return absl::InvalidArgumentError(
            fmt::format("{}: input {}: is not given, expected a tensor",
                        session.name, Printable(name)));
      }
      sets.back().push_back(found->tensor);
    }
  }
  return sets;
}

// Models are compared by the definitions of their operators. Where something
// else runs one, how far that is from the definitions is a question of its own.
absl::Status AddProgramNote(const Session& session,
                            const std::vector<NDArray>& inputs,
                            const ModelComparison& compared, Answer* answer) {
  if (session.program == nullptr) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(
      const auto runner,
      MakeNetworkRunner(session, std::vector<std::string>()));
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < inputs.size(); ++i) {
    named.push_back(
        {session.network->value(session.network->inputs()[i]).name, inputs[i]});
  }
  auto run = runner->Run(named);
  if (!run.ok()) return At(session.name, run.status());
  NODEWISE_ASSIGN_OR_RETURN(auto expected, Interpret(*session.network, inputs));
  std::vector<NDArray> found;
  for (NamedTensor& output : run->outputs) {
    found.push_back(std::move(output.tensor));
  }
  const double error = OutputError({&expected, 1}, {&found, 1});
  answer->notes.push_back(fmt::format(
      "{} differs from the definitions of its own model by {:.2g} of the "
      "outputs' size{}",
      session.name, error,
      error > compared.error / 4
          ? ": that is part of the difference, and a search in it alone says "
            "where it comes from"
          : ", which is not where the models differ"));
  return absl::OkStatus();
}

std::string ReasonFor(const ModelLayer& layer,
                      const ModelComparison& compared) {
  std::string reason = fmt::format(
      "alone it puts the outputs off by {:.2g} of their size", layer.alone);
  if (layer.left.has_value()) {
    reason += fmt::format(
        "; with it alone as in the reference {:.2g} of {:.2g} "
        "is left",
        *layer.left, compared.error);
  }
  return reason;
}

void NameCulprits(const ModelComparison& compared, const Network& reference,
                  Answer* answer) {
  for (const ModelLayer& layer : compared.layers) {
    const bool is_first = answer->culprits.empty();
    if (!is_first && layer.alone < kLeastOfError * compared.error) break;
    NamedCulprit culprit;
    culprit.kind = compared.lowered.empty() ? "differs" : "costs accuracy";
    for (const OperationId id : layer.reference) {
      culprit.operations.push_back(reference.operation(id).name);
    }
    culprit.finding = MakeFinding(
        compared.lowered.empty() ? verdict_kinds::kDiffers
                                 : verdict_kinds::kCostsAccuracy,
        NodePlace{NodeId{Index(layer.reference.back())}, layer.name,
                  fmt::format("{} ({})", Printable(layer.name), layer.kind)},
        ReasonFor(layer, compared));
    culprit.finding.numbers.push_back({"alone", layer.alone});
    answer->culprits.push_back(std::move(culprit));
  }
}

}  // namespace

bool AreOneGraph(const Network& a, const Network& b) {
  if (a.order().size() != b.order().size()) return false;
  const auto have_same_names = [&](absl::Span<const ValueId> x,
                                   absl::Span<const ValueId> y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](ValueId one, ValueId other) {
                        if (one == kNoValue || other == kNoValue) {
                          return one == other;
                        }
                        return a.value(one).name == b.value(other).name;
                      });
  };
  if (!have_same_names(a.inputs(), b.inputs()) ||
      !have_same_names(a.outputs(), b.outputs())) {
    return false;
  }
  for (size_t i = 0; i < a.order().size(); ++i) {
    const Operation& one = a.operation(a.order()[i]);
    const Operation& other = b.operation(b.order()[i]);
    if (one.kind() != other.kind() ||
        !have_same_names(one.outputs, other.outputs)) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<std::shared_ptr<const Network>> NetworkOfReference(
    const Question& question, Answer* answer) {
  const TargetSpec& spec = question.reference.spec;
  if (spec.network != nullptr) return spec.network;
  DiagnosticList faults;
  auto network = LoadModel(spec.path, spec.model, &faults);
  if (answer->AddDoubts(faults)) return std::shared_ptr<const Network>();
  NODEWISE_RETURN_IF_ERROR(network.status());
  return std::make_shared<const Network>(*std::move(network));
}

absl::Status SearchTwoModels(const Question& question,
                             std::shared_ptr<const Network> reference,
                             Answer* answer) {
  answer->search = Search::kModels;
  answer->did = kDid;
  NODEWISE_ASSIGN_OR_RETURN(auto sets, SetsFor(question));
  const Session& session = question.target;
  ModelComparisonRequest request{*reference, *session.network, std::move(sets)};
  request.progress = ProgressOf(question, "layers");
  auto compared = CompareModels(request);
  if (!compared.ok()) return At(session.name, compared.status());
  AddNotes(compared->notes, answer);
  NODEWISE_RETURN_IF_ERROR(
      AddProgramNote(session, request.inputs[0], *compared, answer));
  if (compared->AreOutputsWrong()) {
    answer->state = Answer::State::kWrong;
    NameCulprits(*compared, *reference, answer);
  }
  ModelsEvidence evidence;
  evidence.name = question.reference.spec.path;
  evidence.reference = std::move(reference);
  evidence.target = session.network;
  evidence.compared = *std::move(compared);
  answer->evidence.models = std::move(evidence);
  DoubtGivenNan(session.NamedInputs(), answer);
  return absl::OkStatus();
}

}  // namespace nodewise
