// Searches between two models of one network, whose graphs differ.
//
// Operations of two models need not go together one by one, so values are
// paired, by their names and by their numbers, and what lies between pairs is a
// layer. What a layer costs is known from running it in the place of the other
// model's.

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/align/similar_inputs.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/precision/sensitivity.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file.h"
#include "nodewise/two_models/compare_models.h"

namespace nodewise {
namespace {

constexpr std::string_view kDidOnTensors =
    "nothing of the target was run: its tensors were paired with the model's "
    "values by their names and numbers, and each was compared with what the "
    "model makes of those before it";
// A layer that costs less of the error is not worth naming as a culprit.
constexpr double kLeastOfError = 0.05;

// The target's inputs in the order of its network, by set.
// One set shows where models differ; more of them make sure that a layer is not
// right by chance.
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
    for (const std::string& name :
         ValueNames(*session.network, session.network->inputs())) {
      const auto found = std::ranges::find(set, name, &NamedTensor::name);
      if (found == set.end()) {
        return InvalidArgument("{}: input {}: is not given, expected a tensor",
                               session.name, Printable(name));
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
  auto run = runner->Run(session.NamedInputs());
  if (!run.ok()) return At(session.name, run.status());
  NODEWISE_ASSIGN_OR_RETURN(auto expected, Interpret(*session.network, inputs));
  std::vector<NDArray> found;
  for (NamedTensor& output : run->outputs) {
    found.push_back(std::move(output.tensor));
  }
  const double error = OutputError({&expected, 1}, {&found, 1});
  const bool is_part = compared.AreOutputsWrong() && error > compared.error / 4;
  answer->notes.push_back(fmt::format(
      "{} differs from the definitions of its own model by {:.2g} of the "
      "outputs' size{}",
      session.name, error,
      is_part ? ": that is part of the difference, and a search in it alone "
                "says where it comes from"
              : ", which is not where the models differ"));
  return absl::OkStatus();
}

// Both ways of measuring are told: alone among right layers, and repaired among
// wrong ones.
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

// A layer is not a node, but readers of answers know nodes: its place has the
// number of the last operation in it and the name that the layer is known by.
void NameCulprit(const ModelLayer& layer, const ModelComparison& compared,
                 const Network& reference, std::string reason, Answer* answer) {
  const bool is_lowered = !compared.lowered.empty();
  Finding finding = MakeFinding(
      is_lowered ? verdict_kinds::kCostsAccuracy : verdict_kinds::kDiffers,
      NodePlace{NodeId{Index(layer.reference.back())}, layer.name,
                fmt::format("{} ({})", Printable(layer.name), layer.kind)},
      std::move(reason), {{"alone", layer.alone}});
  answer->culprits.push_back({std::move(finding),
                              is_lowered ? "costs accuracy" : "differs",
                              OperationNames(reference, layer.reference),
                              {}});
}

// Whether two networks are one but for the numbers of their items.
struct SameModel {
  const Network& left;
  const Network& right;

  bool Holds() const {
    if (left.order().size() != right.order().size() ||
        !AreAlike(left.inputs(), right.inputs())) {
      return false;
    }
    for (size_t i = 0; i < left.order().size(); ++i) {
      const Operation& one = left.operation(left.order()[i]);
      const Operation& other = right.operation(right.order()[i]);
      if (!HaveOneForm(one.attrs, other.attrs) ||
          !AreAlike(one.inputs, other.inputs) ||
          !AreAlike(one.outputs, other.outputs)) {
        return false;
      }
    }
    return AreAlike(left.outputs(), right.outputs());
  }

  // Bodies are networks of their own, which two files never share.
  static bool HaveOneForm(const OpAttrs& a, const OpAttrs& b) {
    if (&a.def() != &b.def() || a == b) return a == b;
    for (const AttrField& field : a.def().fields) {
      const std::optional<AttrValue> one = field.get(a.get());
      const std::optional<AttrValue> other = field.get(b.get());
      if (one.has_value() != other.has_value()) return false;
      if (one.has_value() && !IsOne(*one, *other)) return false;
    }
    return true;
  }

  static bool IsOne(const AttrValue& a, const AttrValue& b) {
    if (a.index() != b.index()) return false;
    return std::visit(
        [&](const auto& one) {
          using Value = std::decay_t<decltype(one)>;
          const Value& other = std::get<Value>(b);
          if constexpr (std::is_same_v<Value, Subgraph>) {
            return one.captures == other.captures &&
                   SameModel{*one.body, *other.body}.Holds();
          } else if constexpr (std::is_same_v<Value, NDArray>) {
            return HaveOneContent(one, other);
          } else {
            return one == other;
          }
        },
        a);
  }

  bool AreAlike(absl::Span<const ValueId> a,
                absl::Span<const ValueId> b) const {
    return std::ranges::equal(a, b, [this](ValueId one, ValueId other) {
      if (one == kNoValue || other == kNoValue) return one == other;
      return IsAlike(left.value(one), right.value(other));
    });
  }

  // Constants are compared by their bytes: how they are called makes no
  // difference to what a model computes.
  static bool IsAlike(const NetworkValue& one, const NetworkValue& other) {
    if (one.kind != other.kind || !(one.type == other.type)) return false;
    if (one.kind != NetworkValue::Kind::kConstant) {
      return one.name == other.name;
    }
    return HaveOneContent(one.data, other.data);
  }
};

}  // namespace

// The target is a file of tensors, and has no graph.
// Nothing can be run in the place of anything else here, so layers have errors
// of their own and no costs.
absl::Status SearchTensorsBesideModel(const Question& question,
                                      Answer* answer) {
  answer->search = Search::kModels;
  answer->did = kDidOnTensors;
  NODEWISE_ASSIGN_OR_RETURN(auto reference,
                            NetworkOfReference(question, answer));
  if (reference == nullptr) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> tensors,
                            ReadTensorFile(question.target.dump));
  auto compared = CompareWithTensors(*reference, tensors);
  if (!compared.ok()) return At(question.target.dump, compared.status());
  if (compared->pairing.pairs.size() <= reference->inputs().size()) {
    answer->AddDoubt(
        FailedPrecondition("no tensor but the inputs is one of the model, by "
                           "its name or its numbers"));
  }
  if (!compared->layers.empty()) answer->state = Answer::State::kWrong;
  for (const ModelLayer& layer : compared->layers) {
    NameCulprit(layer, *compared, *reference,
                fmt::format("is off by {:.2g} of its size from what the model "
                            "makes of the tensors before it",
                            layer.own_error),
                answer);
  }
  answer->evidence.models = {question.reference.spec.path, reference, nullptr,
                             *std::move(compared)};
  return absl::OkStatus();
}

// Paths may differ in spelling or be links, so that the file system is asked.
bool IsOwnFile(const Question& question) {
  const std::string& reference = question.reference.spec.path;
  if (reference.empty()) return false;
  const Session& target = question.target;
  for (const std::string* const file : {&target.name, &target.model_file}) {
    std::error_code ignored;
    if (std::filesystem::equivalent(*file, reference, ignored)) return true;
  }
  return false;
}

// Operations are compared in their order, in which an exporter writes one model
// twice the same way.
bool AreOneModel(const Network& a, const Network& b) {
  // In another opset an operation may mean something else.
  return a.data().opsets == b.data().opsets && SameModel{a, b}.Holds();
}

// Null is told apart from an error: the answer then has the faults as doubts.
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

// All sets of inputs are for the comparison; the program runs on the first
// alone.
absl::Status SearchTwoModels(const Question& question,
                             std::shared_ptr<const Network> reference,
                             Answer* answer) {
  answer->search = Search::kModels;
  answer->did = kTwoModelsWords;
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
    for (const ModelLayer& layer : compared->layers) {
      const bool is_first = answer->culprits.empty();
      if (!is_first && layer.alone < kLeastOfError * compared->error) break;
      NameCulprit(layer, *compared, *reference, ReasonFor(layer, *compared),
                  answer);
    }
  }
  answer->evidence.models = {question.reference.spec.path, std::move(reference),
                             session.network, *std::move(compared)};
  AddNanInputDoubt(session.NamedInputs(), answer);
  return absl::OkStatus();
}

}  // namespace nodewise
