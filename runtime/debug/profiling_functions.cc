// The named functions that read and print reports.

#include "nodewise/support/status_macros.h"
#include "runtime/debug/tvm_report.h"

namespace nodewise {
namespace {

absl::StatusOr<Ref<TvmReport>> TakeReport(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  return arg.AsObject<TvmReport>("a profiling report");
}

absl::StatusOr<bool> TakeFlag(PackedArgs args, int index) {
  // Missing at a host of TVM 0.8, which has no column sums to ask for; true is
  // what TVM's Python package passes.
  if (index >= args.size()) return true;
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(index));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t flag, arg.AsInt());
  return flag != 0;
}

// (report, sort, aggregate, column sums)
absl::StatusOr<Value> AsTable(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<TvmReport> report, TakeReport(args));
  NODEWISE_ASSIGN_OR_RETURN(const bool sort, TakeFlag(args, 1));
  NODEWISE_ASSIGN_OR_RETURN(const bool aggregate, TakeFlag(args, 2));
  NODEWISE_ASSIGN_OR_RETURN(const bool col_sums, TakeFlag(args, 3));
  return Value(ReportTable(*report, sort, aggregate, col_sums));
}

absl::StatusOr<Value> AsCsv(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<TvmReport> report, TakeReport(args));
  return Value(ReportCsv(*report));
}

absl::StatusOr<Value> AsJson(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<TvmReport> report, TakeReport(args));
  return Value(ReportJson(*report));
}

// (text) -> report
absl::StatusOr<Value> FromJson(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, arg.AsString());
  NODEWISE_ASSIGN_OR_RETURN(Ref<TvmReport> report, ParseReport(text));
  return Value(Ref<Object>(std::move(report)));
}

constexpr FunctionRow kRows[] = {
    {"runtime.profiling.AsTable", &AsTable},
    {"runtime.profiling.AsCSV", &AsCsv},
    {"runtime.profiling.AsJSON", &AsJson},
    {"runtime.profiling.FromJSON", &FromJson},
};

}  // namespace

absl::Span<const FunctionRow> ProfilingFunctions() { return kRows; }

}  // namespace nodewise
