#include "contrib/emit_c/element_group.h"

#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

// The side of the first input that the second one's first side goes with; none
// if its sides go with the last ones.
std::optional<int64_t> AxisOf(const Row& row, const Operation& operation) {
  // Below opset 7 the slope is one number, or one for each channel.
  const bool is_old_prelu =
      operation.attrs.As<ops::PRelu>() != nullptr && operation.def().since < 7;
  if (is_old_prelu) return 1;
  if (row.axis == nullptr) return std::nullopt;
  const ops::AxisBroadcast& broadcast = *row.axis(operation.attrs.get());
  return broadcast.broadcast ? broadcast.axis : std::nullopt;
}

// The sides of an input as they lie on those of the output.
Sizes AlignedSizes(const Row& row, const Operation& operation, size_t slot,
                   const Sizes& sizes, size_t rank) {
  if (slot != 1 || CountIn(sizes) == 1) return sizes;
  std::optional<int64_t> axis = AxisOf(row, operation);
  if (!axis.has_value()) return sizes;
  if (*axis < 0) *axis += static_cast<int64_t>(rank);
  Sizes aligned = sizes;
  while (static_cast<int64_t>(aligned.size()) + *axis <
         static_cast<int64_t>(rank)) {
    aligned.push_back(1);
  }
  return aligned;
}

// Whether a tensor of these sides can be repeated over others.
bool IsRepeatable(const Sizes& from, const Sizes& to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 1; i <= from.size(); ++i) {
    const int64_t size = from[from.size() - i];
    if (size != 1 && size != to[to.size() - i]) return false;
  }
  return true;
}

absl::StatusOr<std::string> Expression(const Row& row,
                                       const ElementCode& code) {
  if (row.element != nullptr) return row.element(code);
  if (!IsFloat(code.in[0].dtype)) {
    return Refuse(fmt::format("input 0: is {}, expected a float",
                              ToString(code.in[0].dtype)));
  }
  const std::string x = fmt::format("(double){}", code.in[0].name);
  return fmt::format("({}){}", CTypeOf(code.out),
                     fmt::format(fmt::runtime(row.formula), fmt::arg("x", x)));
}

}  // namespace

bool ElementGroup::Has(OperationId id) const {
  for (const Step& step : steps_) {
    if (step.operation == id) return true;
  }
  return false;
}

// An operator may want an input for its type alone.
bool ElementGroup::IsRead(const std::string& variable) const {
  for (const Step& step : steps_) {
    if (HasWord(step.expression, variable)) return true;
  }
  return false;
}

std::string ElementGroup::Variable() const {
  return fmt::format("x{}", loads_.size() + steps_.size());
}

std::string ElementGroup::LoadOf(ValueId id, const View& view) {
  for (const Load& load : loads_) {
    if (load.value == id && load.view.strides == view.strides) {
      return load.variable;
    }
  }
  loads_.push_back({id, view, Variable()});
  return loads_.back().variable;
}

absl::Status ElementGroup::Add(const Operation& operation, const Row& row,
                               const std::map<ValueId, CTensor>& tensors) {
  ElementGroup next = *this;
  const ValueId output = operation.outputs[0];
  const CTensor& out = tensors.at(output);
  next.sizes_ = out.sizes;
  ElementCode code{operation, {}, ComputedType(out.dtype), out.dtype};
  for (size_t slot = 0; slot < operation.inputs.size(); ++slot) {
    const ValueId id = operation.inputs[slot];
    // A CastLike uses only the type of its second input.
    const bool is_type = slot == 1 && operation.attrs.As<ops::CastLike>();
    if (id == kNoValue || is_type) {
      code.in.emplace_back();
      continue;
    }
    const CTensor& in = tensors.at(id);
    const auto variable = next.variables_.find(id);
    const Sizes aligned =
        AlignedSizes(row, operation, slot, in.sizes, out.sizes.size());
    if (!IsRepeatable(aligned, out.sizes)) {
      return Refuse(fmt::format("input {}: does not lie on the output", slot));
    }
    code.in.push_back({variable != next.variables_.end()
                           ? variable->second
                           : next.LoadOf(id, RepeatedView(aligned, out.sizes)),
                       ComputedType(in.dtype)});
  }
  NODEWISE_ASSIGN_OR_RETURN(std::string expression, Expression(row, code));
  // Every operation of the reference rounds what it makes.
  const std::string_view short_name = ShortFloatName(out.dtype);
  if (!short_name.empty()) {
    expression = fmt::format("nw_as_{}({})", short_name, expression);
  }
  next.variables_[output] = next.Variable();
  next.made_.push_back(output);
  next.steps_.push_back(
      {operation.id, row.name, output, std::move(expression)});
  *this = std::move(next);
  return absl::OkStatus();
}

void ElementGroup::Write(CodeWriter* code,
                         const std::map<ValueId, CTensor>& tensors) const {
  std::string names;
  for (const Step& step : steps_) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", step.name);
  }
  std::vector<View> views;
  for (const Load& load : loads_) views.push_back(load.view);
  views.push_back(CompactView(sizes_));
  const LoopNest nest(sizes_, views);
  if (nest.is_empty()) return;
  code->Line(fmt::format("/* {} */", names));
  // C has one scope for the names of all code that is in no loop.
  const bool is_block = CountIn(sizes_) == 1;
  if (is_block) code->Open();
  nest.Open(code);
  for (size_t i = 0; i < loads_.size(); ++i) {
    if (!IsRead(loads_[i].variable)) continue;
    const CTensor& tensor = tensors.at(loads_[i].value);
    const std::string_view short_name = ShortFloatName(tensor.dtype);
    const std::string element = fmt::format("{}[{}]", tensor.name, nest.At(i));
    code->Line(
        fmt::format("const {} {} = {};", CTypeOf(ComputedType(tensor.dtype)),
                    loads_[i].variable,
                    short_name.empty()
                        ? element
                        : fmt::format("nw_from_{}({})", short_name, element)));
  }
  for (const Step& step : steps_) {
    const CTensor& tensor = tensors.at(step.output);
    const std::string& variable = variables_.at(step.output);
    code->Line(fmt::format("const {} {} = {};",
                           CTypeOf(ComputedType(tensor.dtype)), variable,
                           step.expression));
    if (tensor.name.empty()) continue;
    const std::string_view short_name = ShortFloatName(tensor.dtype);
    code->Line(
        fmt::format("{}[{}] = {};", tensor.name, nest.At(loads_.size()),
                    short_name.empty()
                        ? variable
                        : fmt::format("nw_to_{}({})", short_name, variable)));
  }
  nest.Close(code);
  if (is_block) code->Close();
}

}  // namespace nodewise::emit_c
