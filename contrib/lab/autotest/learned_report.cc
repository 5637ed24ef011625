#include "nodewise/autotest/learned_report.h"

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/autotest/learn_deviations.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

void ShowRows(const LearnedOperator& one, TextTable* table, Report* report) {
  for (const KnownDeviation& row : one.rows) {
    table->AddRow({one.operation, one.dtype, fmt::format("{}", one.judged),
                   fmt::format("{}", one.deviating), WordsOf(row)});
    report->json.BeginObject();
    report->json.Add("operator", one.operation);
    report->json.Add("dtype", one.dtype);
    report->json.Add("judged", one.judged);
    report->json.Add("deviating", one.deviating);
    report->json.Add("kind", NameOf(row.kind));
    if (!row.type.empty()) report->json.Add("type", row.type);
    if (HasTimes(row.kind)) report->json.Add("bound", row.times);
    report->json.EndObject();
  }
}

void ShowFault(const LearnedOperator& one, Report* report) {
  report->text += fmt::format("fault: {} of {}: {}\n", one.operation, one.dtype,
                              Printable(one.fault));
  report->json.BeginObject();
  report->json.Add("operator", one.operation);
  report->json.Add("dtype", one.dtype);
  report->json.Add("judged", one.judged);
  report->json.Add("deviating", one.deviating);
  report->json.Add("reason", one.fault);
  report->json.EndObject();
}

}  // namespace

Report ReportOf(const Learned& learned, const LearnOptions& options,
                const std::string& file) {
  Report report;
  report.text +=
      fmt::format("{} on {}: {} of operators and types, seed {}\n\n",
                  Printable(learned.known.runtime), learned.known.instructions,
                  CountOf(learned.sets, "set"), options.seed);
  report.json.Add("runtime", learned.known.runtime);
  report.json.Add("instructions", learned.known.instructions);
  report.json.Add("seed", options.seed);
  report.json.Add("sets", learned.sets);
  TextTable table;
  table.AddRow({"Operator", "Type", "Sets", "Deviate", "Is"});
  report.json.BeginArray("known");
  for (const LearnedOperator& one : learned.operators) {
    ShowRows(one, &table, &report);
  }
  report.json.EndArray();
  if (!learned.known.rows.empty()) {
    report.text.Add(table, 0, 0);
    report.text += "\n";
  }
  report.json.BeginArray("faults");
  for (const LearnedOperator& one : learned.operators) {
    if (one.fault.empty()) continue;
    ShowFault(one, &report);
    report.status = Report::Status::kDiffers;
  }
  report.json.EndArray();
  if (!learned.refused.empty()) {
    report.text += fmt::format("not run: {}\n", ListOf(learned.refused, 8));
  }
  report.json.Add("refused", learned.refused);
  report.text +=
      fmt::format("{}{}\n", CountOf(learned.known.rows.size(), "row"),
                  file.empty() ? ""
                               : fmt::format(" in {}, for {}", Printable(file),
                                             NameOf(Way::kKnownFile)));
  return report;
}

}  // namespace nodewise
