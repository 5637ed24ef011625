#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/precision/precision.h"

namespace nodewise {

// A product, for which there are operators on integers.
struct ProductForm {
  std::optional<int> w_axis;  // By which w (input 1) has scales.
  bool has_step_bias = true;  // Input 2, if given, is added to the product.
};
// Returns none for operations that are not products.
std::optional<ProductForm> ProductFormOf(const Network& network,
                                         const Operation& operation);

// The steps that are to be taken with the operations.
struct PrecisionPlan {
  struct Step {
    std::vector<bool> inputs;  // Which are to be of the lower precision.
    // For int8: the results stay floats, since the activation behind belongs to
    // the operation.
    bool keeps_result = false;
  };
  std::unordered_map<OperationId, Step> steps;
  // For operations that read float32 tensors and have no step.
  std::unordered_map<OperationId, std::string> reasons;

  const Step* StepOf(OperationId id) const {
    const auto found = steps.find(id);
    return found == steps.end() ? nullptr : &found->second;
  }
};

// Sets a step, or the reason why there is none, for each operation that reads a
// float32 tensor and has no reason yet.
void PlanOperations(
    const Network& network,
    absl::FunctionRef<absl::StatusOr<PrecisionPlan::Step>(const Operation&)>
        step_of,
    PrecisionPlan* plan);
// Add a step or a reason for each operation that reads a float32 tensor and has
// no reason yet.
void PlanShortFloats(DLDataType type, const Network& network,
                     PrecisionPlan* plan);
void PlanInt8(const Network& network, const Calibration& calibration,
              PrecisionPlan* plan);

// A type of less bits, and whether numbers are kept from becoming infinite in
// it.
struct ShortFloatForm {
  DLDataType type{};
  bool clip = false;
};

// Make the network as planned, and fill in report->stands_for and notes.
absl::StatusOr<Network> MakeShortFloats(ShortFloatForm form,
                                        const Network& network,
                                        const PrecisionPlan& plan,
                                        PrecisionReport* report);
absl::StatusOr<Network> MakeInt8(const Network& network,
                                 const PrecisionOptions& options,
                                 const PrecisionPlan& plan,
                                 PrecisionReport* report);

// Returns whether the input is given and of type float32.
bool IsFloatInput(const Network& network, const Operation& operation, size_t i);

// Returns which float32 inputs the operation could read in another element
// type: all of them, or all but one, or the first alone; the first of these
// that its operator takes. One of its float32 outputs must come out in that
// type, others in that type or as they are; a target of the network must run
// it. Fails, saying why, if nothing of this is possible; the reason is what the
// operator says of all its inputs.
absl::StatusOr<std::vector<bool>> InputsThatMayBe(DLDataType type,
                                                  const Network& network,
                                                  const Operation& operation);

}  // namespace nodewise
