#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nodewise/ir/network.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/op/op_row.h"

// A few small operators for tests of networks, made as the real ones are.
namespace nodewise::test_ops {

inline absl::Status NotEvaluated() {
  return absl::UnimplementedError("tests of networks do not evaluate");
}

// Counts how often it infers.
struct Relu {
  static inline int inferences = 0;
  static OutputInfos Infer(const Inputs& in) {
    ++inferences;
    return {in.type(0)};
  }
  static absl::Status Check(const Inputs& in) {
    const DLDataType dtype = in.type(0).dtype;
    if (dtype.bits == 0 || dtype.code == kDLFloat) return absl::OkStatus();
    return absl::InvalidArgumentError("input 0 (X): is " + ToString(dtype) +
                                      ", expected a float type");
  }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

struct Add {
  static absl::StatusOr<OutputInfos> Infer(const Inputs& in) {
    const TensorType& a = in.type(0);
    const TensorType& b = in.type(1);
    TensorType both(a.has_dtype() ? a.dtype : b.dtype);
    if (a.has_rank() && b.has_rank()) {
      auto shape = BroadcastShapes({*a.shape, *b.shape});
      if (!shape.ok()) return shape.status();
      both.shape = *std::move(shape);
    }
    return OutputInfos{both};
  }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

enum class Rounding { kEven, kDown };

}  // namespace nodewise::test_ops

template <>
struct nodewise::Words<nodewise::test_ops::Rounding> {
  static constexpr std::pair<test_ops::Rounding, std::string_view> kAll[] = {
      {test_ops::Rounding::kEven, "even"}, {test_ops::Rounding::kDown, "down"}};
};

namespace nodewise::test_ops {

// One attribute of every kind but a graph; `factor` is required.
struct Scale {
  float factor = 0;
  int64_t times = 1;
  std::string label = {};
  std::vector<int64_t> axes = {};
  std::vector<float> offsets = {};
  std::vector<std::string> tags = {};
  std::optional<NDArray> table = {};
  std::optional<DLDataType> to = {};
  Rounding rounding = Rounding::kEven;
  bool is_exact = false;

  static constexpr auto Fields() {
    return FieldList(
        RequiredField<&Scale::factor>("factor"), Field<&Scale::times>("times"),
        Field<&Scale::label>("label"), Field<&Scale::axes>("axes"),
        Field<&Scale::offsets>("offsets"), Field<&Scale::tags>("tags"),
        Field<&Scale::table>("table"), Field<&Scale::to>("to"),
        Field<&Scale::rounding>("rounding"),
        Field<&Scale::is_exact>("is_exact"));
  }
  OutputInfos Infer(const Inputs& in) const {
    TensorType type = in.type(0);
    if (to.has_value()) type.dtype = *to;
    return {type};
  }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

struct Softmax {
  int64_t axis = -1;
  static constexpr auto Fields() {
    return FieldList(Field<&Softmax::axis>("axis"));
  }
  absl::Status Check(const Inputs& in) const {
    if (!in.type(0).has_rank()) return absl::OkStatus();
    const int rank = in.type(0).rank();
    if (axis >= -rank && axis < rank) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "attribute axis: is " + std::to_string(axis) + ", expected -" +
        std::to_string(rank) + " to " + std::to_string(rank - 1));
  }
  static OutputInfos Infer(const Inputs& in) { return {in.type(0)}; }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

// Any number of equal pieces of the first side.
struct Split {
  static OutputInfos Infer(const Inputs& in, size_t count) {
    TensorType piece = in.type(0);
    if (piece.has_rank() && piece.rank() > 0) {
      Dim& side = (*piece.shape)[0];
      side = side.is_known() ? Dim(side.size() / static_cast<int64_t>(count))
                             : Dim();
    }
    return OutputInfos(count, piece);
  }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

// X, and a mask that need not be wanted; bounds that need not be given.
struct Clip {
  static OutputInfos Infer(const Inputs& in, size_t count) {
    OutputInfos infos(count, in.type(0));
    if (count > 1) infos[1].type.dtype = kBool;
    return infos;
  }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

struct Join {
  static absl::Status Check(const Inputs& in) {
    if (in.size() > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("has no inputs, expected 1 or more");
  }
  static OutputInfos Infer(const Inputs& in) {
    return {TensorType(in.type(0).dtype)};
  }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

// The sides of its input, as elements that are known or not.
struct ShapeOf {
  static OutputInfos Infer(const Inputs& in) {
    OutputInfo info(TensorType(kInt64, {Dim()}));
    if (in.type(0).has_rank()) {
      info.type.shape = {Dim(in.type(0).rank())};
      info.elements = in.type(0).shape;
    }
    return {info};
  }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

struct Reshape {
  static OutputInfos Infer(const Inputs& in) {
    TensorType type(in.type(0).dtype);
    if (in[1].elements != nullptr) {
      type.shape = *in[1].elements;
      for (Dim& dim : *type.shape) {
        if (dim.is_known() && dim.size() < 0) dim = Dim();
      }
    }
    return {type};
  }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

// A condition, and what the bodies capture.
struct If {
  Subgraph then_branch = {};
  Subgraph else_branch = {};
  static constexpr auto Fields() {
    return FieldList(RequiredField<&If::then_branch>("then_branch"),
                     RequiredField<&If::else_branch>("else_branch"));
  }
  OutputInfos Infer(const Inputs&, size_t count) const {
    OutputInfos infos(count);
    const Network& body = *then_branch.body;
    for (size_t i = 0; i < count && i < body.outputs().size(); ++i) {
      infos[i].type = body.value(body.outputs()[i]).type;
    }
    return infos;
  }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

// Says what a test wants it to say.
struct Moody {
  static inline OutputInfos says = {TensorType(kFloat32)};
  static OutputInfos Infer(const Inputs&) { return says; }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

struct Dequantize {
  static OutputInfos Infer(const Inputs& in) {
    TensorType type = in.type(0);
    type.dtype = kFloat32;
    return {type};
  }
  static absl::Status Evaluate(EvalArgs&) { return NotEvaluated(); }
};

inline constexpr OperatorDef kRows[] = {
    Row<Relu>("Relu", 6, {"X"}, {"Y"}, kExact, kElementwise),
    Row<Relu>("Relu", 14, {"X"}, {"Y"}, kExact, kElementwise),
    Row<Add>("Add", 7, {"A", "B"}, {"C"}, kExact, kElementwise),
    Row<Scale>(
        {.name = "Scale", .since = 1, .inputs = {"X"}, .outputs = {"Y"}}),
    Row<Softmax>(
        {.name = "Softmax", .since = 13, .inputs = {"X"}, .outputs = {"Y"}}),
    Row<Split>({.name = "Split",
                .since = 2,
                .inputs = {"X"},
                .outputs = {Variadic("pieces")}}),
    Row<Clip>({.name = "Clip",
               .since = 11,
               .inputs = {"X", Optional("min"), Optional("max")},
               .outputs = {"Y", Optional("mask")},
               .traits = kElementwise}),
    Row<Join>({.name = "Join",
               .since = 4,
               .inputs = {Variadic("parts")},
               .outputs = {"Y"}}),
    Row<ShapeOf>(
        {.name = "Shape", .since = 1, .inputs = {"X"}, .outputs = {"Y"}}),
    Row<Reshape>({.name = "Reshape",
                  .since = 5,
                  .inputs = {"X", "shape"},
                  .outputs = {"Y"}}),
    Row<If>({.name = "If",
             .since = 11,
             .inputs = {"cond", Variadic("captured")},
             .outputs = {Variadic("results")}}),
    Row<Dequantize>(
        {.name = "Dequantize", .since = 10, .inputs = {"X"}, .outputs = {"Y"}}),
    Row<Moody>({.name = "Moody",
                .domain = "com.test",
                .since = 1,
                .inputs = {"X"},
                .outputs = {"Y"}}),
};

inline const OpSet& Ops() {
  static const OpSet* const ops = [] {
    auto* const set = new OpSet;
    set->Add(kRows);
    return set;
  }();
  return *ops;
}

// The attributes of an operator without any, or of those given.
template <typename Class>
OpAttrs AttrsOf(Class op = {}) {
  return OpAttrs::From(Ops().FindType(&kTypeTag<Class>), op);
}

// The text of a network with everything in it.
inline std::string TextOf(const Network& network) {
  return NetworkToText(network.data());
}

}  // namespace nodewise::test_ops
