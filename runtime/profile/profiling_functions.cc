#include <utility>

#include "nodewise/func/containers.h"
#include "nodewise/module/module.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "runtime/profile/tvm_report.h"

namespace nodewise {

// Reports as objects that a host makes and takes apart: TVM's Python package
// asks for `report.calls`, or builds a report of figures of its own.

namespace {

using Cell = TvmReport::Cell;
using Row = TvmReport::Row;

// TVM's types for the values of a report, by the index of the variant; text has
// no type of its own.
struct CellType {
  std::string_view key;
  uint32_t index;
};
constexpr CellType kCellTypes[] = {
    {"runtime.profiling.Duration", kDurationType},
    {"runtime.profiling.Percent", kPercentType},
    {"runtime.profiling.Ratio", kRatioType},
    {"runtime.profiling.Count", kCountType}};

// A value of a report that is a number of some unit. Hosts hold such values,
// compare their types by name and read their one attribute.
struct CellObject final : Object {
  explicit CellObject(Cell value)
      : Object(kCellTypes[value.index()].index), cell(std::move(value)) {}
  std::string_view object_type() const override {
    return kCellTypes[cell.index()].key;
  }
  std::string ToText() const override { return Attributes()[0].value.ToText(); }
  std::vector<Attribute> Attributes() const override {
    if (const double* const number = NumberOf(cell)) {
      return {{kReportCellKeys[cell.index()], *number}};
    }
    return {{"value", std::get<int64_t>(cell)}};
  }

  Cell cell;
};

// Text becomes a string object, not a plain string: members of a map must be
// objects for hosts.
Value ValueOf(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) {
    return Value(MakeRef<StringObject>(*text));
  }
  return Value(MakeRef<CellObject>(cell));
}

// The inverse of ValueOf(), for reports that a host makes of figures of its
// own.
absl::StatusOr<Cell> CellOf(const Value& value) {
  const ArgView view = value.View();
  if (view.IsText()) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, view.AsString());
    return Cell(std::string(text));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const Ref<CellObject> object,
      view.AsObject<CellObject>("a duration, percent, ratio, count or string"));
  return object->cell;
}

Ref<MapObject> MapOf(const Row& row) {
  MapObject::Items items;
  for (const auto& [key, cell] : row) items.emplace_back(key, ValueOf(cell));
  return MapObject::Make(std::move(items));
}

// Checked at once, because the table would have to fail later, where no host
// could tell which value was wrong.
absl::StatusOr<Row> RowOf(const Value& value) {
  NODEWISE_ASSIGN_OR_RETURN(
      const Ref<MapObject> map,
      value.View().AsObject<MapObject>("a map from strings to values"));
  Row row;
  for (const auto& [key, item] : map->items()) {
    absl::StatusOr<Cell> cell = CellOf(item);
    if (!cell.ok()) return At(key, cell.status());
    NODEWISE_RETURN_IF_ERROR(CheckReportCell(key, *cell));
    row.insert_or_assign(key, *std::move(cell));
  }
  return row;
}

// (calls, device metrics [, configuration, since TVM 0.9])
Result MakeReport(PackedArgs args) {
  auto report = MakeRef<TvmReport>();
  NODEWISE_ASSIGN_OR_RETURN(const auto calls,
                            args.ObjectAt<ArrayObject>(0, "an array of maps"));
  for (const Value& call : calls->items()) {
    NODEWISE_ASSIGN_OR_RETURN(report->calls.emplace_back(), RowOf(call));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const auto devices,
      args.ObjectAt<MapObject>(1, "a map from devices to maps"));
  for (const auto& [device, metrics] : devices->items()) {
    NODEWISE_ASSIGN_OR_RETURN(report->device_metrics[device], RowOf(metrics));
  }
  if (args.size() > 2) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(2));
    NODEWISE_ASSIGN_OR_RETURN(const Value configuration, Value::Copy(arg));
    NODEWISE_ASSIGN_OR_RETURN(report->configuration, RowOf(configuration));
  }
  return Value(std::move(report));
}

template <typename Unit>
Result MakeCell(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const double number, arg.AsDouble());
  return Value(MakeRef<CellObject>(Cell(Unit{number})));
}

Result MakeCount(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, args.IntAt(0));
  return Value(MakeRef<CellObject>(Cell(count)));
}

absl::StatusOr<Ref<TvmReport>> TakeReport(PackedArgs args) {
  return args.ObjectAt<TvmReport>(0, "a profiling report");
}

absl::StatusOr<bool> TakeFlag(PackedArgs args, int index) {
  // A host of TVM 0.8, which has no column sums, passes no such flag; TVM's
  // Python package passes true.
  if (index >= args.size()) return true;
  NODEWISE_ASSIGN_OR_RETURN(const int64_t flag, args.IntAt(index));
  return flag != 0;
}

Result AsTable(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<TvmReport> report, TakeReport(args));
  NODEWISE_ASSIGN_OR_RETURN(const bool sort, TakeFlag(args, 1));
  NODEWISE_ASSIGN_OR_RETURN(const bool aggregate, TakeFlag(args, 2));
  NODEWISE_ASSIGN_OR_RETURN(const bool col_sums, TakeFlag(args, 3));
  return Value(ReportTable(*report, sort, aggregate, col_sums));
}

template <std::string (*kWrite)(const TvmReport&)>
Result WriteReport(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<TvmReport> report, TakeReport(args));
  return Value(kWrite(*report));
}

Result FromJson(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, args.TextAt(0));
  NODEWISE_ASSIGN_OR_RETURN(Ref<TvmReport> report, ParseReport(text));
  return Value(std::move(report));
}

// Returns a function that calls another and returns what collectors measured:
// an empty map, since there are no collectors.
Result CallProfiled(const Ref<Module>& module, const std::string& name,
                    int warm_up, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const PackedFunc function,
                            module->FindFunction(name));
  if (!function) {
    return NotFound("a module of kind {} has no function {}", module->kind(),
                    name);
  }
  for (int i = 0; i <= warm_up; ++i) {
    NODEWISE_RETURN_IF_ERROR(function.CallPacked(args).status());
  }
  return Value(MapObject::Make({}));
}

Result ProfileFunction(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module,
                            args.ObjectAt<Module>(0, "module"));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(1));
  NODEWISE_ASSIGN_OR_RETURN(const int type, args.SmallIntAt(2));
  NODEWISE_ASSIGN_OR_RETURN(const int number, args.SmallIntAt(3));
  NODEWISE_RETURN_IF_ERROR(FindDevice(MakeDevice(type, number)).status());
  NODEWISE_ASSIGN_OR_RETURN(const int warm_up, args.SmallIntAt(4));
  NODEWISE_RETURN_IF_ERROR(RefuseCollectors(args, 5));
  return Value(PackedFunc::FromBody([module, name = std::string(name),
                                     warm_up](PackedArgs call) {
                 return CallProfiled(module, name, warm_up, call);
               }).object());
}

constexpr FunctionRow kProfilingFunctions[] = {
    {"runtime.profiling.Report", &MakeReport},
    {"runtime.profiling.Duration", &MakeCell<TvmReport::Duration>},
    {"runtime.profiling.Percent", &MakeCell<TvmReport::Percent>},
    {"runtime.profiling.Ratio", &MakeCell<TvmReport::Ratio>},
    {"runtime.profiling.Count", &MakeCount},
    {"runtime.profiling.ProfileFunction", &ProfileFunction},
    {"runtime.profiling.AsTable", &AsTable},
    {"runtime.profiling.AsCSV", &WriteReport<&ReportCsv>},
    {"runtime.profiling.AsJSON", &WriteReport<&ReportJson>},
    {"runtime.profiling.FromJSON", &FromJson},
};

}  // namespace

// Made anew each time, so that a report holds its rows in one form alone.
std::vector<Attribute> TvmReport::Attributes() const {
  std::vector<Value> rows;
  for (const Row& call : calls) rows.push_back(Value(MapOf(call)));
  MapObject::Items devices;
  for (const auto& [device, metrics] : device_metrics) {
    devices.emplace_back(device, Value(MapOf(metrics)));
  }
  return {{"calls", Value(ArrayObject::Make(std::move(rows)))},
          {"device_metrics", Value(MapObject::Make(std::move(devices)))},
          {"configuration", Value(MapOf(configuration))}};
}

// Ignoring them would give a report that silently lacks what was asked for.
absl::Status RefuseCollectors(PackedArgs args, int index) {
  if (index >= args.size()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const ArgView collectors, args.At(index));
  if (collectors.IsNull()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(
      const Ref<ArrayObject> array,
      collectors.AsObject<ArrayObject>("an array of collectors or null"));
  if (array->items().empty()) return absl::OkStatus();
  return Unimplemented(
      "profile: TVM's metric collectors are not supported (use {})",
      NameOf(Way::kCounters));
}

absl::Span<const FunctionRow> ProfilingFunctions() {
  return kProfilingFunctions;
}

}  // namespace nodewise
