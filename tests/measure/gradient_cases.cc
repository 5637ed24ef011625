// Draws uses of operators as `nodewise autotest` does, in double, and writes
// each with its gradient as a line of JSON, for torch_gradients.py.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/lab/gradient/double_case.h"

namespace nodewise {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kUsualCases = 40;

struct ValueJson {
  Json operator()(const NDArray& x) const { return ToDoubles(x); }
  Json operator()(const Subgraph&) const { return nullptr; }
  template <typename T>
  Json operator()(const T& x) const {
    return x;
  }
};

Json TensorJson(const NDArray& tensor) {
  return {{"shape",
           std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
          {"is_float", IsFloat(tensor.dtype())},
          {"data", ToDoubles(tensor)}};
}

bool IsFinite(const std::vector<NDArray>& tensors) {
  for (const NDArray& tensor : tensors) {
    for (const double x : ToDoubles(tensor)) {
      if (!std::isfinite(x)) return false;
    }
  }
  return true;
}

// Returns false if there is nothing to be said about the numbers.
bool WriteAt(const DoubleCase& one, const GradientNetwork& gradient,
             const std::vector<NDArray>& inputs, RandomSource* random) {
  const auto outputs = Interpret(one.network, inputs);
  if (!outputs.ok() || !IsFinite(*outputs)) return false;
  Json line = {{"operator", std::string(one.made.def->name)},
               {"opset", one.made.opset},
               {"attributes", Json::object()},
               {"inputs", Json::array()},
               {"outputs", outputs->size()},
               {"cotangents", Json::array()},
               {"gradients", Json::array()}};
  for (const NamedAttr& attr : one.made.attributes) {
    line["attributes"][attr.name] = std::visit(ValueJson(), attr.value);
  }
  std::vector<NDArray> all = inputs;
  for (const size_t output : gradient.outputs) {
    const NDArray cotangent =
        *RandomTensor(*random, (*outputs)[output].shape(), kFloat64);
    Json json = TensorJson(cotangent);
    json["output"] = output;
    line["cotangents"].push_back(std::move(json));
    all.push_back(cotangent);
  }
  const auto gradients = Interpret(gradient.network, all);
  if (!gradients.ok() || !IsFinite(*gradients)) return false;
  size_t at = 0;
  std::vector<size_t> slots;
  for (size_t i = 0; i < one.made.inputs.size(); ++i) {
    const CaseInput& input = one.made.inputs[i];
    if (!input.is_given) {
      line["inputs"].push_back(nullptr);
    } else if (input.is_constant) {
      line["inputs"].push_back(TensorJson(input.fixed));
    } else {
      slots.push_back(i);
      line["inputs"].push_back(TensorJson(inputs[at++]));
    }
  }
  for (size_t i = 0; i < gradients->size(); ++i) {
    Json json = TensorJson((*gradients)[i]);
    json["input"] = slots[gradient.inputs[i]];
    line["gradients"].push_back(std::move(json));
  }
  std::printf("%s\n", line.dump().c_str());
  return true;
}

void WriteCase(const OperatorDef& def, uint64_t number) {
  const auto one = DrawDoubleCase(def, number);
  if (!one.ok()) return;
  const auto gradient = GradientOf(one->network, one->wanted);
  if (!gradient.ok()) return;
  RandomSource random(number, "numbers");
  for (const Interval& interval : kIntervals) {
    if (WriteAt(*one, *gradient,
                DrawDoubleInputs(*one, number, interval, &random), &random)) {
      return;
    }
  }
}

int Main(int argc, char** argv) {
  const uint64_t cases =
      argc > 1 ? std::strtoull(argv[1], nullptr, 10) : kUsualCases;
  for (const OperatorDef* row : AllOperators().rows()) {
    if (!HasSpace(*row) || row->until <= 16) continue;
    for (uint64_t i = 0; i < cases; ++i) WriteCase(*row, i);
  }
  return 0;
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) { return nodewise::Main(argc, argv); }
