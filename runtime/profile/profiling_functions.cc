// The named functions that read and print reports.

#include "fmt/format.h"
#include "nodewise/func/containers.h"
#include "nodewise/module/module.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"
#include "runtime/profile/tvm_report.h"

namespace nodewise {
namespace {

absl::StatusOr<Ref<TvmReport>> TakeReport(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  return arg.AsObject<TvmReport>("a profiling report");
}

absl::StatusOr<bool> TakeFlag(PackedArgs args, int index) {
  // A host of TVM 0.8 has no column sums and leaves this out; TVM's Python
  // package passes true.
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

// Returns a function that calls another and returns what collectors measured:
// an empty map, since there are no collectors.
absl::StatusOr<Value> CallProfiled(const Ref<Module>& module,
                                   const std::string& name, int warm_up,
                                   PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const PackedFunc function,
                            module->FindFunction(name));
  if (!function) {
    return absl::NotFoundError(fmt::format(
        "a module of kind {} has no function {}", module->kind(), name));
  }
  for (int i = 0; i <= warm_up; ++i) {
    NODEWISE_RETURN_IF_ERROR(function.CallPacked(args).status());
  }
  return Value(Ref<Object>(MapObject::Make({})));
}

// (module, function, device type, number, warm-up calls, collectors)
absl::StatusOr<Value> ProfileFunction(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module,
                            args.ObjectAt<Module>(0, "module"));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(1));
  NODEWISE_ASSIGN_OR_RETURN(const int type, args.SmallIntAt(2));
  NODEWISE_ASSIGN_OR_RETURN(const int number, args.SmallIntAt(3));
  NODEWISE_RETURN_IF_ERROR(FindDevice(MakeDevice(type, number)).status());
  NODEWISE_ASSIGN_OR_RETURN(const int warm_up, args.SmallIntAt(4));
  NODEWISE_RETURN_IF_ERROR(RefuseCollectors(args, 5));
  return Value(
      Ref<Object>(PackedFunc::FromBody([module, name = std::string(name),
                                        warm_up](PackedArgs call) {
                    return CallProfiled(module, name, warm_up, call);
                  }).object()));
}

constexpr FunctionRow kProfilingFunctions[] = {
    {"runtime.profiling.ProfileFunction", &ProfileFunction},
    {"runtime.profiling.AsTable", &AsTable},
    {"runtime.profiling.AsCSV", &AsCsv},
    {"runtime.profiling.AsJSON", &AsJson},
    {"runtime.profiling.FromJSON", &FromJson},
};

}  // namespace

absl::Status RefuseCollectors(PackedArgs args, int index) {
  if (index >= args.size()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const ArgView collectors, args.At(index));
  if (collectors.IsNull()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(
      const Ref<ArrayObject> array,
      collectors.AsObject<ArrayObject>("an array of collectors or null"));
  if (array->items().empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("profile: TVM's metric collectors are not supported (use {})",
                  NameOf(Way::kCounters)));
}

absl::Span<const FunctionRow> ProfilingFunctions() {
  return kProfilingFunctions;
}

}  // namespace nodewise
