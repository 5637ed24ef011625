#include "nodewise/ops/control_flow.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/ir/network.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

absl::Status CheckBody(const char* attribute, const Subgraph& body,
                       size_t inputs) {
  if (body.body == nullptr) return AttributeError(attribute, "has no graph");
  const size_t found = body.body->inputs().size();
  if (found == inputs + body.captures) return absl::OkStatus();
  return WrongAttribute(attribute, "has {} inputs, expected {} and {} captured",
                        found, inputs, body.captures);
}

absl::Status RequireBodyType(const Inputs& in, size_t slot,
                             const Subgraph& body, size_t number) {
  const TensorType& wanted = body.body->value(body.body->inputs()[number]).type;
  if (AreCompatible(in.type(slot), wanted)) return absl::OkStatus();
  return WrongInput(slot, "is {}, expected {}, as the body has it",
                    ToString(in.type(slot)), ToString(wanted));
}

absl::Status RequireCount(const Inputs& in, size_t count) {
  if (in.size() == count) return absl::OkStatus();
  return InvalidArgument("has {} inputs, expected {}", in.size(), count);
}

const TensorType& OutputTypeOf(const Subgraph& body, size_t i) {
  return body.body->value(body.body->outputs()[i]).type;
}

size_t OutputsOf(const Subgraph& body) { return body.body->outputs().size(); }

absl::Status RequireMade(size_t outputs, size_t made) {
  if (outputs <= made) return absl::OkStatus();
  return InvalidArgument("has {} outputs, but its body makes {}", outputs,
                         made);
}

// Runs a body whose captures are the operation's inputs from `first` on. Errors
// name the body.
absl::StatusOr<std::vector<NDArray>> RunBody(EvalArgs& args,
                                             const Subgraph& body,
                                             std::vector<NDArray> inputs,
                                             size_t first) {
  // Kernels that stand alone are given nothing that runs bodies.
  if (!args.run_body()) {
    return FailedPrecondition("has a body, which only an interpreter runs");
  }
  for (size_t i = 0; i < body.captures; ++i) {
    inputs.push_back(args.in(first + i));
  }
  auto outputs = args.run_body()(body, std::move(inputs));
  if (!outputs.ok()) return At("body", outputs.status());
  if (outputs->size() == OutputsOf(body)) return outputs;
  return Internal("body: made {} outputs of {}", outputs->size(),
                  OutputsOf(body));
}

TensorType Stacked(TensorType type, int64_t axis, const Dim& count) {
  if (!type.has_rank()) return type;
  const auto at = Axis(axis, type.rank() + 1);
  // Names of a body mean another number in each trip.
  for (Dim& side : *type.shape) {
    if (!side.is_known()) side = Dim();
  }
  if (!at.ok()) return TensorType(type.dtype);
  type.shape->insert(type.shape->begin() + *at, count);
  return type;
}

// Makes output `i` by stacking what the trips made along a new side `axis`,
// counted from the end of the output if below 0. Without any trip, `type` gives
// the type of an element; its unknown sides become 0.
absl::Status StackOutput(EvalArgs& args, size_t i,
                         const std::vector<NDArray>& elements, int64_t axis,
                         const TensorType& type) {
  // The elements say more than the type that the body states.
  const TensorType each =
      elements.empty() ? type : TensorType::From(*elements[0]);
  const DLDataType dtype = each.dtype;
  std::vector<int64_t> shape;
  for (const Dim& side : each.shape.value_or(Shape())) {
    shape.push_back(side.is_known() ? side.size() : 0);
  }
  NODEWISE_ASSIGN_OR_RETURN(const int at,
                            Axis(axis, static_cast<int>(shape.size()) + 1));
  shape.insert(shape.begin() + at, static_cast<int64_t>(elements.size()));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(i, shape, dtype));
  // An element is copied to where its trip's turn along the new side begins,
  // with the output's strides along all others.
  std::vector<int64_t> strides = StridesOf(shape);
  const int64_t step = strides[static_cast<size_t>(at)];
  strides.erase(strides.begin() + at);
  for (size_t trip = 0; trip < elements.size(); ++trip) {
    const NDArray& element = elements[trip];
    if (!(element.dtype() == dtype) || element.shape() != elements[0].shape()) {
      return WrongAttribute("body",
                            "makes {} in trip {}, but {} in the first one",
                            ToString(TensorType::From(*element)), trip,
                            ToString(TensorType::From(*elements[0])));
    }
    CopyStrided({{element.shape().begin(), element.shape().end()},
                 StridesOf(element.shape()),
                 strides,
                 0,
                 static_cast<int64_t>(trip) * step},
                element, y);
  }
  return absl::OkStatus();
}

// Returns the slice at `index` of a side, without that side.
absl::StatusOr<NDArray> SliceAt(const NDArray& tensor, size_t axis,
                                int64_t index) {
  std::vector<int64_t> sides(tensor.shape().begin(), tensor.shape().end());
  std::vector<int64_t> strides = StridesOf(sides);
  const int64_t begin = index * strides[axis];
  const auto at = static_cast<std::ptrdiff_t>(axis);
  sides.erase(sides.begin() + at);
  strides.erase(strides.begin() + at);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray slice,
                            NDArray::Empty(sides, tensor.dtype(), kCpu));
  CopyStrided({sides, strides, StridesOf(sides), begin, 0}, tensor, slice);
  return slice;
}

absl::StatusOr<bool> TruthOf(const EvalArgs& args, size_t i) {
  if (CountOf(args.in(i)) != 1 || !IsBool(args.dtype(i))) {
    return InputError(i, "is not one bool");
  }
  return *args.in(i).As<uint8_t>() != 0;
}

// Returns the type that covers both branches; sides that differ become unknown,
// since only the condition tells which branch runs.
TensorType CommonTypeOf(const TensorType& a, const TensorType& b) {
  TensorType either;
  either.dtype = a.has_dtype() ? a.dtype : b.dtype;
  // Two element types leave the type open.
  if (a.has_dtype() && b.has_dtype() && !(a.dtype == b.dtype)) {
    either.dtype = DLDataType{};
  }
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return either;
  either.shape = a.shape;
  for (size_t i = 0; i < either.shape->size(); ++i) {
    // A name of an unknown side may mean another number in each body.
    const Dim& side = (*a.shape)[i];
    const bool is_same = side.is_known() && side == (*b.shape)[i];
    if (!is_same) (*either.shape)[i] = Dim();
  }
  return either;
}

// Both bodies take nothing but captures. Only the one that is chosen runs,
// while what is said about the outputs has to hold for both.
struct If : ops::If {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&If::else_branch>("else_branch"),
                     RequiredField<&If::then_branch>("then_branch"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(
        CheckBody("else_branch", else_branch, 0),
        CheckBody("then_branch", then_branch, 0), RequireBool(in, 0),
        RequireCount(in, 1 + else_branch.captures + then_branch.captures));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs&, size_t count) const {
    if (OutputsOf(then_branch) < count || OutputsOf(else_branch) < count) {
      return InvalidArgument("has {} outputs, but its bodies {} and {}", count,
                             OutputsOf(then_branch), OutputsOf(else_branch));
    }
    OutputInfos infos;
    for (size_t i = 0; i < count; ++i) {
      infos.emplace_back(CommonTypeOf(OutputTypeOf(then_branch, i),
                                      OutputTypeOf(else_branch, i)));
    }
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const bool is_true, TruthOf(args, 0));
    const Subgraph& branch = is_true ? then_branch : else_branch;
    // Captures come body by body, in the order of the attributes.
    const size_t first = is_true ? 1 + else_branch.captures : 1;
    NODEWISE_ASSIGN_OR_RETURN(std::vector<NDArray> outputs,
                              RunBody(args, branch, {}, first));
    for (size_t i = 0; i < args.num_outputs(); ++i) {
      args.SetOutput(i, std::move(outputs[i]));
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<NDArray> ScalarOf(DLDataType dtype, int64_t value) {
  NODEWISE_ASSIGN_OR_RETURN(const auto scalar, NDArray::Empty({}, dtype, kCpu));
  StoreIntegers(&value, 0, 1, scalar);
  return scalar;
}

// How many values are carried on follows from the number of inputs, and how
// many outputs are stacked from what the body makes beyond them.
struct Loop : ops::Loop {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Loop::body>("body"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireType(in, 0, kInt64),
                                 RequireRank(in, 0, 0, 1), RequireBool(in, 1),
                                 RequireRank(in, 1, 0, 1)));
    if (in.size() < 2 + size_t{body.captures}) {
      return InvalidArgument("has {} inputs, expected {} at least", in.size(),
                             2 + body.captures);
    }
    const size_t carried = in.size() - 2 - body.captures;
    NODEWISE_RETURN_IF_ERROR(CheckBody("body", body, 2 + carried));
    for (size_t i = 2; i < 2 + carried; ++i) {
      NODEWISE_RETURN_IF_ERROR(RequireBodyType(in, i, body, i));
    }
    if (OutputsOf(body) >= 1 + carried) return absl::OkStatus();
    return WrongAttribute("body", "has {} outputs, expected {} at least",
                          OutputsOf(body), 1 + carried);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t count) const {
    const size_t carried = in.size() - 2 - body.captures;
    NODEWISE_RETURN_IF_ERROR(RequireMade(count, OutputsOf(body) - 1));
    OutputInfos infos;
    for (size_t i = 0; i < count; ++i) {
      // Without any trip the inputs are passed on.
      infos.emplace_back(
          i < carried ? CommonTypeOf(in.type(2 + i), OutputTypeOf(body, 1 + i))
                      : Stacked(OutputTypeOf(body, 1 + i), 0, Trips(in)));
    }
    return infos;
  }

  absl::Status Evaluate(EvalArgs& args) const {
    const size_t carried = args.num_inputs() - 2 - body.captures;
    // Without a trip count only the condition ends it.
    int64_t trips = INT64_MAX;
    if (args.has(0)) {
      NODEWISE_ASSIGN_OR_RETURN(const auto given, args.Ints(0));
      if (given.size() != 1) return InputError(0, "is not one number");
      trips = given[0];
    }
    bool goes_on = true;
    if (args.has(1)) {
      NODEWISE_ASSIGN_OR_RETURN(goes_on, TruthOf(args, 1));
    }
    std::vector<NDArray> values;
    for (size_t i = 0; i < carried; ++i) values.push_back(args.in(2 + i));
    // The elements of each scan output, by trip.
    std::vector<std::vector<NDArray>> scans(OutputsOf(body) - 1 - carried);
    // The body takes the trip, the condition and the values, and makes the next
    // condition, the next values, and an element of each scan output.
    for (int64_t trip = 0; trip < trips && goes_on; ++trip) {
      std::vector<NDArray> inputs(2);
      NODEWISE_ASSIGN_OR_RETURN(inputs[0], ScalarOf(kInt64, trip));
      NODEWISE_ASSIGN_OR_RETURN(inputs[1], ScalarOf(kBool, 1));
      std::move(values.begin(), values.end(), std::back_inserter(inputs));
      NODEWISE_ASSIGN_OR_RETURN(
          std::vector<NDArray> made,
          RunBody(args, body, std::move(inputs), 2 + carried));
      if (CountOf(made[0]) != 1 || !IsBool(made[0].dtype())) {
        return AttributeError("body", "makes a condition that is not one bool");
      }
      // If no condition was given, the body's is ignored.
      goes_on = !args.has(1) || *made[0].As<uint8_t>() != 0;
      values.assign(std::make_move_iterator(made.begin() + 1),
                    std::make_move_iterator(made.begin() + 1 +
                                            static_cast<int64_t>(carried)));
      for (size_t i = 0; i < scans.size(); ++i) {
        scans[i].push_back(std::move(made[1 + carried + i]));
      }
    }
    for (size_t i = 0; i < args.num_outputs(); ++i) {
      if (i < carried) {
        args.SetOutput(i, values[i]);
      } else if (args.wants(i)) {
        NODEWISE_RETURN_IF_ERROR(StackOutput(args, i, scans[i - carried], 0,
                                             OutputTypeOf(body, 1 + i)));
      }
    }
    return absl::OkStatus();
  }

 private:
  // A condition may end the loop earlier, so that the trips are unknown then.
  Dim Trips(const Inputs& in) const {
    const auto trips = in.Ints(0);
    if (in.has(1) || !trips.has_value() || trips->size() != 1) return Dim();
    return std::max<int64_t>(0, (*trips)[0]);
  }
};

// How many tensors of each kind a Scan has: its inputs are the states, then the
// scanned ones, then captures, and its outputs the states, then the stacked
// ones.
struct ScanParts {
  size_t states = 0;
  size_t inputs = 0;   // Scanned.
  size_t outputs = 0;  // Stacked.
};

// Fails unless the attribute, the inputs and the body agree. The attribute
// counts the scanned inputs, so all others but captures are states.
absl::StatusOr<ScanParts> PartsOf(const Subgraph& body, int64_t num_scan_inputs,
                                  size_t given) {
  if (given < body.captures) {
    return InvalidArgument("has less inputs than it captures");
  }
  const size_t all = given - body.captures;
  if (num_scan_inputs < 1 || static_cast<uint64_t>(num_scan_inputs) > all) {
    return WrongAttribute("num_scan_inputs", "is {}, expected 1 to {}",
                          num_scan_inputs, all);
  }
  NODEWISE_RETURN_IF_ERROR(CheckBody("body", body, all));
  ScanParts parts;
  parts.inputs = static_cast<size_t>(num_scan_inputs);
  parts.states = all - parts.inputs;
  const size_t made = OutputsOf(body);
  if (made < parts.states) {
    return WrongAttribute("body", "has {} outputs, expected {} at least", made,
                          parts.states);
  }
  parts.outputs = made - parts.states;
  return parts;
}

absl::Status CheckFlags(const char* name, const std::vector<int64_t>& flags,
                        size_t expected, bool are_directions) {
  if (flags.empty()) return absl::OkStatus();
  if (flags.size() != expected) {
    return WrongAttribute(name, "has {} numbers, expected {}", flags.size(),
                          expected);
  }
  for (const int64_t flag : flags) {
    if (!are_directions || flag == 0 || flag == 1) continue;
    return WrongAttribute(name, "has {}, expected 0 or 1", flag);
  }
  return absl::OkStatus();
}

// A list that is not given is all 0.
int64_t NumberAt(const std::vector<int64_t>& list, size_t i) {
  return i < list.size() ? list[i] : 0;
}

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
    // The body makes the states first. They become inputs of the next step, so
    // that the last ones are what is left at the end.
    const auto scanned = outputs.begin() + static_cast<int64_t>(parts.states);
    for (size_t k = 0; k < parts.outputs; ++k) {
      steps->made[k].push_back(std::move(scanned[static_cast<int64_t>(k)]));
    }
    outputs.resize(parts.states);
    steps->states = std::move(outputs);
  }
  return absl::OkStatus();
}

// From opset 9 on there is no batch, and each input has an axis of its own.
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
    NODEWISE_RETURN_IF_ERROR(RequireMade(count, OutputsOf(body)));
    OutputInfos infos;
    for (size_t i = 0; i < count; ++i) {
      // States keep their type; without a single step they are what came in.
      const bool is_state = i < parts.states;
      infos.emplace_back(
          is_state
              ? in.type(i)
              : Stacked(OutputTypeOf(body, i),
                        NumberAt(scan_output_axes, i - parts.states), length));
    }
    return infos;
  }

  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const ScanParts parts,
        PartsOf(body, num_scan_inputs, args.num_inputs()));
    // The axes may count from the end, which depends on the rank.
    std::vector<size_t> axes;
    for (size_t k = 0; k < parts.inputs; ++k) {
      NODEWISE_ASSIGN_OR_RETURN(axes.emplace_back(),
                                FrontAxis(args.shape(parts.states + k),
                                          NumberAt(scan_input_axes, k)));
    }
    const int64_t count = args.shape(parts.states)[axes[0]];
    Steps steps{count};
    for (size_t i = 0; i < parts.states; ++i)
      steps.states.push_back(args.in(i));
    NODEWISE_RETURN_IF_ERROR(RunSteps(
        args, body, parts, parts.states + parts.inputs,
        [&](size_t k, int64_t step) {
          const bool is_back = NumberAt(scan_input_directions, k) == 1;
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
      if (NumberAt(scan_output_directions, k) == 1) {
        std::reverse(made.begin(), made.end());
      }
      NODEWISE_RETURN_IF_ERROR(StackOutput(
          args, i, made, NumberAt(scan_output_axes, k), OutputTypeOf(body, i)));
    }
    return absl::OkStatus();
  }

 private:
  // Returns the number of steps as far as it is known: all scanned inputs are
  // as long as each other along their axes.
  absl::StatusOr<Dim> Length(const Inputs& in, const ScanParts& parts) const {
    Dim length;
    for (size_t k = 0; k < parts.inputs; ++k) {
      const size_t i = parts.states + k;
      const auto rank = RankOf(in, i);
      if (!rank.has_value()) continue;
      const auto axis = Axis(NumberAt(scan_input_axes, k), *rank);
      if (!axis.ok()) return AtInput(i, axis.status());
      const Dim side = SideOf(in, i, static_cast<size_t>(*axis));
      const auto both = UniteDims(length, side);
      if (!both.ok()) {
        return WrongInput(i, "is {} long, expected {}", side.size(),
                          length.size());
      }
      length = *both;
    }
    return length;
  }
};

// In opset 8 each sequence of a batch is scanned by itself; sequences may be
// shorter than the side.
struct Scan8 : ops::Scan8 {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Scan8::body>("body"),
                     Field<&Scan8::directions>("directions"),
                     RequiredField<&Scan8::num_scan_inputs>("num_scan_inputs"));
  }

  absl::Status Check(const Inputs& in) const {
    if (in.size() == 0) return InvalidArgument("has no inputs");
    NODEWISE_ASSIGN_OR_RETURN(const ScanParts parts,
                              PartsOf(body, num_scan_inputs, in.size() - 1));
    NODEWISE_RETURN_IF_ERROR(
        All(CheckFlags("directions", directions, parts.inputs, true),
            RequireType(in, 0, kInt64), RequireRank(in, 0, 1)));
    // Side 0 of all inputs, and side 1 of scanned ones, are the same.
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
    NODEWISE_RETURN_IF_ERROR(RequireMade(count, OutputsOf(body)));
    OutputInfos infos;
    for (size_t i = 0; i < count; ++i) {
      infos.emplace_back(
          i < parts.states
              ? in.type(1 + i)
              : Stacked(Stacked(OutputTypeOf(body, i), 0, length), 0, batch));
    }
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const ScanParts parts,
        PartsOf(body, num_scan_inputs, args.num_inputs() - 1));
    const int64_t batches = args.shape(1 + parts.states)[0];
    const int64_t length = args.shape(1 + parts.states)[1];
    // Without lengths all sequences are as long as the side.
    std::vector<int64_t> counts(static_cast<size_t>(batches), length);
    if (args.has(0)) {
      NODEWISE_ASSIGN_OR_RETURN(counts, args.Ints(0));
    }
    std::vector<std::vector<NDArray>> results(OutputsOf(body));
    for (int64_t batch = 0; batch < batches; ++batch) {
      const int64_t count = counts[static_cast<size_t>(batch)];
      if (count < 0 || count > length) {
        return WrongInput(0, "has {}, expected 0 to {}", count, length);
      }
      NODEWISE_RETURN_IF_ERROR(
          RunSequence(args, parts, batch, count, &results));
    }
    for (size_t i = 0; i < args.num_outputs(); ++i) {
      if (!args.wants(i)) continue;
      TensorType type = OutputTypeOf(body, i);
      if (i >= parts.states) type = Stacked(type, 0, length);
      NODEWISE_RETURN_IF_ERROR(StackOutput(args, i, results[i], 0, type));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status RunSequence(EvalArgs& args, const ScanParts& parts,
                           int64_t batch, int64_t count,
                           std::vector<std::vector<NDArray>>* results) const {
    const int64_t length = args.shape(1 + parts.states)[1];
    Steps steps{count};
    for (size_t i = 0; i < parts.states; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(steps.states.emplace_back(),
                                SliceAt(args.in(1 + i), 0, batch));
    }
    // Each sequence is one item of the batch: side 0 of states and scanned
    // inputs is taken away, and the steps go along what is side 0 then.
    std::vector<NDArray> sequences;
    for (size_t k = 0; k < parts.inputs; ++k) {
      NODEWISE_ASSIGN_OR_RETURN(
          sequences.emplace_back(),
          SliceAt(args.in(1 + parts.states + k), 0, batch));
    }
    NODEWISE_RETURN_IF_ERROR(RunSteps(
        args, body, parts, 1 + parts.states + parts.inputs,
        [&](size_t k, int64_t step) {
          return SliceAt(
              sequences[k], 0,
              NumberAt(directions, k) == 1 ? count - 1 - step : step);
        },
        &steps));
    for (size_t i = 0; i < parts.states; ++i) {
      (*results)[i].push_back(steps.states[i]);
    }
    // The elements that a sequence makes are stacked as an output first, so
    // that the batch can be stacked from it.
    constexpr bool kWanted[] = {true};
    const EvalArgs::Options options;
    for (size_t k = 0; k < parts.outputs; ++k) {
      std::vector<NDArray>& made = steps.made[k];
      // Elements beyond the sequence's end are undefined: 0 here.
      EvalArgs stacked({}, kWanted, options, {});
      const TensorType& type = OutputTypeOf(body, parts.states + k);
      if (static_cast<int64_t>(made.size()) < length) {
        const TensorType each =
            made.empty() ? type : TensorType::From(*made[0]);
        const auto shape = each.sizes().value_or(std::vector<int64_t>());
        NODEWISE_ASSIGN_OR_RETURN(const NDArray none,
                                  NDArray::Empty(shape, each.dtype, kCpu));
        const uint64_t zero = 0;
        FillWith(none, &zero);
        made.resize(static_cast<size_t>(length), none);
      }
      NODEWISE_RETURN_IF_ERROR(StackOutput(stacked, 0, made, 0, type));
      (*results)[parts.states + k].push_back(stacked.outputs()[0]);
    }
    return absl::OkStatus();
  }
};

constexpr OperatorDef kControlFlowRows[] = {
    Row<ops::If, If>("If", 1, {"cond", Variadic("captures")},
                     {Variadic("outputs")}, kSum),
    Row<ops::Loop, Loop>(
        "Loop", 1, {Optional("M"), Optional("cond"), Variadic("v_initial")},
        {Variadic("v_final_and_scan_outputs")}, kSum),
    Row<ops::Scan8, Scan8>(
        "Scan", 8,
        {Optional("sequence_lens"), Variadic("initial_state_and_scan_inputs")},
        {Variadic("final_state_and_scan_outputs")}, kSum),
    Row<ops::Scan, Scan>("Scan", 9, {Variadic("initial_state_and_scan_inputs")},
                         {Variadic("final_state_and_scan_outputs")}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> ControlFlowOperators() {
  return kControlFlowRows;
}

}  // namespace nodewise
