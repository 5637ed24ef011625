#pragma once

// A kernel as a list of primitives, and how rows put one together.

#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contrib/onednn/call.h"
#include "contrib/onednn/onednn_api.h"
#include "nodewise/onednn/onednn.h"

namespace nodewise::onednn {

// A tensor of a program.
enum class Value : uint32_t {};
// The tensors that a primitive is run with, by oneDNN's numbers: DNNL_ARG_SRC,
// ...
using Arguments = std::vector<std::pair<int, Value>>;

// In which range the numbers of a run must be for its results to be those of
// the operators. Needed by primitives that may turn a NaN into a number.
struct Guard {
  // The range of each float input.
  float least = std::numeric_limits<float>::lowest();
  float most = std::numeric_limits<float>::max();
  // A sum of so many products of all inputs must not overflow; 0: there is no
  // such sum.
  double terms = 0;
  // -infinity is a number like others, unless a row along the last of these
  // sides has nothing else: sizes before, of, and behind the side.
  std::optional<std::array<int64_t, 3>> rows = {};
};

class Program final : public OneDnnKernel {
 public:
  absl::Status Run(absl::Span<const NDArray> inputs,
                   absl::Span<const NDArray> outputs) const override;
  int64_t num_evaluated() const override { return num_evaluated_; }
  std::string implementation() const override { return implementation_; }

 private:
  friend class ProgramBuilder;

  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  // Memory that is another one in each run.
  struct Binding {
    size_t memory;
    int input;  // -1: the output.
  };
  struct Tensor {
    size_t input;
    size_t bytes;
  };

  explicit Program(OneDnnCall call) : call_(std::move(call)) {}
  absl::Status CheckTensors(absl::Span<const NDArray> inputs,
                            absl::Span<const NDArray> outputs) const;
  bool IsOrdinary(absl::Span<const NDArray> inputs) const;

  OneDnnCall call_;
  int threads_ = 1;
  std::string implementation_;
  mutable std::vector<dnnl::memory> memories_;
  std::map<size_t, NDArray> kept_;  // What memories are lent, by their places.
  std::vector<dnnl::memory> fixed_;
  std::vector<Binding> bindings_;
  std::vector<Step> steps_;
  mutable dnnl::stream stream_;
  std::vector<Tensor> tensors_;  // Those that a run must give.
  size_t num_inputs_ = 0;
  size_t output_bytes_ = 0;
  std::optional<Guard> guard_;
  std::vector<size_t> guarded_;    // Float inputs that are not constant.
  double constant_magnitude_ = 1;  // The product of those of constants.
  bool constants_are_ordinary_ = true;
  mutable std::atomic<int64_t> num_evaluated_ = 0;
};

// Puts a program together, or only asks oneDNN whether it could: a dry builder
// makes no code and moves no data.
class ProgramBuilder {
 public:
  ProgramBuilder(const Call& call, bool is_dry);

  const Call& call() const { return call_; }
  bool is_dry() const { return is_dry_; }
  // Input `i` of each run as memory of this description, which has as many
  // bytes; the data itself if it is constant.
  Value Input(size_t i, const Desc& desc);
  Value Output(const Desc& desc);
  // A list that is made here.
  Value List(const std::vector<float>& values);
  // A tensor that is made here.
  Value Constant(const NDArray& data, const Desc& desc);
  Value Scratch(const Desc& desc);
  // The value in another order: itself, if it is the same; done here if it is
  // constant, else by a step of each run.
  absl::StatusOr<Value> Reordered(Value value, const Desc& desc);
  // Input `i`, which lies as `desc` says, in the order that a primitive has
  // chosen for its weights.
  absl::StatusOr<Value> Weights(size_t i, const Desc& desc,
                                const Planned& planned);
  // A step of each run.
  absl::Status Add(const Planned& planned, const Arguments& arguments);
  // A step that makes the call's output, which lies as `output` says, of input
  // 0, which lies as `source` says, and of the other arguments.
  absl::Status AddFromInput(const Planned& planned, const Desc& source,
                            const Desc& output, Arguments others = {});

  // Results of runs beyond the guard are evaluated. If there are several, the
  // narrowest ranges and the most terms count.
  void AddGuard(const Guard& guard);
  // Says that input `i` is not an operand, so that no guard looks at it.
  void SetParameter(size_t i) { is_parameter_[i] = true; }

  // The name of the code of the last step, if that is slow; else "".
  std::string SlowCode() const;

  // REQUIRES: not dry.
  absl::StatusOr<std::unique_ptr<OneDnnKernel>> Finish();

 private:
  struct Slot {
    Desc desc;
    bool is_constant = false;
  };
  Value NewValue(const Desc& desc, void* data, bool is_constant);
  dnnl::memory& MemoryOf(Value value) {
    return program_->memories_[static_cast<size_t>(value)];
  }
  void GuardInputs();
  // Lets constants go that were only on their way to another order.
  void DropUnread();
  // Lets those go that each run is given again, but for what steps read.
  absl::Status DropReboundConstants();

  const Call& call_;
  const bool is_dry_;
  std::vector<Slot> slots_;
  std::vector<bool> is_parameter_;
  std::unique_ptr<Program> program_;
};

// Returns oneDNN's description of an argument of a primitive.
Desc ArgumentOf(const Planned& planned, int argument);

}  // namespace nodewise::onednn
