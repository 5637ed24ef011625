#include <algorithm>

#include "fmt/format.h"
#include "nodewise/autotest/check_adapter.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Computing in a shorter type is told apart: it is how the runtime works, and
// not a fault of an operation.
std::string AccusedOperationsText(const AdapterTrial& trial) {
  if (trial.outcome == AdapterTrial::Outcome::kFailed) return "did not run";
  const std::string accused = ListOf(trial.accused, 3);
  if (trial.precision.empty()) return accused.empty() ? "none" : accused;
  return fmt::format("{}; computes in {}", accused.empty() ? "none" : accused,
                     trial.precision);
}

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

// A trial that names no operation had nothing planted.
size_t CountRight(const AdapterCheck& check, bool has_fault) {
  return static_cast<size_t>(
      std::ranges::count_if(check.trials, [&](const AdapterTrial& each) {
        return each.operation.empty() != has_fault &&
               each.outcome == AdapterTrial::Outcome::kRight;
      }));
}

std::string PlaceText(const AdapterTrial& trial) {
  return fmt::format("{}: {}: {}", trial.network, Printable(trial.operation),
                     Printable(trial.change));
}

void AddDropped(const AdapterCheck& check, Report* report) {
  report->json.BeginArray("dropped");
  for (const AdapterTrial& trial : check.dropped) {
    report->text += fmt::format(
        "{}: not counted: the runtime makes the same with this change as "
        "without it\n",
        PlaceText(trial));
    AddTrial(trial, &report->json);
  }
  report->json.EndArray();
}

// Where a runtime keeps two constants of the model in one place, a change of
// the first is one of the second, too. Neither the runtime nor the search is to
// blame for that, so the report says it.
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

// The whole result is said first, in one sentence, as the document has
// it, too; the table below shows what it rests on.
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
                  AccusedOperationsText(trial),
                  std::string(NameOf(trial.outcome))});
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
