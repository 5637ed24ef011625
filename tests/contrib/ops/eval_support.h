#pragma once

// One operation, evaluated or inferred by its name, for tests of operators.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {

using Ints = std::vector<int64_t>;
using Numbers = std::vector<float>;

inline constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline NDArray Long(int64_t value) { return MakeTensor<int64_t>({}, {value}); }
inline NDArray Float(float value) { return MakeTensor<float>({}, {value}); }
inline NDArray Longs(const Ints& values) {
  return MakeTensor<int64_t>({static_cast<int64_t>(values.size())}, values);
}
inline NDArray Matrix() {
  return MakeTensor<float>({2, 3}, {1, 2, 3, 4, 5, 6});
}
inline Shape Dims(const Ints& sizes) {
  return Shape(sizes.begin(), sizes.end());
}

inline NamedAttr Attr(const char* name, int64_t value) { return {name, value}; }
inline NamedAttr Real(const char* name, float value) { return {name, value}; }
inline NamedAttr Word(const char* name, const char* value) {
  return {name, std::string(value)};
}

// An operator of this opset with its attributes. Inputs that are left out are
// NDArray().
struct OpSetup {
  const char* name;
  int opset = kNewestOpset;
  std::vector<NamedAttr> attrs = {};
  size_t num_outputs = 1;
  const char* domain = "";

  absl::StatusOr<OpAttrs> Make() const {
    const OperatorDef* const def = AllOperators().Find(domain, name, opset);
    if (def == nullptr) return absl::NotFoundError(name);
    return MakeAttrs(*def, attrs);
  }
};

// Evaluates an operation; without bounds by default.
inline absl::StatusOr<Evaluated> EvaluateAll(const OpSetup& operation,
                                             std::vector<NDArray> inputs,
                                             bool with_bounds = false) {
  NODEWISE_ASSIGN_OR_RETURN(const OpAttrs attrs, operation.Make());
  EvalArgs::Options options;
  options.with_bounds = with_bounds;
  const absl::InlinedVector<bool, 4> wanted(operation.num_outputs, true);
  return Evaluate(attrs,
                  Tensors(std::make_move_iterator(inputs.begin()),
                          std::make_move_iterator(inputs.end())),
                  wanted, options);
}

// Returns the first output.
inline absl::StatusOr<NDArray> EvaluateOne(const OpSetup& operation,
                                           std::vector<NDArray> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const Evaluated evaluated,
                            EvaluateAll(operation, std::move(inputs)));
  return evaluated.outputs[0];
}

// Returns the elements of the first output; fails the test if there is none.
template <typename T = float>
std::vector<T> ElementsOf(const OpSetup& operation,
                          std::vector<NDArray> inputs) {
  const auto output = EvaluateOne(operation, std::move(inputs));
  EXPECT_THAT(output, IsOk());
  if (!output.ok()) return {};
  return ValuesOf<T>(*output);
}

// What is known about an input: "float32[batch, 3]", for ParseTensorType.
struct Known {
  const char* type;
  std::optional<Shape> elements = std::nullopt;
};

inline absl::StatusOr<OutputInfos> InferOf(const OpSetup& operation,
                                           const std::vector<Known>& known) {
  NODEWISE_ASSIGN_OR_RETURN(const OpAttrs attrs, operation.Make());
  std::vector<InputInfo> infos(known.size());
  for (size_t i = 0; i < known.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(infos[i].type, ParseTensorType(known[i].type));
    infos[i].is_given = true;
    if (known[i].elements.has_value()) infos[i].elements = &*known[i].elements;
  }
  const OperatorDef& def = attrs.def();
  NODEWISE_RETURN_IF_ERROR(def.check(attrs.get(), Inputs(infos)));
  return def.infer(attrs.get(), Inputs(infos), operation.num_outputs);
}

// Returns the type of the first output as text, or the error.
inline std::string InferredType(const OpSetup& operation,
                                const std::vector<Known>& known) {
  const auto infos = InferOf(operation, known);
  return infos.ok() ? ToString((*infos)[0].type) : infos.status().ToString();
}
// Returns the known elements of the first output as text; "" for none.
inline std::string KnownElements(const OpSetup& operation,
                                 const std::vector<Known>& known) {
  const auto infos = InferOf(operation, known);
  if (!infos.ok()) return infos.status().ToString();
  const auto& elements = (*infos)[0].elements;
  return elements.has_value() ? ToString(*elements) : "";
}

}  // namespace nodewise
