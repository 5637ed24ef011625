// Reports as objects that a host makes and takes apart: TVM's Python package
// asks for `report.calls`, or builds a report of figures of its own.

#include <utility>

#include "nodewise/func/containers.h"
#include "nodewise/support/status_macros.h"
#include "runtime/profile/tvm_report.h"

namespace nodewise {
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

// A value of a report that is a number of some unit.
struct CellObject final : Object {
  explicit CellObject(Cell value)
      : Object(kCellTypes[value.index()].index), cell(std::move(value)) {}
  std::string_view object_type() const override {
    return kCellTypes[cell.index()].key;
  }
  std::string ToText() const override { return Attributes()[0].value.ToText(); }
  std::vector<Attribute> Attributes() const override;

  Cell cell;
};

std::vector<Attribute> CellObject::Attributes() const {
  if (const auto* duration = std::get_if<TvmReport::Duration>(&cell)) {
    return {{"microseconds", duration->microseconds}};
  }
  if (const auto* percent = std::get_if<TvmReport::Percent>(&cell)) {
    return {{"percent", percent->percent}};
  }
  if (const auto* ratio = std::get_if<TvmReport::Ratio>(&cell)) {
    return {{"ratio", ratio->ratio}};
  }
  return {{"value", std::get<int64_t>(cell)}};
}

Value ObjectValue(Ref<Object> object) { return Value(std::move(object)); }

Value ValueOf(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) {
    return ObjectValue(MakeRef<StringObject>(*text));
  }
  return ObjectValue(MakeRef<CellObject>(cell));
}

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
absl::StatusOr<Value> MakeReport(PackedArgs args) {
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
  return ObjectValue(std::move(report));
}

template <typename Unit>
absl::StatusOr<Value> MakeCell(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const double number, arg.AsDouble());
  return ObjectValue(MakeRef<CellObject>(Cell(Unit{number})));
}

absl::StatusOr<Value> MakeCount(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, args.IntAt(0));
  return ObjectValue(MakeRef<CellObject>(Cell(count)));
}

constexpr FunctionRow kReportFunctions[] = {
    {"runtime.profiling.Report", &MakeReport},
    {"runtime.profiling.Duration", &MakeCell<TvmReport::Duration>},
    {"runtime.profiling.Percent", &MakeCell<TvmReport::Percent>},
    {"runtime.profiling.Ratio", &MakeCell<TvmReport::Ratio>},
    {"runtime.profiling.Count", &MakeCount},
};

}  // namespace

std::vector<Attribute> TvmReport::Attributes() const {
  std::vector<Value> rows;
  for (const Row& call : calls) rows.push_back(ObjectValue(MapOf(call)));
  MapObject::Items devices;
  for (const auto& [device, metrics] : device_metrics) {
    devices.emplace_back(device, ObjectValue(MapOf(metrics)));
  }
  return {{"calls", ObjectValue(ArrayObject::Make(std::move(rows)))},
          {"device_metrics", ObjectValue(MapObject::Make(std::move(devices)))},
          {"configuration", ObjectValue(MapOf(configuration))}};
}

absl::Span<const FunctionRow> ReportObjectFunctions() {
  return kReportFunctions;
}

}  // namespace nodewise
