// What was done to a model before it ran: which of its operators are opaque,
// what passes made of it, and what a lower precision costs.

#include "nodewise/report/model_report.h"

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// More lines would hide the rest of the report; the document has all.
constexpr size_t kMostLeftAlone = 20;
constexpr size_t kMostListed = 8;

// The operators are one list in a report and in an inspection, so that a
// program reads both in one way.
void AddOperators(const std::vector<OpaqueOperator>& operators,
                  JsonWriter* json) {
  AddObjects(json, "operators", operators, [&](const auto& each) {
    AddMembers(json, "name", each.name, "operations", each.operations);
  });
}

// The document has all that is opaque, also what the text has no room for.
void AddOpaque(const OpaqueReport& opaque, JsonWriter* json) {
  json->BeginObject("opaque");
  json->Add("program", opaque.program);
  AddOperators(opaque.operators, json);
  AddObjects(json, "missing_outputs", opaque.missing, [&](const auto& output) {
    AddMembers(json, "name", output.name, "because", output.because);
  });
  json->Add("ends", opaque.ends);
  json->EndObject();
}

// Errors are compared by their size, for which three digits are enough.
std::string Number(double x) { return fmt::format("{:.3g}", x); }

// Only products gain much by being computed in integers; other merged
// operations move numbers.
size_t MergedProducts(const PrecisionResult& result) {
  return result.merges.CountOf("QLinearConv") +
         result.merges.CountOf("QLinearMatMul");
}

// Why an operation kept its precision is what a user asks when a model gets no
// faster.
void ShowLeftAlone(const PrecisionResult& result, Report* report) {
  TextTable table;
  const auto& left_alone = result.report.left_alone;
  AddObjects(report, "left_alone", left_alone, [&](const auto& each) {
    const auto& [operation, kind, reason] = each;
    table.AddRow({operation, kind, reason});
    AddMembers(report, "operation", operation, "kind", kind, "reason", reason);
  });
  if (left_alone.empty()) return;
  report->text += "left alone:\n";
  report->text.Add(table, 2, kMostLeftAlone);
}

// There are errors only if samples were given and measuring was asked for,
// since each sample takes two runs of the reference.
void ShowErrors(const PrecisionResult& result, Report* report) {
  if (result.errors.empty()) return;
  TextTable table;
  table.AddRow({"operation", "kind", "max abs", "relative L2"});
  AddObjects(report, "errors", result.errors, [&](const auto& error) {
    table.AddRow({error.operation, error.kind, Number(error.max_abs),
                  Number(error.relative_l2)});
    AddMembers(report, "operation", error.operation, "kind", error.kind,
               "value", error.value, "max_abs", error.max_abs, "relative_l2",
               error.relative_l2);
  });
  AddText(report, "error against float32, over {}:\n",
          CountOf(result.samples, "sample"));
  report->text.Add(table, 2, 0);
}

void ShowRanking(const Sensitivity& found, Report* report) {
  TextTable table;
  table.AddRow({"operation", "kind", "lowered alone"});
  AddObjects(report, "ranking", found.ranking, [&](const auto& each) {
    const auto& [operation, kind, error] = each;
    table.AddRow({operation, kind, Number(error)});
    AddMembers(report, "operation", operation, "kind", kind, "error", error);
  });
  report->text += "relative L2 of the outputs against float32:\n";
  report->text.Add(table, 2, kShownLines + 1);
}

// The ranking says what each operation costs alone; the curve what keeping
// several of them brings, which is not the sum.
void ShowSensitivity(const PrecisionResult& result, Report* report) {
  if (!result.sensitivity.has_value()) return;
  const Sensitivity& found = *result.sensitivity;
  report->json.BeginObject("sensitivity");
  ShowRanking(found, report);
  ShowCurve(found, {"first left alone", "all others lowered"}, &Number, report);
  const std::string keep =
      found.suggested == 0 ? "" : found.KeepExpression(result.keep);
  report->json.Add("suggested_keep", keep);
  report->json.EndObject();
  report->text += keep.empty()
                      ? "no operation stands out: nothing to keep\n"
                      : fmt::format("suggested: {} '{}'\n", NameOf(Way::kKeep),
                                    Printable(keep));
}

}  // namespace

void ShowCurve(const Sensitivity& found, const std::vector<std::string>& titles,
               std::string (*text_of)(double error), Report* report) {
  TextTable table;
  table.AddRow(titles);
  AddObjects(report, "curve", found.curve, [&](const auto& point) {
    table.AddRow({std::to_string(point.kept), text_of(point.error)});
    AddMembers(report, "kept", point.kept, "error", point.error);
  });
  report->text.Add(table, 2, 0);
}

std::string DescribeOpaque(const Network& network, JsonWriter* json) {
  const std::vector<OpaqueOperator> operators = OpaqueOperators(network);
  if (operators.empty()) return "";
  json->BeginObject("opaque");
  AddOperators(operators, json);
  json->EndObject();
  return TextOf(operators);
}

void ShowOpaque(const OpaqueReport& opaque, Report* report) {
  if (opaque.operators.empty()) return;
  AddOpaque(opaque, &report->json);
  AddText(report, "opaque  {}", opaque.text);
  if (!opaque.program.empty()) {
    AddText(report, " (run by {})\n", Printable(opaque.program));
    return;
  }
  AddText(report, " (not run; {} has a program run them)\n",
          NameOf(Way::kOpaqueProgram));
  for (const MissingOutput& output : opaque.missing) {
    AddText(report, "  without output {}, which depends on {}\n",
            Printable(output.name), ListOf(output.because, kMostListed));
  }
  if (!opaque.ends.empty()) {
    AddText(report, "  in its place outputs that these operations read: {}\n",
            ListOf(opaque.ends, kMostListed));
  }
}

// A run that lacks an output has not done what was asked, so that is an error.
void AddMissingOutputs(const OpaqueReport& opaque, Report* report) {
  for (const MissingOutput& output : opaque.missing) {
    report->AddError(Unimplemented(
        "output {}: was not computed, since it depends on what is opaque ({}), "
        "expected a program that runs that ({})",
        Printable(output.name), ListOf(output.because, kMostListed),
        NameOf(Way::kOpaqueProgram)));
  }
}

// Passes are shown in the order in which they ran, with the number of
// operations that each has left, so that one that does nothing is seen.
void ShowPasses(const PassesReport& passes, Report* report) {
  AddObjects(report, "passes", passes.ran, [&](const auto& ran) {
    AddText(report, "pass {}: {}\n{}", ran.pass,
            CountOf(ran.operations, "operation"), ran.text);
    AddMembers(report, "pass", ran.pass, "operations", ran.operations, "report",
               ran.text);
  });
  for (const Finding& finding : passes.left) {
    AddText(report, "warning: {}\n", Printable(LineOf(finding)));
  }
  if (!passes.left.empty()) AddFindings("warnings", passes.left, &report->json);
}

// One line has to do where the answer is about something else.
std::string PrecisionLine(const PrecisionResult& result) {
  std::string line = fmt::format(
      "{}: {} lowered, {} left alone", ToString(result.report.precision),
      CountOf(result.report.changes.size(), "operation"),
      result.report.left_alone.size());
  if (result.report.precision == Precision::kInt8) {
    line += fmt::format(", {} merged into products of integers",
                        MergedProducts(result));
  }
  return line;
}

void ShowPrecision(const PrecisionResult& result, Report* report) {
  report->text += PrecisionLine(result) + '\n';
  report->json.BeginObject("precision");
  AddMembers(report, "name", ToString(result.report.precision), "samples",
             result.samples, "lowered", result.report.changes.size(), "merged",
             MergedProducts(result));
  ShowLeftAlone(result, report);
  ShowErrors(result, report);
  ShowSensitivity(result, report);
  report->json.EndObject();
  AddNotes(result.report.notes, report);
}

}  // namespace nodewise
