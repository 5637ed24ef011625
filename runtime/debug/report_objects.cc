// Reports as objects that a host makes and takes apart: TVM's Python package
// asks for `report.calls`, or builds a report of figures of its own.

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "nodewise/runtime/containers.h"
#include "nodewise/support/status_macros.h"
#include "runtime/debug/tvm_report.h"

namespace nodewise {
namespace {

using Cell = TvmReport::Cell;
using Row = TvmReport::Row;

// TVM's types of the values in a report, by the index of the variant; text has
// no type of its own.
constexpr std::string_view kCellTypes[] = {
    "runtime.profiling.Duration", "runtime.profiling.Percent",
    "runtime.profiling.Ratio", "runtime.profiling.Count"};

using Attributes = std::vector<std::pair<std::string_view, Value>>;

Attributes AttributesOf(const Cell& cell) {
  if (const auto* d = std::get_if<TvmReport::Duration>(&cell)) {
    return {{"microseconds", d->microseconds}};
  }
  if (const auto* percent = std::get_if<TvmReport::Percent>(&cell)) {
    return {{"percent", percent->percent}};
  }
  if (const auto* ratio = std::get_if<TvmReport::Ratio>(&cell)) {
    return {{"ratio", ratio->ratio}};
  }
  return {{"value", std::get<int64_t>(cell)}};
}

// A value of a report that is a number of some unit.
struct CellObject final : Object {
  explicit CellObject(Cell value) : cell(std::move(value)) {}
  std::string_view object_type() const override {
    return kCellTypes[cell.index()];
  }
  std::string ToText() const override {
    return AttributesOf(cell)[0].second.ToText();
  }

  Cell cell;
};

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
  auto map = MakeRef<MapObject>();
  for (const auto& [key, cell] : row) map->Set(key, ValueOf(cell));
  return map;
}

absl::StatusOr<Row> RowOf(const Value& value) {
  NODEWISE_ASSIGN_OR_RETURN(
      const Ref<MapObject> map,
      value.View().AsObject<MapObject>("a map from strings to values"));
  Row row;
  for (const auto& [key, item] : map->items) {
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
  for (const Value& call : calls->items) {
    NODEWISE_ASSIGN_OR_RETURN(report->calls.emplace_back(), RowOf(call));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const auto devices,
      args.ObjectAt<MapObject>(1, "a map from devices to maps"));
  for (const auto& [device, metrics] : devices->items) {
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

Attributes AttributesOf(const TvmReport& report) {
  std::vector<Value> calls;
  for (const Row& call : report.calls) {
    calls.push_back(ObjectValue(MapOf(call)));
  }
  auto devices = MakeRef<MapObject>();
  for (const auto& [device, metrics] : report.device_metrics) {
    devices->Set(device, ObjectValue(MapOf(metrics)));
  }
  return {{"calls", ObjectValue(MakeRef<ArrayObject>(std::move(calls)))},
          {"device_metrics", ObjectValue(std::move(devices))},
          {"configuration", ObjectValue(MapOf(report.configuration))}};
}

// Objects of other types have no attributes that can be asked for.
absl::StatusOr<Attributes> AttributesAt(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const auto object,
                            args.ObjectAt<Object>(0, "object"));
  if (const auto* report = dynamic_cast<TvmReport*>(object.get())) {
    return AttributesOf(*report);
  }
  if (const auto* cell = dynamic_cast<CellObject*>(object.get())) {
    return AttributesOf(cell->cell);
  }
  return Attributes();
}

// Bindings know what is missing by the word at the beginning.
absl::StatusOr<Value> GetAttribute(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Attributes attributes, AttributesAt(args));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(1));
  for (const auto& [known, value] : attributes) {
    if (known == name) return value;
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto object,
                            args.ObjectAt<Object>(0, "object"));
  return absl::NotFoundError(absl::StrFormat("AttributeError: %s has no %s",
                                             object->object_type(), name));
}

// A function that gives the name of an index, and of -1 how many there are.
absl::StatusOr<Value> ListAttributes(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Attributes attributes, AttributesAt(args));
  std::vector<std::string> names;
  for (const auto& [name, value] : attributes) names.emplace_back(name);
  const auto name_at = [names](PackedArgs call) -> absl::StatusOr<Value> {
    NODEWISE_ASSIGN_OR_RETURN(const int64_t index, call.IntAt(0));
    if (index == -1) return Value(static_cast<int64_t>(names.size()));
    if (index >= 0 && index < static_cast<int64_t>(names.size())) {
      return Value(names[static_cast<size_t>(index)]);
    }
    return absl::OutOfRangeError(absl::StrFormat(
        "attribute %d: the object has %d", index, names.size()));
  };
  return ObjectValue(PackedFunc::FromBody(name_at).object());
}

constexpr FunctionRow kRows[] = {
    {"runtime.profiling.Report", &MakeReport},
    {"runtime.profiling.Duration", &MakeCell<TvmReport::Duration>},
    {"runtime.profiling.Percent", &MakeCell<TvmReport::Percent>},
    {"runtime.profiling.Ratio", &MakeCell<TvmReport::Ratio>},
    {"runtime.profiling.Count", &MakeCount},
    {"node.NodeGetAttr", &GetAttribute},
    {"node.NodeListAttrNames", &ListAttributes},
};

}  // namespace

absl::Span<const FunctionRow> ReportObjectFunctions() { return kRows; }

}  // namespace nodewise
