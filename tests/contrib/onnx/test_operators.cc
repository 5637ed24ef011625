#include "tests/contrib/onnx/test_operators.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "nodewise/op/evaluate.h"
#include "nodewise/op/op_row.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

absl::Status MapFloats(EvalArgs& args, const std::function<float(float)>& f) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                            args.MakeOutput(0, args.shape(0), args.dtype(0)));
  const float* const in = args.in(0).As<float>();
  const size_t count = out.bytes() / sizeof(float);
  std::transform(in, in + count, out.As<float>(), f);
  return absl::OkStatus();
}

// Operators whose output has the type of their first input.
struct Unary {
  OutputInfos Infer(const Inputs& in) const { return {in.type(0)}; }
};

struct Neg : Unary {
  absl::Status Check(const Inputs& in) const {
    if (!in.type(0).has_dtype() || in.type(0).dtype.code == kDLFloat) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("input X: is not a float, expected one");
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return MapFloats(args, [](float x) { return -x; });
  }
};

struct Plus : Unary {
  absl::Status Evaluate(EvalArgs& args) const {
    const float* other = args.in(1).As<float>();
    return MapFloats(args, [&](float x) { return x + *other++; });
  }
};

struct Scale : Unary {
  float factor;
  float offset = 0;
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Scale::factor>("factor"),
                     Field<&Scale::offset>("offset"));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return MapFloats(args, [&](float x) { return x * factor + offset; });
  }
};

struct Sides {
  OutputInfos Infer(const Inputs& in) const {
    OutputInfo info(TensorType(kInt64, Shape{Dim()}));
    if (in.type(0).has_rank()) {
      info.type.shape = Shape{Dim(in.type(0).rank())};
      info.elements = in.type(0).shape;
    }
    return {info};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const auto rank = static_cast<int64_t>(args.shape(0).size());
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, {rank}, kInt64));
    std::copy(args.shape(0).begin(), args.shape(0).end(), out.As<int64_t>());
    return absl::OkStatus();
  }
};

struct Fit {
  OutputInfos Infer(const Inputs& in) const {
    TensorType type(in.type(0).dtype);
    if (in[1].elements != nullptr) {
      type.shape = *in[1].elements;
    } else if (const auto sides = in.Ints(1)) {
      type.shape = Shape(sides->begin(), sides->end());
    }
    return {type};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto sides, args.Ints(1));
    NODEWISE_ASSIGN_OR_RETURN(NDArray out,
                              args.in(0).View(sides, args.dtype(0)));
    args.SetOutput(0, std::move(out));
    return absl::OkStatus();
  }
};

// Operators that are only imported, never run.
struct Passive : Unary {
  absl::Status Evaluate(EvalArgs& args) const {
    args.SetOutput(0, args.in(0));
    return absl::OkStatus();
  }
};
struct Squash : Passive {};
struct Best : Passive {};
struct Bound : Passive {};
struct Identity : Passive {};
struct Late : Passive {};

struct Halve {
  OutputInfos Infer(const Inputs& in, size_t outputs) const {
    return OutputInfos(outputs, in.type(0));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return MapFloats(args, [](float x) { return x / 2; });
  }
};

struct Choose {
  Subgraph then_branch;
  Subgraph else_branch;
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Choose::then_branch>("then_branch"),
                     RequiredField<&Choose::else_branch>("else_branch"));
  }
  OutputInfos Infer(const Inputs&, size_t outputs) const {
    return OutputInfos(outputs);
  }
  absl::Status Evaluate(EvalArgs&) const {
    return absl::UnimplementedError("Choose is not run");
  }
};

}  // namespace

const OpSet& TestOperators() {
  static const OperatorDef rows[] = {
      Row<Neg>("Neg", 6, {"X"}, {"Y"}, kExact, kElementwise),
      Row<Plus>({.name = "Plus", .inputs = {"A", "B"}, .outputs = {"C"}}),
      Row<Scale>({.name = "Scale", .inputs = {"X"}, .outputs = {"Y"}}),
      Row<Sides>({.name = "Sides", .inputs = {"X"}, .outputs = {"Y"}}),
      Row<Fit>({.name = "Fit", .inputs = {"X", "sides"}, .outputs = {"Y"}}),
      Row<Squash>({.name = "Squash",
                   .inputs = {"X", Optional("axes")},
                   .outputs = {"Y"},
                   .moved = {{"axes", 1, 13}}}),
      Row<Best>({.name = "Best",
                 .inputs = {"X", "k"},
                 .outputs = {"Y"},
                 .moved = {{"k", 1, 10, true}}}),
      Row<Bound>({.name = "Bound",
                  .inputs = {"X", Optional("limit")},
                  .outputs = {"Y"},
                  .moved = {{"limit", 1, 11}}}),
      Row<Identity>({.name = "Identity", .inputs = {"X"}, .outputs = {"Y"}}),
      Row<Halve>(
          {.name = "Halve", .inputs = {"X"}, .outputs = {"Y", Optional("Z")}}),
      Row<Choose>({.name = "Choose",
                   .inputs = {"which", Variadic("captures")},
                   .outputs = {Variadic("Y")}}),
      Row<Late>(
          {.name = "Late", .since = 15, .inputs = {"X"}, .outputs = {"Y"}}),
  };
  static const OpSet* const all = [] {
    auto* const set = new OpSet;
    set->Add(rows);
    return set;
  }();
  return *all;
}

}  // namespace nodewise
