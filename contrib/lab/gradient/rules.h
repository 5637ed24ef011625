#pragma once

// The tables of gradients: for each class of operator a rule, or what it is in
// simpler operators.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "contrib/lab/gradient/writer.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/ir/network.h"

namespace nodewise::gradient {

// One operation, as its rule sees it.
class Rule {
 public:
  // `cotangents` are by output; empty terms for those that nothing reads.
  // `wanted` are the values whose gradients are asked for.
  Rule(Operation operation, std::vector<Term> cotangents,
       const std::set<ValueId>& wanted, Writer* writer)
      : operation_(std::move(operation)),
        cotangents_(std::move(cotangents)),
        wanted_(wanted),
        writer_(*writer) {}

  const Operation& operation() const { return operation_; }
  template <typename Class>
  const Class& As() const {
    return *operation_.attrs.As<Class>();
  }
  Writer& writer() const { return writer_; }
  size_t num_inputs() const { return operation_.inputs.size(); }
  size_t num_outputs() const { return operation_.outputs.size(); }
  bool has(size_t i) const {
    return i < num_inputs() && operation_.inputs[i] != kNoValue;
  }
  // Returns whether something is to reach input `i`. Most rules need not ask:
  // terms that are not read are removed.
  bool wants(size_t i) const {
    return has(i) && wanted_.contains(operation_.inputs[i]);
  }
  // Its inputs and outputs. REQUIRE: they are there.
  Term x(size_t i = 0) const { return writer_.Of(operation_.inputs[i]); }
  Term y(size_t i = 0) const { return writer_.Of(operation_.outputs[i]); }
  bool wants_output(size_t i) const {
    return i < num_outputs() && operation_.outputs[i] != kNoValue;
  }
  // The cotangent of an output. REQUIRES: has_dy(i).
  Term dy(size_t i = 0) const { return cotangents_[i]; }
  bool has_dy(size_t i) const {
    return i < cotangents_.size() && cotangents_[i].is_given();
  }
  // The integers of an input that is known; none if it is not.
  std::optional<std::vector<int64_t>> KnownInts(size_t i) const;
  // The integers of an input; if they are not known, an error of the writer's.
  std::vector<int64_t> Ints(size_t i) const;

  // Says what reaches input `i`. Undoes broadcasting, and takes the type of the
  // input. A gradient that is not wanted is dropped.
  void Give(size_t i, Term gradient);
  // This use of the operator has no gradient.
  void Refuse(std::string_view what) const;
  // It fails, and its place is named.
  void Fail(const absl::Status& status) const;

  const std::map<size_t, Term>& given() const { return given_; }

 private:
  const Operation operation_;
  const std::vector<Term> cotangents_;
  const std::set<ValueId>& wanted_;
  Writer& writer_;
  std::map<size_t, Term> given_;
};

struct Row {
  const void* type = nullptr;  // OperatorDef::type.
  GradientKind kind = GradientKind::kZero;
  void (*rule)(Rule& rule) = nullptr;
  // Returns the outputs that are wanted.
  std::vector<Term> (*define)(Rule& rule) = nullptr;
};

template <typename Class>
constexpr Row RuleOf(void (*rule)(Rule& rule)) {
  return {&kTypeTag<Class>, GradientKind::kRule, rule, nullptr};
}
template <typename Class>
constexpr Row DefinitionOf(std::vector<Term> (*define)(Rule& rule)) {
  return {&kTypeTag<Class>, GradientKind::kDefinition, nullptr, define};
}
template <typename Class>
constexpr Row ZeroOf() {
  return {&kTypeTag<Class>, GradientKind::kZero, nullptr, nullptr};
}

absl::Span<const Row> FunctionRows();  // Functions of one number.
absl::Span<const Row> ArithmeticRows();
absl::Span<const Row> ProductRows();
absl::Span<const Row> WindowRows();
absl::Span<const Row> NormRows();
absl::Span<const Row> ReduceRows();
absl::Span<const Row> MoveRows();
absl::Span<const Row> IndexRows();
absl::Span<const Row> ResizeRows();
absl::Span<const Row> RoiRows();
absl::Span<const Row> SamplingRows();
absl::Span<const Row> SignalRows();
absl::Span<const Row> RecurrentRows();
absl::Span<const Row> AttentionRows();
absl::Span<const Row> SequenceRows();
absl::Span<const Row> ControlRows();

// Returns the row of a class, or null.
const Row* FindRow(const void* type);

}  // namespace nodewise::gradient
