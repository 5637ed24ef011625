#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "nodewise/autotest/case_verdict.h"
#include "nodewise/autotest/dual_object.h"
#include "nodewise/ir/network.h"

namespace nodewise {

struct DualObject::State {
  enum class Kind { kRuntimes, kOperator, kTensor, kPlain };
  Kind kind = Kind::kPlain;
  std::string name;
  DualCase* owner = nullptr;
  GeneratedValue reference = {};
  GeneratedValue tested = {};
  // kOperator: what it is, and what is bound to it.
  const OperatorDef* def = nullptr;
  std::vector<DualInput> first_inputs = {};
  std::vector<DualInput> parameters = {};
  std::vector<DualAttribute> attributes = {};
  // kTensor: its value in the network of the case, and its siblings.
  ValueId value = kNoValue;
  std::vector<DualObject> outputs = {};
};

// Wraps the two runtimes, under the name of the reference's.
DualObject GetDualObject(const std::string& name, DualCase* owner);

// One case of a program: what has been drawn and called so far, on both sides.
class DualCase {
 public:
  DualCase(const OpSet& ops, Candidate& tested, const DualOptions& options,
           Choices* choices);

  // Runs the program. Errors of the program, the reference or the tested side.
  absl::Status Run(const std::function<void(DualObject& onnx)>& program);

  // Compares all that was recorded, in each way to run. OK if it agrees.
  absl::Status Compare();

  bool is_refused() const { return is_refused_; }  // By the reference.
  // The program with drawn values, as C++.
  const std::string& text() const { return text_; }

  // --- For DualObject.
  DualObject Attribute(const DualObject::State& of, std::string_view attribute);
  DualObject Call(const DualObject::State& of, std::vector<DualInput> inputs,
                  std::vector<DualAttribute> attributes, size_t num_outputs);
  DualObject Bind(const DualObject::State& of,
                  std::vector<DualAttribute> attributes,
                  std::vector<DualInput> parameters);

 private:
  // What has been called, to be run again as it was called.
  struct DoneCall {
    OperationId operation = kNoOperation;
    std::shared_ptr<const Network> alone;  // As a network of its own.
    std::vector<NDArray> inputs;           // What the tested side read.
    CandidateOutputs outputs = std::vector<NDArray>();
  };

  absl::StatusOr<DualObject> TryCall(const DualObject::State& of,
                                     std::vector<DualInput> inputs,
                                     std::vector<DualAttribute> attributes,
                                     size_t num_outputs);
  absl::StatusOr<std::vector<DualObject>> InputsOf(
      const std::vector<DualInput>& inputs);
  absl::StatusOr<DualObject> Leaf(const generator& from);
  absl::StatusOr<DoneCall> RunTested(OperationId id,
                                     const std::vector<DualObject>& inputs);
  // A module that no call uses would be compared with nothing.
  absl::Status CheckModules() const;
  // Makes all that comes out of calls the outputs of the network.
  absl::Status SetAllOutputs();
  absl::Status CompareGraph(DualExecution execution);
  absl::Status CompareGradients();
  absl::Status JudgeOn(const Network& network,
                       const std::vector<NDArray>& inputs,
                       const CandidateOutputs& made, std::string_view how,
                       bool is_gradient = false) const;
  bool Wants(DualExecution execution) const {
    return std::ranges::count(options_.executions, execution) > 0;
  }
  void NoteUse(const DualObject::State& of);
  DualObject Fail(const absl::Status& status);
  DualObject Made(DualObject::State state);

  const OpSet& ops_;
  Candidate& tested_;
  const DualOptions& options_;
  CaseDraw draw_;
  absl::Status status_;
  bool is_refused_ = false;
  Network network_;
  std::vector<NDArray> inputs_;
  // By generator, so that one that is used twice is one tensor.
  std::vector<std::pair<generator, DualObject>> leaves_;
  std::vector<DoneCall> calls_;
  std::vector<DualObject> dual_objects_to_test_;  // Tensors.
  std::vector<DualObject> dual_modules_to_test_;
  std::set<const DualObject::State*> used_modules_;  // Called, or bound again.
  std::string text_;
};

template <typename... Args>
absl::Status InvalidProgram(fmt::format_string<Args...> text, Args&&... args) {
  return absl::InvalidArgumentError(
      fmt::format(text, std::forward<Args>(args)...));
}

// Draws the attributes of a call and gives them the types that the operator's
// own have; `text` gets them as C++. Fails with kInvalidArgument, naming the
// attribute.
absl::StatusOr<std::vector<NamedAttr>> DrawAttributes(
    const OperatorDef& def, const std::vector<DualAttribute>& attributes,
    CaseDraw& draw, std::string* text);

// Returns a tensor as C++ that makes it again, as far as it is small.
std::string TensorText(const NDArray& tensor);

}  // namespace nodewise
