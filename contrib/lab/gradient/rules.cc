#include "contrib/lab/gradient/rules.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::gradient {
namespace {

std::string PlaceOf(const Operation& operation) {
  return fmt::format("operation {}: {}", Shortened(operation.name),
                     operation.kind());
}

}  // namespace

std::optional<std::vector<int64_t>> Rule::KnownInts(size_t i) const {
  if (!writer_.status().ok()) return std::nullopt;
  const std::vector<InputInfo> inputs =
      writer_.network().InputsOf(operation_.id);
  return Inputs(inputs).Ints(i);
}

std::vector<int64_t> Rule::Ints(size_t i) const {
  auto ints = KnownInts(i);
  if (ints.has_value()) return *std::move(ints);
  writer_.Fail(absl::FailedPreconditionError(
      fmt::format("{}: has a gradient only if input {} is known beforehand",
                  PlaceOf(operation_), i)));
  return {};
}

void Rule::Give(size_t i, Term gradient) {
  if (!has(i) || !gradient.is_given()) return;
  if (!IsFloat(x(i).dtype())) return;
  given_[i] = CastTo(SumTo(gradient, x(i).sizes()), x(i).dtype());
}

void Rule::Refuse(std::string_view what) const {
  writer_.Fail(absl::UnimplementedError(
      fmt::format("{}: has no gradient {}", PlaceOf(operation_), what)));
}

void Rule::Fail(const absl::Status& status) const {
  writer_.Fail(At(PlaceOf(operation_), status));
}

const Row* FindRow(const void* type) {
  for (const auto rows :
       {FunctionRows(), ArithmeticRows(), ProductRows(), WindowRows(),
        NormRows(), ReduceRows(), MoveRows(), IndexRows(), ResizeRows(),
        RoiRows(), SamplingRows(), SignalRows(), RecurrentRows(),
        AttentionRows(), SequenceRows(), ControlRows()}) {
    for (const Row& row : rows) {
      if (row.type == type) return &row;
    }
  }
  return nullptr;
}

}  // namespace nodewise::gradient
