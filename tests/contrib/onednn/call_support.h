#pragma once

// Calls made of tensors, and what they are judged by.

#include <cmath>
#include <string>
#include <vector>

#include "nodewise/onednn/onednn.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "tests/contrib/ops/eval_support.h"

namespace nodewise {

// A tensor for each input of a call, in plain layout; the call's own inputs say
// which of them are constant and in what layout they are handed over.
struct CallCase {
  OneDnnCall call;
  std::vector<NDArray> inputs;
};

inline NDArray Reordered(const NDArray& tensor, bool to_channels_last) {
  const auto shape = tensor.shape();
  std::vector<int64_t> perm = {0};
  for (size_t i = 2; i < shape.size(); ++i) {
    perm.push_back(static_cast<int64_t>(i));
  }
  perm.push_back(1);
  if (!to_channels_last) {
    perm = {0, static_cast<int64_t>(shape.size()) - 1};
    for (size_t i = 1; i + 1 < shape.size(); ++i) {
      perm.push_back(static_cast<int64_t>(i));
    }
  }
  return EvaluateOne({"Transpose", 13, {{"perm", perm}}}, {tensor}).value();
}

// All inputs are given in each run, and plain.
inline CallCase CaseOf(const OpSetup& operation, std::vector<NDArray> inputs) {
  CallCase made;
  made.call.op = operation.Make().value();
  std::vector<InputInfo> infos(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    OneDnnInput& input = made.call.inputs.emplace_back();
    if (!inputs[i].defined()) continue;
    input.type = TensorType::From(*inputs[i]);
    infos[i] = {true, input.type, &inputs[i], nullptr};
  }
  const OpAttrs& op = made.call.op;
  made.call.output = op.def().infer(op.get(), Inputs(infos), 1).value()[0].type;
  made.inputs = std::move(inputs);
  return made;
}

// Makes input `i` constant.
inline void SetConstant(CallCase& made, size_t i) {
  if (i >= made.inputs.size() || !made.inputs[i].defined()) return;
  made.call.inputs[i].constant = made.inputs[i];
}

inline void SetChannelsLast(CallCase& made) {
  made.call.output_layout = TensorLayout::kChannelsLast;
  for (OneDnnInput& input : made.call.inputs) {
    if (!input.constant.defined()) {
      input.layout = TensorLayout::kChannelsLast;
    }
  }
}

// Fuses an operation behind; its other input, if there is one, is given anew
// in each run.
inline void Fuse(CallCase& made, const OpSetup& operation, NDArray other = {}) {
  OneDnnPostOp post_op{operation.Make().value(), {}};
  if (other.defined()) {
    OneDnnInput& input = post_op.others.emplace_back();
    input.type = TensorType::From(*other);
    if (input.type.rank() == made.call.output.rank()) {
      input.layout = made.call.output_layout;
    }
    made.inputs.push_back(std::move(other));
  }
  made.call.post_ops.push_back(std::move(post_op));
}

// The result, in plain layout.
inline absl::StatusOr<NDArray> RunKernel(const OneDnnKernel& kernel,
                                         const CallCase& made) {
  std::vector<const OneDnnInput*> all;
  for (const auto& input : made.call.inputs) all.push_back(&input);
  for (const auto& post_op : made.call.post_ops) {
    for (const auto& other : post_op.others) all.push_back(&other);
  }
  std::vector<NDArray> given = made.inputs;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    if (all[i]->constant.defined()) {
      if (!all[i]->is_given_again) given[i] = NDArray();
    } else if (all[i]->layout == TensorLayout::kChannelsLast &&
               given[i].shape().size() > 2) {
      given[i] = Reordered(given[i], true);
    }
  }
  std::vector<int64_t> shape = *made.call.output.sizes();
  const bool is_last = shape.size() > 2 &&
                       made.call.output_layout == TensorLayout::kChannelsLast;
  if (is_last) {
    shape.push_back(shape[1]);
    shape.erase(shape.begin() + 1);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray output, NDArray::Empty(shape, made.call.output.dtype, kCpu));
  std::memset(output.data(), 0x5A, output.bytes());
  NODEWISE_RETURN_IF_ERROR(kernel.Run(given, {&output, 1}));
  return is_last ? Reordered(output, false) : output;
}

// What is right, and how far from it each element may be.
struct Judge {
  NDArray expected;
  std::vector<double> bounds;  // NaN: none can be given.
};
// What is fused multiplies bounds by `slope` of its operator.
inline absl::StatusOr<Judge> JudgeOf(const CallCase& made) {
  size_t next = made.call.inputs.size();
  EvalArgs::Options options;
  options.with_bounds = true;
  Tensors inputs;
  for (size_t i = 0; i < next; ++i) inputs.push_back(made.inputs[i]);
  NODEWISE_ASSIGN_OR_RETURN(
      Evaluated step,
      Evaluate(made.call.op, std::move(inputs), {true}, options));
  Judge judge{step.outputs[0], step.bounds[0].proved};
  for (const OneDnnPostOp& post_op : made.call.post_ops) {
    Tensors tensors = {judge.expected};
    double slope = 2;  // No activation is steeper.
    for (size_t i = 0; i < post_op.others.size(); ++i) {
      const NDArray& other = made.inputs[next++];
      tensors.push_back(other);
      for (const double x : ToDoubles(other)) {
        slope = std::max(slope, std::fabs(x));
      }
    }
    NODEWISE_ASSIGN_OR_RETURN(
        step, Evaluate(post_op.op, std::move(tensors), {true}, options));
    judge.expected = step.outputs[0];
    const std::vector<double> values = ToDoubles(judge.expected);
    for (size_t i = 0; i < values.size(); ++i) {
      judge.bounds[i] = slope * judge.bounds[i] + step.bounds[0].proved[i] +
                        2 * HalfUlp(judge.expected.dtype(), values[i]);
    }
  }
  return judge;
}

// "" or the first element that is wrong.
inline std::string Fault(const Judge& judge, const NDArray& found) {
  const std::vector<double> expected = ToDoubles(judge.expected);
  const std::vector<double> actual = ToDoubles(found);
  if (expected.size() != actual.size()) return "other size";
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual[i]) continue;
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    // It is not known how far it may be off, or anything is right.
    if (!std::isfinite(judge.bounds[i])) continue;
    if (std::fabs(expected[i] - actual[i]) <= judge.bounds[i]) continue;
    char text[160];
    std::snprintf(text, sizeof(text),
                  "element %zu is %.9g, expected %.9g within %.3g", i,
                  actual[i], expected[i], judge.bounds[i]);
    return text;
  }
  return "";
}

// Makes the kernel, runs it twice and judges it. "" if all is well.
inline bool HaveSameBits(const NDArray& a, const NDArray& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// Runs the call with constants that are given again in the run, and gone from
// where the kernel has read them.
inline absl::StatusOr<NDArray> RunGivenAgain(CallCase made) {
  std::vector<OneDnnInput*> all;
  for (auto& input : made.call.inputs) all.push_back(&input);
  for (auto& post_op : made.call.post_ops) {
    for (auto& other : post_op.others) all.push_back(&other);
  }
  std::vector<NDArray> lent;
  for (OneDnnInput* const input : all) {
    if (!input->constant.defined()) continue;
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, input->constant.CopyToHost());
    lent.push_back(copy);
    input->constant = NDArray::Borrow(*copy, nullptr);
    input->is_given_again = true;
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto kernel, MakeOneDnnKernel(made.call));
  for (const NDArray& tensor : lent) {
    std::memset(tensor.data(), 0xFF, tensor.bytes());
  }
  return RunKernel(*kernel, made);
}

inline std::string FaultOf(const CallCase& made) {
  const auto kernel = MakeOneDnnKernel(made.call);
  if (!kernel.ok()) return kernel.status().ToString();
  const auto first = RunKernel(**kernel, made);
  const auto second = RunKernel(**kernel, made);
  if (!first.ok()) return first.status().ToString();
  if (!second.ok()) return second.status().ToString();
  if (!HaveSameBits(*first, *second)) return "two runs gave other bits";
  const auto again = RunGivenAgain(made);
  if (!again.ok()) return again.status().ToString();
  if (!HaveSameBits(*first, *again)) {
    return "constants that are given again gave other bits";
  }
  const auto judge = JudgeOf(made);
  if (!judge.ok()) return judge.status().ToString();
  const std::string fault = Fault(*judge, *first);
  return fault.empty() ? "" : (*kernel)->implementation() + ": " + fault;
}

}  // namespace nodewise
