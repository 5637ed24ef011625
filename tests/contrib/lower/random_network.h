#pragma once

// Random networks for tests of lowering, and the seeds that they begin with.

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/contrib/lower/lower_support.h"

namespace nodewise {

// A random network of small float tensors, and inputs for it.
class RandomNetwork {
 public:
  explicit RandomNetwork(uint64_t seed) : random_(seed) {
    for (int i = 1 + Below(3); i > 0; --i) AddInput();
    for (int i = Below(4); i > 0; --i) {
      values_.push_back(b_.Const("", Data(AnyShape())));
    }
    for (int i = 0; i < kOperations; ++i) AddOperation();
    std::vector<ValueId> outputs;
    for (int i = 1 + Below(4); i > 0; --i) outputs.push_back(Value());
    b_.Out(std::move(outputs));
    if (Below(2) == 0) b_.net.RemoveUnused();
    AddBarrier();
  }

  const Network& net() const { return b_.net; }
  const std::vector<NDArray>& inputs() const { return inputs_; }

 private:
  static constexpr int kOperations = 14;

  int Below(int limit) {
    return static_cast<int>(random_() % static_cast<uint64_t>(limit));
  }
  // Few shapes, so that many pairs fit.
  std::vector<int64_t> AnyShape() {
    const std::vector<int64_t> shapes[] = {{3, 3}, {3, 3}, {3, 3},    {3},
                                           {},     {1, 3}, {2, 3, 3}, {0, 3}};
    return shapes[Below(8)];
  }
  NDArray Data(const std::vector<int64_t>& shape) {
    std::vector<float> values(
        static_cast<size_t>(NumElements(shape).value_or(0)));
    for (float& value : values) {
      value = static_cast<float>(Below(2001) - 1000) / 256;
    }
    return MakeTensor<float>(shape, values);
  }
  void AddInput() {
    inputs_.push_back(Data(AnyShape()));
    const auto shape = inputs_.back().shape();
    values_.push_back(b_.In("in" + std::to_string(inputs_.size()),
                            Shape(shape.begin(), shape.end())));
  }
  ValueId Value() { return values_[random_() % values_.size()]; }
  // Values that have been made lately make longer chains.
  ValueId Late() {
    const size_t last = std::min<size_t>(values_.size(), 3);
    return values_[values_.size() - 1 - random_() % last];
  }
  const Shape& ShapeOf(ValueId id) { return *b_.net.value(id).type.shape; }

  // What does not fit is left out.
  void Try(const char* kind, std::vector<ValueId> inputs,
           std::vector<NamedAttr> attrs = {},
           std::vector<std::string> outputs = {}) {
    const auto id =
        b_.TryOp(kind, std::move(inputs), std::move(attrs), std::move(outputs));
    if (!id.ok()) return;
    for (const ValueId output : b_.net.operation(*id).outputs) {
      if (output == kNoValue) continue;
      const TensorType& type = b_.net.value(output).type;
      if (type.dtype == kFloat32) values_.push_back(output);
    }
  }

  void AddOperation() {
    const char* const unary[] = {"Relu", "Neg",      "Abs",       "Sigmoid",
                                 "Tanh", "Identity", "HardSwish", "Exp"};
    const char* const binary[] = {"Add", "Sub", "Mul", "Max", "Div", "Min"};
    const char* const moving[] = {"Transpose", "Flatten", "Softmax"};
    const ValueId x = Late();
    switch (Below(10)) {
      case 0:
      case 1:
      case 2:
        return Try(unary[Below(8)], {x});
      case 3:
      case 4:
        return Try(binary[Below(6)], {x, Below(4) == 0 ? x : Value()});
      case 5:
        return Try("MatMul", {x, Value()});
      case 6:
        return Try(moving[Below(3)], {x});
      case 7:
        return Try("Split", {x},
                   {{"axis", AttrValue(int64_t{-1})},
                    {"num_outputs", AttrValue(int64_t{3})}},
                   {Name(), Below(3) == 0 ? "" : Name(), Name()});
      case 8:
        return Reshape(x);
      default:
        return Try("Concat", {x, Value()}, {{"axis", AttrValue(int64_t{-1})}});
    }
  }

  // The shape may be a constant, or that of another value.
  void Reshape(ValueId x) {
    if (Below(2) == 0) {
      const std::vector<int64_t> all = {-1};
      return Try("Reshape", {x, b_.Const("", MakeTensor<int64_t>({1}, all))});
    }
    const ValueId like = Value();
    if (ToString(ShapeOf(like)) != ToString(ShapeOf(x))) return;
    Try("Reshape", {x, b_.Op("Shape", {like})[0]});
  }

  std::string Name() { return "v" + std::to_string(next_name_++); }

  void AddBarrier() {
    const auto order = b_.net.order();
    if (order.size() < 2 || Below(3) > 0) return;
    const OperationId first = order[random_() % order.size()];
    const OperationId second = order[random_() % order.size()];
    // Some would make a cycle, and are refused.
    b_.net.RunAfter(first, second).IgnoreError();
  }

  std::mt19937_64 random_;
  NetBuilder b_;
  std::vector<ValueId> values_;  // All of float32.
  std::vector<NDArray> inputs_;
  int next_name_ = 0;
};

}  // namespace nodewise
