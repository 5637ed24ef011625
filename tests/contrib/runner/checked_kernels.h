#pragma once

// Kernels of oneDNN, each of whose runs is compared with the reference's on the
// same inputs.

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/runner/reference_kernels.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {

// What was compared, and the first thing that was wrong.
struct CheckedRuns {
  size_t nodes = 0;
  std::string wrong;
};

class CheckedKernel : public RegionKernel {
 public:
  CheckedKernel(const Region& region, std::unique_ptr<RegionKernel> kernel,
                CheckedRuns* runs)
      : region_(region),
        interpreter_(region_.network),
        kernel_(std::move(kernel)),
        runs_(*runs) {}

  absl::Status Run(absl::Span<const NDArray> inputs,
                   absl::Span<const NDArray> outputs) override {
    NODEWISE_RETURN_IF_ERROR(kernel_->Run(inputs, outputs));
    double scale = 0;
    NODEWISE_ASSIGN_OR_RETURN(const auto expected, Interpreted(inputs, &scale));
    std::vector<std::vector<NDArray>> others;
    for (int i = 0; i < 3; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(others.emplace_back(), Disturbed(inputs));
    }
    ++runs_.nodes;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (expected[i].dtype() == kFloat32) {
        Compare(expected[i], outputs[i], others, i, scale);
      } else if (!HaveSameBits(expected[i], outputs[i])) {
        runs_.wrong = region_.network.name() + ": other bits";
      }
    }
    return absl::OkStatus();
  }
  std::vector<OperationChoice> Operations() const override {
    return kernel_->Operations();
  }

 private:
  // Notes the largest number on the way, which roundings are proportional to.
  absl::StatusOr<std::vector<NDArray>> Interpreted(
      absl::Span<const NDArray> inputs, double* scale) const {
    InterpretOptions options;
    const auto look = [scale](const NDArray& tensor) {
      if (!tensor.defined() || !(tensor.dtype() == kFloat32)) return;
      for (const float x : ValuesOf(tensor)) {
        *scale = std::max(*scale, std::fabs(double{x}));
      }
    };
    for (const NDArray& input : inputs) look(input);
    options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
      for (const NDArray& output : run.result.outputs) look(output);
      return false;
    };
    return interpreter_.Run({inputs.begin(), inputs.end()}, options);
  }

  // With inputs and results of operations that are off by a few roundings: how
  // far the outputs go says what roundings on the way may do.
  absl::StatusOr<std::vector<NDArray>> Disturbed(
      absl::Span<const NDArray> inputs) {
    const Network& network = region_.network;
    std::vector<NDArray> values(network.data().values.size());
    for (const auto& value : network.data().values) {
      if (value.has_value()) values[Index(value->id)] = value->data;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(values[Index(network.inputs()[i])],
                                DisturbedCopy(inputs[i]));
    }
    for (const OperationId id : network.order()) {
      const Operation& operation = network.operation(id);
      Tensors given;
      for (const ValueId value : operation.inputs) {
        given.push_back(value == kNoValue ? NDArray() : values[Index(value)]);
      }
      const absl::InlinedVector<bool, 4> wanted(operation.outputs.size(), true);
      NODEWISE_ASSIGN_OR_RETURN(
          const Evaluated made,
          Evaluate(operation.attrs, std::move(given), wanted));
      for (size_t i = 0; i < operation.outputs.size(); ++i) {
        if (operation.outputs[i] == kNoValue) continue;
        NODEWISE_ASSIGN_OR_RETURN(values[Index(operation.outputs[i])],
                                  DisturbedCopy(made.outputs[i]));
      }
    }
    std::vector<NDArray> outputs;
    for (const ValueId output : network.outputs()) {
      outputs.push_back(values[Index(output)]);
    }
    return outputs;
  }
  absl::StatusOr<NDArray> DisturbedCopy(const NDArray& tensor) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray copy, tensor.CopyToHost());
    if (!(copy.dtype() == kFloat32)) return copy;
    float* const data = copy.As<float>();
    for (size_t i = 0; i < copy.bytes() / sizeof(float); ++i) {
      data[i] *= random_() % 2 == 0 ? 1 - 3e-7F : 1 + 3e-7F;
    }
    return copy;
  }

  void Compare(const NDArray& expected, const NDArray& found,
               const std::vector<std::vector<NDArray>>& others, size_t output,
               double scale) {
    for (size_t i = 0; i < expected.bytes() / sizeof(float); ++i) {
      const double y = expected.As<float>()[i];
      const double z = found.As<float>()[i];
      double spread = 0;
      for (const auto& other : others) {
        const double to = other[output].As<float>()[i];
        // A NaN, or an infinity, is near: anything may come of it.
        if (!(std::fabs(to - y) < 1e30)) spread = HUGE_VAL;
        spread = std::max(spread, std::fabs(to - y));
      }
      if (std::isnan(y) && std::isnan(z)) continue;
      if (y == z || std::fabs(y - z) <=
                        1e-5 * std::fabs(y) + 20 * spread + 2e-6 * scale) {
        continue;
      }
      if (std::isinf(spread) && !std::isnan(y)) continue;
      runs_.wrong = region_.network.name() + ": output " +
                    std::to_string(output) + ", element " + std::to_string(i) +
                    ": is " + std::to_string(z) + ", expected " +
                    std::to_string(y);
      return;
    }
  }

  const Region region_;
  const Interpreter interpreter_;
  const std::unique_ptr<RegionKernel> kernel_;
  CheckedRuns& runs_;
  std::mt19937 random_{1};
};

class CheckedPlan : public RegionPlan {
 public:
  CheckedPlan(std::unique_ptr<RegionPlan> plan, CheckedRuns* runs)
      : plan_(std::move(plan)), runs_(runs) {}
  std::vector<OperationChoice> Operations() const override {
    return plan_->Operations();
  }
  absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const Region& region) const override {
    NODEWISE_ASSIGN_OR_RETURN(auto kernel, plan_->Make(region));
    return std::make_unique<CheckedKernel>(region, std::move(kernel), runs_);
  }

 private:
  const std::unique_ptr<RegionPlan> plan_;
  CheckedRuns* const runs_;
};

class CheckedMaker : public KernelMaker {
 public:
  explicit CheckedMaker(CheckedRuns* runs) : runs_(runs) {}
  std::string_view name() const override { return maker_->name(); }
  absl::StatusOr<std::unique_ptr<RegionPlan>> Plan(
      const Region& region) const override {
    NODEWISE_ASSIGN_OR_RETURN(auto plan, maker_->Plan(region));
    return std::make_unique<CheckedPlan>(std::move(plan), runs_);
  }

 private:
  const std::shared_ptr<const KernelMaker> maker_ = OneDnnKernels();
  CheckedRuns* const runs_;
};

// Returns a library that notes in `runs`, which must outlive it, what it finds.
inline Ref<LoweredLibrary> CheckedFunctions(CheckedRuns* runs) {
  return MakeRef<LoweredLibrary>(
      AllOperators(),
      std::vector<std::shared_ptr<const KernelMaker>>{
          std::make_shared<CheckedMaker>(runs), ReferenceKernels()});
}

}  // namespace nodewise
