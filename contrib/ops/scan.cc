#include "nodewise/ops/scan.h"

#include <algorithm>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/body_loops.h"
#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The number of tensors of each kind.
struct ScanParts {
  size_t states = 0;
  size_t inputs = 0;   // Scanned.
  size_t outputs = 0;  // Stacked.
};

absl::StatusOr<ScanParts> PartsOf(const Subgraph& body, int64_t num_scan_inputs,
                                  size_t given) {
  if (given < body.captures) {
    return absl::InvalidArgumentError("has less inputs than it captures");
  }
  const size_t all = given - body.captures;
  if (num_scan_inputs < 1 || static_cast<uint64_t>(num_scan_inputs) > all) {
    return AttributeError(
        "num_scan_inputs",
        fmt::format("is {}, expected 1 to {}", num_scan_inputs, all));
  }
  NODEWISE_RETURN_IF_ERROR(CheckBody("body", body, all));
  ScanParts parts;
  parts.inputs = static_cast<size_t>(num_scan_inputs);
  parts.states = all - parts.inputs;
  const size_t made = body.body->outputs().size();
  if (made < parts.states) {
    return AttributeError("body", fmt::format("has {} outputs, expected {} at "
                                              "least",
                                              made, parts.states));
  }
  parts.outputs = made - parts.states;
  return parts;
}

absl::Status CheckFlags(const char* name, const std::vector<int64_t>& flags,
                        size_t expected, bool are_directions) {
  if (flags.empty()) return absl::OkStatus();
  if (flags.size() != expected) {
    return AttributeError(name, fmt::format("has {} numbers, expected {}",
                                            flags.size(), expected));
  }
  for (const int64_t flag : flags) {
    if (!are_directions || flag == 0 || flag == 1) continue;
    return AttributeError(name, fmt::format("has {}, expected 0 or 1", flag));
  }
  return absl::OkStatus();
}

int64_t At(const std::vector<int64_t>& list, size_t i) {
  return i < list.size() ? list[i] : 0;
}

struct Scan : ops::Scan {
  static constexpr auto Fields() {
    return FieldList(
        RequiredField<&Scan::body>("body"),
        RequiredField<&Scan::num_scan_inputs>("num_scan_inputs"),
        Field<&Scan::scan_input_axes>("scan_input_axes"),
        Field<&Scan::scan_input_directions>("scan_input_directions"),
        Field<&Scan::scan_output_axes>("scan_output_axes"),
        Field<&Scan::scan_output_directions>("scan_output_directions"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(const ScanParts parts,
                              PartsOf(body, num_scan_inputs, in.size()));
    for (size_t i = 0; i < parts.states; ++i) {
      NODEWISE_RETURN_IF_ERROR(RequireBodyType(in, i, body, i));
    }
    return All(
        CheckFlags("scan_input_axes", scan_input_axes, parts.inputs, false),
        CheckFlags("scan_input_directions", scan_input_directions, parts.inputs,
                   true),
        CheckFlags("scan_output_axes", scan_output_axes, parts.outputs, false),
        CheckFlags("scan_output_directions", scan_output_directions,
                   parts.outputs, true),
        Length(in, parts).status());
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t count) const {
    NODEWISE_ASSIGN_OR_RETURN(const ScanParts parts,
                              PartsOf(body, num_scan_inputs, in.size()));
    NODEWISE_ASSIGN_OR_RETURN(const Dim length, Length(in, parts));
    const std::vector<TensorType> made = OutputTypesOf(body);
    if (count > made.size()) {
      return absl::InvalidArgumentError(fmt::format(
          "has {} outputs, but its body makes {}", count, made.size()));
    }
    OutputInfos infos;
    for (size_t i = 0; i < count; ++i) {
      // States keep their type; without a single step they are what came in.
      const bool is_state = i < parts.states;
      infos.emplace_back(
          is_state ? in.type(i)
                   : Stacked(made[i], At(scan_output_axes, i - parts.states),
                             length));
    }
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  absl::StatusOr<Dim> Length(const Inputs& in, const ScanParts& parts) const {
    Dim length;
    for (size_t k = 0; k < parts.inputs; ++k) {
      const size_t i = parts.states + k;
      const auto rank = RankOf(in, i);
      if (!rank.has_value()) continue;
      const auto axis = Axis(At(scan_input_axes, k), *rank);
      if (!axis.ok()) {
        return InputError(i, std::string(MessageOf(axis.status())));
      }
      const Dim side = SideOf(in, i, static_cast<size_t>(*axis));
      const auto both = UniteDims(length, side);
      if (!both.ok()) {
        return InputError(i, fmt::format("is {} long, expected {}", side.size(),
                                         length.size()));
      }
      length = *both;
    }
    return length;
  }
};

// Steps of one sequence.
struct Steps {
  int64_t count = 0;                         // To run.
  std::vector<NDArray> states{};             // Become the last ones.
  std::vector<std::vector<NDArray>> made{};  // By scan output.
};

// Runs the steps; `element(k, step)` is an element of scan input k.
absl::Status RunSteps(
    EvalArgs& args, const Subgraph& body, const ScanParts& parts,
    size_t first_capture,
    absl::FunctionRef<absl::StatusOr<NDArray>(size_t k, int64_t step)> element,
    Steps* steps) {
  steps->made.assign(parts.outputs, {});
  for (int64_t step = 0; step < steps->count; ++step) {
    std::vector<NDArray> inputs = std::move(steps->states);
    for (size_t k = 0; k < parts.inputs; ++k) {
      NODEWISE_ASSIGN_OR_RETURN(inputs.emplace_back(), element(k, step));
    }
    NODEWISE_ASSIGN_OR_RETURN(
        std::vector<NDArray> outputs,
        RunBody(args, body, std::move(inputs), first_capture));
    const auto scanned = outputs.begin() + static_cast<int64_t>(parts.states);
    for (size_t k = 0; k < parts.outputs; ++k) {
      steps->made[k].push_back(std::move(scanned[static_cast<int64_t>(k)]));
    }
    outputs.resize(parts.states);
    steps->states = std::move(outputs);
  }
  return absl::OkStatus();
}

absl::Status Scan::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(const ScanParts parts,
                            PartsOf(body, num_scan_inputs, args.num_inputs()));
  std::vector<int> axes;
  for (size_t k = 0; k < parts.inputs; ++k) {
    const auto rank = static_cast<int>(args.shape(parts.states + k).size());
    NODEWISE_ASSIGN_OR_RETURN(axes.emplace_back(),
                              Axis(At(scan_input_axes, k), rank));
  }
  const int64_t count = args.shape(parts.states)[static_cast<size_t>(axes[0])];
  Steps steps{count};
  for (size_t i = 0; i < parts.states; ++i) steps.states.push_back(args.in(i));
  NODEWISE_RETURN_IF_ERROR(RunSteps(
      args, body, parts, parts.states + parts.inputs,
      [&](size_t k, int64_t step) {
        const bool is_back = At(scan_input_directions, k) == 1;
        return SliceAt(args.in(parts.states + k), axes[k],
                       is_back ? count - 1 - step : step);
      },
      &steps));
  for (size_t i = 0; i < args.num_outputs(); ++i) {
    if (i < parts.states) {
      args.SetOutput(i, steps.states[i]);
      continue;
    }
    if (!args.wants(i)) continue;
    const size_t k = i - parts.states;
    std::vector<NDArray>& made = steps.made[k];
    if (At(scan_output_directions, k) == 1) {
      std::reverse(made.begin(), made.end());
    }
    NODEWISE_RETURN_IF_ERROR(
        StackOutput(args, i, made, At(scan_output_axes, k),
                    body.body->value(body.body->outputs()[i]).type));
  }
  return absl::OkStatus();
}

struct Scan8 : ops::Scan8 {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Scan8::body>("body"),
                     Field<&Scan8::directions>("directions"),
                     RequiredField<&Scan8::num_scan_inputs>("num_scan_inputs"));
  }

  absl::Status Check(const Inputs& in) const {
    if (in.size() == 0) return absl::InvalidArgumentError("has no inputs");
    NODEWISE_ASSIGN_OR_RETURN(const ScanParts parts,
                              PartsOf(body, num_scan_inputs, in.size() - 1));
    NODEWISE_RETURN_IF_ERROR(
        All(CheckFlags("directions", directions, parts.inputs, true),
            RequireType(in, 0, kInt64), RequireRank(in, 0, 1)));
    Dim batch = SideOf(in, 0, 0);
    Dim length;
    for (size_t i = 1; i <= parts.states + parts.inputs; ++i) {
      const bool is_scanned = i > parts.states;
      NODEWISE_RETURN_IF_ERROR(
          RequireRank(in, i, is_scanned ? 2 : 1, INT32_MAX));
      const auto first = UniteDims(batch, SideOf(in, i, 0));
      const auto second =
          is_scanned ? UniteDims(length, SideOf(in, i, 1)) : length;
      if (!first.ok()) return InputError(i, "has a batch of another size");
      if (!second.ok()) return InputError(i, "has another length");
      batch = *first;
      length = *second;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t count) const {
    NODEWISE_ASSIGN_OR_RETURN(const ScanParts parts,
                              PartsOf(body, num_scan_inputs, in.size() - 1));
    const Dim batch = SideOf(in, 1 + parts.states, 0);
    const Dim length = SideOf(in, 1 + parts.states, 1);
    const std::vector<TensorType> made = OutputTypesOf(body);
    if (count > made.size()) {
      return absl::InvalidArgumentError(fmt::format(
          "has {} outputs, but its body makes {}", count, made.size()));
    }
    OutputInfos infos;
    for (size_t i = 0; i < count; ++i) {
      infos.emplace_back(i < parts.states
                             ? in.type(1 + i)
                             : Stacked(Stacked(made[i], 0, length), 0, batch));
    }
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  absl::Status RunSequence(EvalArgs& args, const ScanParts& parts,
                           int64_t batch, int64_t steps,
                           std::vector<std::vector<NDArray>>* results) const;
};

absl::Status Scan8::RunSequence(
    EvalArgs& args, const ScanParts& parts, int64_t batch, int64_t count,
    std::vector<std::vector<NDArray>>* results) const {
  const int64_t length = args.shape(1 + parts.states)[1];
  Steps steps{count};
  for (size_t i = 0; i < parts.states; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(steps.states.emplace_back(),
                              SliceAt(args.in(1 + i), 0, batch));
  }
  std::vector<NDArray> sequences;
  for (size_t k = 0; k < parts.inputs; ++k) {
    NODEWISE_ASSIGN_OR_RETURN(sequences.emplace_back(),
                              SliceAt(args.in(1 + parts.states + k), 0, batch));
  }
  NODEWISE_RETURN_IF_ERROR(RunSteps(
      args, body, parts, 1 + parts.states + parts.inputs,
      [&](size_t k, int64_t step) {
        return SliceAt(sequences[k], 0,
                       At(directions, k) == 1 ? count - 1 - step : step);
      },
      &steps));
  for (size_t i = 0; i < parts.states; ++i) {
    (*results)[i].push_back(steps.states[i]);
  }
  constexpr bool kWanted[] = {true};
  const EvalArgs::Options options;
  for (size_t k = 0; k < parts.outputs; ++k) {
    std::vector<NDArray>& made = steps.made[k];
    // Elements beyond the sequence's end are undefined: 0 here.
    EvalArgs stacked({}, kWanted, options, {});
    const TensorType& type =
        body.body->value(body.body->outputs()[parts.states + k]).type;
    if (static_cast<int64_t>(made.size()) < length) {
      std::vector<int64_t> shape =
          made.empty() ? type.sizes().value_or(std::vector<int64_t>())
                       : std::vector<int64_t>(made[0].shape().begin(),
                                              made[0].shape().end());
      NODEWISE_ASSIGN_OR_RETURN(
          const NDArray none,
          NDArray::Empty(shape, made.empty() ? type.dtype : made[0].dtype(),
                         kCpu));
      const uint64_t zero = 0;
      FillWith(none, &zero);
      made.resize(static_cast<size_t>(length), none);
    }
    NODEWISE_RETURN_IF_ERROR(StackOutput(stacked, 0, made, 0, type));
    (*results)[parts.states + k].push_back(stacked.outputs()[0]);
  }
  return absl::OkStatus();
}

absl::Status Scan8::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(
      const ScanParts parts,
      PartsOf(body, num_scan_inputs, args.num_inputs() - 1));
  const int64_t batches = args.shape(1 + parts.states)[0];
  const int64_t length = args.shape(1 + parts.states)[1];
  std::vector<int64_t> counts(static_cast<size_t>(batches), length);
  if (args.has(0)) {
    NODEWISE_ASSIGN_OR_RETURN(counts, args.Ints(0));
  }
  std::vector<std::vector<NDArray>> results(body.body->outputs().size());
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t count = counts[static_cast<size_t>(batch)];
    if (count < 0 || count > length) {
      return InputError(0,
                        fmt::format("has {}, expected 0 to {}", count, length));
    }
    NODEWISE_RETURN_IF_ERROR(RunSequence(args, parts, batch, count, &results));
  }
  for (size_t i = 0; i < args.num_outputs(); ++i) {
    if (!args.wants(i)) continue;
    TensorType type = body.body->value(body.body->outputs()[i]).type;
    if (i >= parts.states) type = Stacked(type, 0, length);
    NODEWISE_RETURN_IF_ERROR(StackOutput(args, i, results[i], 0, type));
  }
  return absl::OkStatus();
}

constexpr OperatorDef kScanRows[] = {
    Row<ops::Scan8, Scan8>(
        {.name = "Scan",
         .since = 8,
         .inputs = {Optional("sequence_lens"),
                    Variadic("initial_state_and_scan_inputs")},
         .outputs = {Variadic("final_state_and_scan_outputs")},
         .bound = kSum}),
    Row<ops::Scan, Scan>({.name = "Scan",
                          .since = 9,
                          .inputs = {Variadic("initial_state_and_scan_inputs")},
                          .outputs = {Variadic("final_state_and_scan_outputs")},
                          .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> ScanOperators() { return kScanRows; }

}  // namespace nodewise
