// The times of operations that ran alone, beside that of the whole model.

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nodewise/report/profile_report.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// A sum of zero comes from operations of which none could be timed.
std::string ShareOf(double us, double sum_us) {
  return fmt::format("{:.1f} %", sum_us > 0 ? 100 * us / sum_us : 0.0);
}

// An operation without a time stays in the table with the reason, at its end,
// so that the table has every operation.
TextTable RowsOf(std::vector<OperationTime> operations, double sum_us) {
  std::ranges::stable_sort(operations, std::greater<>(), &OperationTime::us);
  TextTable table;
  table.AddRow({"operation", "kind", "alone (us)", "share"});
  for (const OperationTime& each : operations) {
    const bool is_timed = each.why_not.empty();
    table.AddRow({each.name, each.kind,
                  is_timed ? fmt::format("{:.2f}", each.us) : "-",
                  is_timed ? ShareOf(each.us, sum_us) : each.why_not});
  }
  return table;
}

// Kinds say more of a large model than hundreds of rows.
TextTable KindsOf(const std::vector<OperationTime>& operations, double sum_us) {
  std::map<std::string, std::pair<double, size_t>> by_kind;
  for (const OperationTime& each : operations) {
    auto& [us, count] = by_kind[each.kind];
    us += each.us;
    ++count;
  }
  std::vector<std::pair<std::string, std::pair<double, size_t>>> kinds(
      by_kind.begin(), by_kind.end());
  std::ranges::stable_sort(kinds, std::greater<>(),
                           [](const auto& kind) { return kind.second.first; });
  TextTable table;
  table.AddRow({"kind", "operations", "alone (us)", "share"});
  for (const auto& [kind, time] : kinds) {
    table.AddRow({kind, std::to_string(time.second),
                  fmt::format("{:.2f}", time.first),
                  ShareOf(time.first, sum_us)});
  }
  return table;
}

// Operations that are fused, kept in a layout or in a cache cost more alone;
// those that run beside something else cost less.
std::string VerdictOn(const ProgramTimes& times) {
  const double ratio = times.plain_us > 0 ? times.sum_us / times.plain_us : 0;
  if (ratio > 1.1) {
    return "more than the plain run: it fuses operations, or saves on calls "
           "and copies that each of them makes alone";
  }
  if (ratio < 0.9) {
    return "less than the plain run: some of its time is in no operation, or "
           "caches serve one better than all";
  }
  return "as much as the plain run";
}

}  // namespace

// The two sums stand below one another, since their difference is the question
// that this answers: whether time is lost between the operations.
void ShowOperationTimes(const ProgramTimes& times, size_t most,
                        Report* report) {
  report->text += "\n";
  report->text.Add(RowsOf(times.operations, times.sum_us), 0,
                   most == 0 ? 0 : most + 1);
  report->text += "\n";
  report->text.Add(KindsOf(times.operations, times.sum_us));
  AddText(report,
          "\nplain run   {:.2f} us{}\noperations  {:.2f} us  sum of {}, each "
          "alone: {}\n",
          times.plain_us, times.runtime.empty() ? "" : "  " + times.runtime,
          times.sum_us,
          CountOf(times.operations.size() - times.CountUntimed(), "operation"),
          VerdictOn(times));
  if (times.CountUntimed() > 0) {
    report->notes.push_back(
        fmt::format("{} could not be timed alone",
                    CountOf(times.CountUntimed(), "operation")));
  }
  JsonWriter& json = report->json;
  json.BeginObject("operations_alone");
  AddMembers(&json, "plain_us", times.plain_us, "sum_us", times.sum_us);
  AddObjects(&json, "operations", times.operations, [&](const auto& each) {
    AddMembers(&json, "name", each.name, "kind", each.kind, "us",
               OptionalIf(each.why_not.empty(), each.us), "why_not",
               IfAny{each.why_not});
  });
  json.EndObject();
}

}  // namespace nodewise
