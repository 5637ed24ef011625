#include "nodewise/report/run_report.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "nodewise/compare/compare.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kFirstValues = 8;

std::string TextOf(const NamedTensor& output, const TensorSummary& summary) {
  std::string text =
      fmt::format("output  {}  {}\n", Printable(output.name),
                  TypeToString(output.tensor.shape(), output.tensor.dtype()));
  if (summary.has_numbers) {
    text += fmt::format("  min {}  max {}  mean {}", ShortNumber(summary.min),
                        ShortNumber(summary.max), ShortNumber(summary.mean));
    text += fmt::format("  NaN {}  Inf {}\n", summary.nans, summary.infinities);
  }
  text += "  values";
  for (const std::string& value : summary.first) {
    text += " " + ShortNumber(value);
  }
  const auto elements = NumElements(output.tensor.shape()).value_or(0) *
                        output.tensor.dtype().lanes;
  const bool has_more = static_cast<size_t>(elements) > summary.first.size();
  return text + (has_more ? " ...\n" : elements == 0 ? " none\n" : "\n");
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

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

std::string UnseenText(const std::vector<TensorComparison>& compared) {
  const auto differing = std::count_if(
      compared.begin(), compared.end(),
      [](const TensorComparison& output) { return !output.is_equal(); });
  if (differing == 0) {
    return "outputs: equal to those of a run that was not looked into";
  }
  std::string text = fmt::format(
      "outputs: {} of {} differ from those of a run that was not looked into",
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

void ShowOutputs(const std::vector<NamedTensor>& outputs, Report* report) {
  const DefaultFloatEnvironment floats;
  report->json.BeginArray("outputs");
  for (const NamedTensor& output : outputs) {
    const TensorSummary summary = SummariseTensor(*output.tensor, kFirstValues);
    report->text += TextOf(output, summary);
    report->json.BeginObject();
    report->json.Add("name", output.name);
    report->json.Add("dtype", ToString(output.tensor.dtype()));
    report->json.Add("shape", output.tensor.shape());
    report->json.Add("bytes", uint64_t{output.tensor.bytes()});
    AddSummary(summary, &report->json);
    report->json.AddScalars("first", summary.first);
    report->json.EndObject();
  }
  report->json.EndArray();
}

void ShowTimes(absl::Span<const int64_t> durations_ns, Report* report) {
  std::vector<double> milliseconds;
  for (const int64_t duration : durations_ns) {
    milliseconds.push_back(static_cast<double>(duration) * 1e-6);
  }
  const size_t runs = milliseconds.size();
  const double min =
      *std::min_element(milliseconds.begin(), milliseconds.end());
  const double median = Median(std::move(milliseconds));
  report->text += runs == 1 ? fmt::format("ran in {:.3f} ms\n", min)
                            : fmt::format(
                                  "ran {} times in {:.3f} ms (median; min "
                                  "{:.3f} ms)\n",
                                  runs, median, min);
  report->json.BeginObject("time");
  report->json.Add("runs", uint64_t{runs});
  report->json.Add("median_ms", median);
  report->json.Add("min_ms", min);
  report->json.EndObject();
}

void ShowUnseenCheck(absl::Span<const NamedTensor> seen,
                     absl::Span<const NamedTensor> unseen, Report* report) {
  const auto compared = CompareWithUnseen(seen, unseen);
  if (!compared.ok()) return report->AddError(compared.status());
  const std::string text = UnseenText(*compared);
  report->text += text + "\n";
  report->json.BeginObject("unseen_run");
  report->json.Add("equal", std::all_of(compared->begin(), compared->end(),
                                        [](const TensorComparison& output) {
                                          return output.is_equal();
                                        }));
  report->json.Add("text", text);
  report->json.EndObject();
  const bool is_wrong = std::any_of(
      compared->begin(), compared->end(),
      [](const TensorComparison& output) { return output.is_wrong(); });
  if (is_wrong && report->status == Report::Status::kOk) {
    report->status = Report::Status::kDiffers;
  }
}

void ShowForeignDump(const ForeignDump& dump, Report* report) {
  report->json.Add("entries", dump.entries);
  report->json.Add("tensor_bytes", dump.tensor_bytes);
  report->json.Add("dumps", dump.folders);
  for (const std::string& folder : dump.folders) {
    report->text += fmt::format("dump    {}: {}, {}\n", Printable(folder),
                                CountOf(dump.entries, "tensor"),
                                CountOf(dump.tensor_bytes, "byte"));
  }
  report->notes.insert(report->notes.end(), dump.notes.begin(),
                       dump.notes.end());
  ShowUnseenCheck(dump.seen, dump.unseen, report);
}

}  // namespace nodewise
