#pragma once

// The tables of gradients: for each class of operator a rule, or what it is in
// simpler operators.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "contrib/lab/gradient/writer.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/shape_rules.h"

namespace nodewise::gradient {

// One operation, as its rule sees it.
struct Rule {
  const Operation operation;
  // By output; empty terms for those that nothing reads.
  const Terms cotangents;
  // The values whose gradients are asked for.
  const std::set<ValueId>& wanted;
  Writer& writer;
  // What reaches the inputs, as far as it has been said.
  std::map<size_t, Term> given = {};

  template <typename Class>
  const Class& As() const {
    return *operation.attrs.As<Class>();
  }
  size_t num_inputs() const { return operation.inputs.size(); }
  size_t num_outputs() const { return operation.outputs.size(); }
  bool has(size_t i) const {
    return i < num_inputs() && operation.inputs[i] != kNoValue;
  }
  // Returns whether something is to reach input `i`. Most rules need not ask:
  // terms that are not read are removed.
  bool wants(size_t i) const {
    return has(i) && wanted.contains(operation.inputs[i]);
  }
  // Its inputs and outputs. REQUIRE: they are there.
  Term x(size_t i = 0) const { return writer.TermOf(operation.inputs[i]); }
  Term y(size_t i = 0) const { return writer.TermOf(operation.outputs[i]); }
  // The cotangent of an output. REQUIRES: has_dy(i).
  Term dy(size_t i = 0) const { return cotangents[i]; }
  bool has_dy(size_t i) const {
    return i < cotangents.size() && cotangents[i].is_given();
  }
  // The data of an input; undefined if it is not a constant.
  const NDArray& DataOf(size_t i) const {
    return writer.network().value(operation.inputs[i]).data;
  }
  // The integers of an input that is known; none if it is not.
  std::optional<Sizes> KnownInts(size_t i) const;
  // The integers of an input; if they are not known, an error of the writer's.
  Sizes Ints(size_t i) const;

  // Says what reaches input `i`. Undoes broadcasting, and takes the type of the
  // input. A gradient that is not wanted is dropped.
  void SetGradient(size_t i, Term gradient);
  // This use of the operator has no gradient.
  void Refuse(std::string_view what) const;
  // It fails, and its place is named.
  void Fail(const absl::Status& status) const;
};

// What the gradient of an operator with one input that counts is made of.
struct Point {
  const Rule& r;
  Term x;  // Input 0.
  Term y;  // Output 0, and its cotangent.
  Term dy;
};
inline Point PointOf(const Rule& r) { return {r, r.x(), r.y(), r.dy()}; }

// How the gradient of one class of operator is found: by one of the functions.
struct Row {
  const void* type = nullptr;  // OperatorDef::type.
  GradientKind kind = GradientKind::kZero;
  // Gives what reaches each input.
  void (*rule)(Rule& rule) = nullptr;
  // Returns the outputs that are wanted.
  Terms (*define)(Rule& rule) = nullptr;
  // Returns what reaches input 0 at this point. An empty term: nothing does.
  Term (*formula)(Point p) = nullptr;
  Point (*point)(const Rule& rule) = &PointOf;

  void GiveGradients(Rule& r) const {
    if (formula == nullptr) return rule(r);
    r.SetGradient(0, formula(point(r)));
  }
};

template <typename Class>
constexpr Row RuleOf(void (*rule)(Rule& rule)) {
  return {.type = &kTypeTag<Class>, .kind = GradientKind::kRule, .rule = rule};
}
template <typename Class>
constexpr Row FormulaOf(Term (*formula)(Point p),
                        Point (*point)(const Rule& rule) = &PointOf) {
  return {.type = &kTypeTag<Class>,
          .kind = GradientKind::kRule,
          .formula = formula,
          .point = point};
}
template <typename Class>
constexpr Row DefinitionOf(Terms (*define)(Rule& rule)) {
  return {.type = &kTypeTag<Class>,
          .kind = GradientKind::kDefinition,
          .define = define};
}
// Those of functions that take the operator's attributes as well.
template <typename Class, void (*kRule)(Rule& rule, const Class& op)>
constexpr Row RuleOf() {
  return RuleOf<Class>([](Rule& r) { kRule(r, r.As<Class>()); });
}
template <typename Class, Term (*kFormula)(Point p, const Class& op)>
constexpr Row FormulaOf() {
  return FormulaOf<Class>([](Point p) { return kFormula(p, p.r.As<Class>()); });
}
template <typename Class, Terms (*kDefine)(Rule& rule, const Class& op)>
constexpr Row DefinitionOf() {
  return DefinitionOf<Class>([](Rule& r) { return kDefine(r, r.As<Class>()); });
}
template <typename Class>
constexpr Row ZeroOf() {
  return {.type = &kTypeTag<Class>, .kind = GradientKind::kZero};
}

absl::Span<const Row> ElementwiseRows();
absl::Span<const Row> SumRows();     // Products, reductions, normalizations.
absl::Span<const Row> WindowRows();  // Convolutions, pools.
absl::Span<const Row> FourierRows();
absl::Span<const Row> MoveRows();
absl::Span<const Row> ImageRows();
absl::Span<const Row> SequenceRows();
absl::Span<const Row> ControlRows();

// Returns the window with all attributes resolved, for `spatial` sides. Where
// they do not fit it is empty and the writer has failed.
Window Resolved(Writer& writer, const WindowAttributes& attributes,
                size_t spatial);
// Those of an operator, for windows of these sizes.
template <typename Class>
Window Resolved(Writer& writer, const Class& op, Sizes kernel, size_t spatial) {
  WindowAttributes given;
  given.kernel_shape = std::move(kernel);
  given.strides = op.strides;
  given.pads = op.pads;
  if constexpr (requires { op.auto_pad; }) given.auto_pad = op.auto_pad;
  if constexpr (requires { op.dilations; }) given.dilations = op.dilations;
  return Resolved(writer, given, spatial);
}

// A copy of the order, since what is added or replaced changes the network's.
std::vector<OperationId> OrderOf(const Network& network);

// Returns the values that depend on these through floats, and these.
std::set<ValueId> PathFrom(const Network& network,
                           absl::Span<const ValueId> from);

// Gives all bodies what is known outside of them: the types of their inputs,
// and constants in place of constants that they capture. So more is known about
// what they make. Loops whose carried values may change their sizes stay as
// they are. Operations that are replaced have other numbers.
absl::Status CloseBodies(Network* network);

}  // namespace nodewise::gradient
