#include "contrib/lab/gradient/definitions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::gradient {
namespace {

// Definitions may use operators that are defined.
constexpr int kMostRounds = 8;

absl::Status Define(const Operation& operation, const Row& row,
                    const std::set<ValueId>& path, Network* network) {
  Writer writer(network);
  Rule rule(operation, {}, path, &writer);
  const std::vector<Term> outputs = row.define(rule);
  NODEWISE_RETURN_IF_ERROR(writer.status());
  std::vector<ValueId> from;
  std::vector<ValueId> to;
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    const ValueId output = operation.outputs[i];
    if (output == kNoValue) continue;
    NODEWISE_CHECK(i < outputs.size());
    from.push_back(output);
    to.push_back(CastTo(outputs[i], network->value(output).type.dtype).id());
  }
  NODEWISE_RETURN_IF_ERROR(writer.status());
  NODEWISE_RETURN_IF_ERROR(network->ReplaceUses(from, to));
  return network->Remove(operation.id);
}

}  // namespace

bool IsFloatValue(const Network& network, ValueId id) {
  return id != kNoValue && IsFloat(network.value(id).type.dtype);
}

bool ReadsAny(const Operation& operation, const std::set<ValueId>& values) {
  return std::any_of(operation.inputs.begin(), operation.inputs.end(),
                     [&](ValueId id) { return values.contains(id); });
}

bool IsZero(const Operation& operation) {
  const Row* const row = FindRow(operation.def().type);
  return row != nullptr && row->kind == GradientKind::kZero;
}

std::set<ValueId> PathFrom(const Network& network,
                           absl::Span<const ValueId> from) {
  std::set<ValueId> path(from.begin(), from.end());
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (!ReadsAny(operation, path) || IsZero(operation)) continue;
    for (const ValueId output : operation.outputs) {
      if (IsFloatValue(network, output)) path.insert(output);
    }
  }
  return path;
}

absl::Status ExpandDefinitions(absl::Span<const ValueId> from,
                               Network* network) {
  for (int round = 0; round < kMostRounds; ++round) {
    const std::set<ValueId> path = PathFrom(*network, from);
    bool is_done = true;
    const std::vector<OperationId> order(network->order().begin(),
                                         network->order().end());
    for (const OperationId id : order) {
      // A copy: what is written moves the network's operations.
      const Operation operation = network->operation(id);
      const Row* const row = FindRow(operation.def().type);
      if (row == nullptr || row->define == nullptr) continue;
      if (!ReadsAny(operation, path)) continue;
      is_done = false;
      NODEWISE_RETURN_IF_ERROR(Define(operation, *row, path, network));
    }
    if (is_done) return absl::OkStatus();
  }
  return absl::InternalError("definitions of operators have no end");
}

}  // namespace nodewise::gradient
