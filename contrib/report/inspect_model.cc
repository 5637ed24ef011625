// An ONNX model, or one operation of it.

#include <map>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ir/origin.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/report/inspection.h"
#include "nodewise/report/model_report.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// A name alone does not tell operators of two domains apart, nor one that is
// known here from one that is opaque.
std::string KindOf(const Operation& operation) {
  if (const auto* const opaque = operation.attrs.As<ops::Opaque>()) {
    return NameOf(*opaque) + " (opaque)";
  }
  const OperatorDef& def = operation.def();
  return def.domain.empty() ? std::string(def.name)
                            : fmt::format("{}.{}", def.domain, def.name);
}

// The estimate is the operator's own, of the types that were inferred; an
// output that is not wanted has no type.
double FlopsOf(const Network& network, const Operation& operation) {
  const std::vector<InputInfo> inputs = network.InputsOf(operation.id);
  std::vector<OutputInfo> outputs;
  for (const ValueId id : operation.outputs) {
    outputs.emplace_back(id == kNoValue ? TensorType()
                                        : network.value(id).type);
  }
  return operation.def().flops(operation.attrs.get(), Inputs(inputs), outputs);
}

// Values are shown with their types alone: what they hold is known after a run.
void AddValues(const char* title, const Network& network,
               absl::Span<const ValueId> values, Inspection* inspection) {
  TextTable table;
  AddObjects(inspection, title, values, [&](const ValueId id) {
    const NetworkValue& value = network.value(id);
    table.AddRow({value.name, ToString(value.type)});
    AddMembers(inspection, "name", value.name, "type", ToString(value.type));
  });
  AddTable(title, std::to_string(values.size()), table, inspection);
}

// Operators are in the order of their names, so that two models can be
// compared.
void AddOperators(const Network& network, Inspection* inspection) {
  std::map<std::string, uint64_t> counts;  // By kind.
  double flops = 0;
  // Operations without an estimate, as opaque ones are, are counted, so that
  // the sum is not taken for all there is.
  uint64_t without_flops = 0;
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    ++counts[KindOf(operation)];
    const double of_one = FlopsOf(network, operation);
    flops += of_one;
    without_flops += of_one > 0 ? 0 : 1;
  }
  const uint64_t operations = network.order().size();
  TextTable table;
  inspection->json.Add("operations", operations);
  AddObjects(inspection, "operators", counts, [&](const auto& row) {
    const auto& [kind, count] = row;
    table.AddRow({kind, std::to_string(count)});
    AddMembers(inspection, "name", kind, "uses", count);
  });
  AddTable(
      "operators",
      fmt::format("{} in {}", counts.size(), CountOf(operations, "operation")),
      table, inspection);
  AddMembers(inspection, "flops", flops, "operations_without_flops",
             without_flops);
  AddFact(inspection, "FLOPs", "{:.4g}, {} not counted", flops,
          CountOf(without_flops, "operation"));
}

// Constants lie among the other values of a network, some of which have been
// removed.
void AddConstants(const Network& network, Inspection* inspection) {
  uint64_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
  for (const auto& value : network.data().values) {
    if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant) {
      continue;
    }
    ++tensors;
    elements += value->data.bytes() / ElementBytes(value->data.dtype());
    bytes += value->data.bytes();
  }
  AddObject(inspection, "constants", "tensors", tensors, "elements", elements,
            "bytes", bytes);
  AddFact(inspection, "constants", "{}, {}, {}", CountOf(tensors, "tensor"),
          CountOf(elements, "element"), CountOf(bytes, "byte"));
}

// Adds how many operations say where they are from: exporters that note it are
// few, and some note it of a part alone.
void AddSourceCount(const Network& network, Inspection* inspection) {
  uint64_t with_source = 0;
  for (const OperationId id : network.order()) {
    with_source += SourceOf(network.operation(id)).has_value() ? 1 : 0;
  }
  inspection->json.Add("operations_with_source", with_source);
  if (with_source == 0) return;
  AddFact(inspection, "source", "{} of {} say where they are from", with_source,
          CountOf(network.order().size(), "operation"));
}

std::vector<ValueId> Given(std::vector<ValueId> values) {
  std::erase(values, kNoValue);
  return values;
}

// The line has the whole of its place; the file stands by itself, too, so that
// an editor can open it.
void AddSource(const Operation& operation, Inspection* inspection) {
  const auto source = SourceOf(operation);
  if (!source.has_value()) return;
  if (!source->module.empty()) {
    inspection->json.Add("module", source->module);
    AddLine("module", Printable(source->module), inspection);
  }
  if (!source->line.has_value()) return;
  const SourceLine& line = *source->line;
  AddMembers(inspection, "file", line.file, "line", line.line, "function",
             line.function, "code", line.code);
  AddLine("from", Printable(line.ToString()), inspection);
  AddLine("file", Printable(line.file), inspection);
}

// Shows one operation alone, with its values under the titles that those of the
// network have.
absl::Status InspectOperation(const Network& network, Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(
      const OperationId id,
      network.FindOperation(std::string_view(inspection->node)));
  const Operation& operation = network.operation(id);
  inspection->json.BeginObject("operation");
  AddMembers(inspection, "name", operation.name, "operator", KindOf(operation));
  AddLine("node", Printable(operation.name), inspection);
  AddLine("operator", Printable(KindOf(operation)), inspection);
  AddSource(operation, inspection);
  AddValues("inputs", network, Given(operation.inputs), inspection);
  AddValues("outputs", network, Given(operation.outputs), inspection);
  inspection->json.EndObject();
  return absl::OkStatus();
}

}  // namespace

// The size is that of the file: weights that lie beside it in files of their
// own count as constants only.
absl::Status InspectModel(const std::string& path, const ModelSpec& spec,
                          Inspection* inspection) {
  DiagnosticList diagnostics;
  NODEWISE_ASSIGN_OR_RETURN(const Network network,
                            LoadModel(path, spec, &diagnostics));
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t bytes, SizeOfFile(path));
  AddText(inspection, "{}: ONNX model, opset {}, {}\n", Printable(path),
          network.opset(), CountOf(bytes, "byte"));
  AddMembers(inspection, "kind", "model", "bytes", bytes, "name",
             network.name(), "opset", network.opset());
  if (!inspection->node.empty()) {
    return At(path, InspectOperation(network, inspection));
  }
  AddValues("inputs", network, network.inputs(), inspection);
  AddValues("outputs", network, network.outputs(), inspection);
  AddOperators(network, inspection);
  AddConstants(network, inspection);
  AddSourceCount(network, inspection);
  const std::string opaque = DescribeOpaque(network, &inspection->json);
  if (!opaque.empty()) AddLine("opaque", opaque, inspection);
  AddFindings("warnings",
              FindingsOf(diagnostics.items(), finding_kinds::kFaultyFile),
              &inspection->json);
  if (!diagnostics.items().empty()) {
    AddFact(inspection, "warnings", "{} ({} lists them)",
            diagnostics.items().size(), NameOf(Way::kVerification));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
