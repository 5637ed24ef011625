#include "apps/nodewise/foreign_run.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/compare/compare.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

absl::StatusOr<std::vector<TensorComparison>> CompareWithUnseen(
    absl::Span<const NamedTensor> seen, absl::Span<const NamedTensor> unseen) {
  std::vector<TensorComparison> compared;
  for (size_t i = 0; i < seen.size(); ++i) {
    const TensorKey key{unseen[i].name};
    TensorItem item{key};
    item.tensor = unseen[i].tensor.tensor();
    CompareOptions options;
    options.rule = {Rule::Kind::kByType};
    NODEWISE_ASSIGN_OR_RETURN(TensorComparison output,
                              CompareTensors(item, *seen[i].tensor, options));
    compared.push_back(std::move(output));
  }
  return compared;
}

std::string TextOf(const std::vector<TensorComparison>& compared) {
  const auto differing = std::count_if(
      compared.begin(), compared.end(),
      [](const TensorComparison& output) { return !output.is_equal(); });
  if (differing == 0) {
    return "outputs: equal to those of a run that nobody looked into";
  }
  std::string text = fmt::format(
      "outputs: {} of {} differ from those of a run that nobody looked into",
      differing, CountOf(compared.size(), "output"));
  for (const TensorComparison& output : compared) {
    if (output.is_equal()) continue;
    text += fmt::format("\n  {}: {}, by {:.3g} at most", output.key.Name(),
                        output.judgement.reason,
                        output.metrics.largest_error.error);
  }
  return text;
}

}  // namespace

absl::StatusOr<RunResult> RunForeign(const LoadedForeign& loaded,
                                     const ForeignTarget& target,
                                     const RunOptions& options) {
  RunnerTarget made;
  made.name = target.name;
  made.foreign = std::make_shared<const ForeignTarget>(target);
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf("foreign", std::move(made)));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  auto result = runner->Run(loaded.NamedInputs(), options);
  if (!result.ok()) return At(target.name, result.status());
  return result;
}

void ShowUnseenCheck(absl::Span<const NamedTensor> seen,
                     absl::Span<const NamedTensor> unseen, Outcome* outcome) {
  const auto compared = CompareWithUnseen(seen, unseen);
  if (!compared.ok()) return outcome->AddError(compared.status());
  const std::string text = TextOf(*compared);
  outcome->text += text + "\n";
  outcome->json.BeginObject("unseen_run");
  outcome->json.Add("equal", std::all_of(compared->begin(), compared->end(),
                                         [](const TensorComparison& output) {
                                           return output.is_equal();
                                         }));
  outcome->json.Add("text", text);
  outcome->json.EndObject();
  const bool is_wrong = std::any_of(
      compared->begin(), compared->end(),
      [](const TensorComparison& output) { return output.is_wrong(); });
  if (is_wrong && outcome->status == Outcome::Status::kOk) {
    outcome->status = Outcome::Status::kDiffers;
  }
}

}  // namespace nodewise
