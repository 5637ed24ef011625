// Searches with several builds of a network, by their functions.

#include <optional>
#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/locate/mix_builds.h"
#include "nodewise/locate/series.h"
#include "nodewise/locate/side_difference.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Returns the inputs of a target for another build of it: those of the same
// names, or in the same places if the types agree.
absl::StatusOr<std::vector<RunInput>> InputsLike(const Session& target,
                                                 const GraphTarget& build) {
  const InputList& wanted = build.inputs();
  const std::vector<NamedTensor> given = target.NamedInputs();
  std::vector<RunInput> inputs;
  size_t place = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted.IsNeeded(i)) continue;
    const NamedTensor* found = nullptr;
    for (const NamedTensor& tensor : given) {
      if (tensor.name == wanted.Name(i)) found = &tensor;
    }
    const bool fits_place =
        place < given.size() && IsOfType(given[place].tensor, wanted.Type(i));
    if (found == nullptr && fits_place) found = &given[place];
    if (found == nullptr) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: input {}: {} has none of this name, or in its place and of its "
          "type",
          build.name(), wanted.Name(i), target.name));
    }
    inputs.push_back({i, target.name, found->tensor});
    ++place;
  }
  return inputs;
}

}  // namespace

absl::StatusOr<Session> OpenReference(const Session& target,
                                      const TargetSpec& spec,
                                      DiagnosticList* diagnostics) {
  TargetSpec opened = spec;
  if (opened.inputs.files.empty() && opened.inputs.tensors.empty()) {
    opened.inputs.tensors = target.NamedInputs();
  }
  InputFiles files;
  NODEWISE_ASSIGN_OR_RETURN(Session session,
                            OpenWithoutInputs(opened, &files, diagnostics));
  if (session.target == nullptr) return session;
  NODEWISE_ASSIGN_OR_RETURN(session.inputs,
                            InputsLike(target, *session.target));
  return session;
}

absl::StatusOr<std::optional<Session>> OpenBuild(const Question& question,
                                                 const TargetSpec& spec,
                                                 std::string_view side,
                                                 Answer* answer) {
  DiagnosticList faults;
  auto session = OpenReference(question.target, spec, &faults);
  if (answer->AddDoubts(faults)) return std::nullopt;
  if (!session.ok()) return At(side, session.status());
  return std::optional<Session>(*std::move(session));
}

bool AreSidesAlike(const GraphTarget& target, const GraphTarget& reference,
                   Answer* answer) {
  const Artefact& expected = reference.artefact();
  const Artefact& found = target.artefact();
  auto differences = CompareSides({expected.graph, expected.params},
                                  {found.graph, found.params});
  const bool are_alike = differences.empty();
  if (!are_alike) answer->state = Answer::State::kWrong;
  answer->evidence.differences = std::move(differences);
  return are_alike;
}

absl::Status SearchByMixing(const Question& question, const Session& reference,
                            Answer* answer) {
  const Session& target = question.target;
  MixOptions options;
  options.node_limit_ms =
      question.node_limit_ms.value_or(options.node_limit_ms);
  options.progress = ProgressOf(question, "locate");
  const std::vector<NamedTensor> inputs = target.NamedInputs();
  auto result = MixBuilds(target.target, reference.target, inputs, options);
  if (!result.ok()) return At(target.name, result.status());
  answer->evidence.index = IndexOf(target.target);
  TakeLocated(result->located, /*judged_all=*/false, answer);
  if (result->is_in_storage) {
    answer->state = Answer::State::kWrong;
    answer->doubts.clear();
  }
  answer->evidence.mixed = *std::move(result);
  DoubtGivenNan(inputs, answer);
  return absl::OkStatus();
}

absl::Status SearchInSeries(const Question& question, Answer* answer) {
  const std::vector<TargetSpec>& specs = question.reference.builds;
  const Session& first = question.target;
  if (first.network != nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is a model, expected builds of one",
                    NameOf(Way::kSeries), first.name));
  }
  const auto open = [&](size_t build) -> absl::StatusOr<Session> {
    DiagnosticList faults;
    auto session = OpenReference(first, specs[build], &faults);
    NODEWISE_RETURN_IF_ERROR(faults.ToStatus());
    return session;
  };
  std::vector<SeriesBuild> builds;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string& name =
        specs[i].library.empty() ? specs[i].path : specs[i].library;
    answer->evidence.builds.push_back(name);
    builds.push_back(
        {name,
         [&open, i]() -> absl::StatusOr<std::shared_ptr<const GraphTarget>> {
           NODEWISE_ASSIGN_OR_RETURN(const Session session, open(i));
           return session.target;
         }});
  }
  SeriesOptions options;
  options.progress = ProgressOf(question, "builds");
  const std::vector<NamedTensor> given = first.NamedInputs();
  NODEWISE_ASSIGN_OR_RETURN(const SeriesResult found,
                            FindFirstBad(builds, given, options));
  answer->evidence.series = found;
  if (!found.first_bad.has_value()) {
    DoubtGivenNan(given, answer);
    return absl::OkStatus();
  }
  answer->state = Answer::State::kWrong;
  NODEWISE_ASSIGN_OR_RETURN(const Session good, open(found.last_good));
  NODEWISE_ASSIGN_OR_RETURN(Session bad, open(*found.first_bad));
  if (!AreSidesAlike(*bad.target, *good.target, answer)) {
    return absl::OkStatus();
  }
  Question mixed = question;
  mixed.target = std::move(bad);
  return SearchByMixing(mixed, good, answer);
}

}  // namespace nodewise
