#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Two bounds on the rounding error that a correct kernel may have in each
// element of one output: one proved, one that holds in practice. NaN where none
// can be given.
struct Bounds {
  std::vector<double> proved;
  std::vector<double> expected;
};

// Runs the body of a control-flow operation on its inputs, captures last.
using BodyRunner = std::function<absl::StatusOr<std::vector<NDArray>>(
    const Subgraph& body, std::vector<NDArray> inputs)>;

// The tensors of one operation, which are few; there are thousands of
// operations.
using Tensors = absl::InlinedVector<NDArray, 3>;

// What an operator evaluates: its inputs, all present, and the outputs to make.
// Everything is compact and in host memory.
class EvalArgs {
 public:
  struct Options {
    bool with_bounds = false;
    // Needed by If, Loop and Scan only.
    BodyRunner run_body;
  };

  // `inferred` holds what Infer says about each output, given these inputs. All
  // arguments must outlive this; inputs without another owner may be
  // overwritten.
  EvalArgs(absl::Span<const NDArray> inputs, absl::Span<const bool> wanted,
           const Options& options,
           absl::Span<const TensorType* const> inferred);

  size_t num_inputs() const { return inputs_.size(); }
  bool has(size_t i) const {
    return i < inputs_.size() && inputs_[i].defined();
  }
  // REQUIRES: has(i).
  const NDArray& in(size_t i) const { return inputs_[i]; }
  absl::Span<const int64_t> shape(size_t i) const { return inputs_[i].shape(); }
  DLDataType dtype(size_t i) const { return inputs_[i].dtype(); }
  // Returns the integers of an int32 or int64 input; fails with
  // kInvalidArgument for other types.
  absl::StatusOr<std::vector<int64_t>> Ints(size_t i) const;

  size_t num_outputs() const { return outputs_.size(); }
  bool wants(size_t i) const { return i < wanted_.size() && wanted_[i]; }
  // Makes output i with uninitialised elements.
  absl::StatusOr<NDArray> MakeOutput(size_t i, absl::Span<const int64_t> shape,
                                     DLDataType dtype);
  // Makes output i, where possible in the memory of input `from`, if nothing
  // else needs that input. For operators that read each element of the input
  // before they write the one at its place, and never afterwards.
  absl::StatusOr<NDArray> MakeOutputOver(size_t i, size_t from,
                                         absl::Span<const int64_t> shape,
                                         DLDataType dtype);
  // Makes output i with the type that Infer gives it. REQUIRES: is_inferred(i).
  absl::StatusOr<NDArray> MakeOutput(size_t i);
  // True if Infer knows the whole type of this output, element type and sizes.
  bool is_inferred(size_t i) const;
  const TensorType& inferred(size_t i) const { return *inferred_[i]; }
  // Sets an output that shares memory with an input (Reshape, Identity).
  void SetOutput(size_t i, NDArray tensor) { outputs_[i] = std::move(tensor); }
  const Tensors& outputs() const { return outputs_; }
  Tensors TakeOutputs() { return std::move(outputs_); }

  // Where a kSum operator writes the bounds of output `i`, one for each
  // element; null unless they are wanted. The caller resizes.
  Bounds* bounds(size_t i) {
    return options_.with_bounds ? &bounds_[i] : nullptr;
  }
  std::vector<Bounds>& all_bounds() { return bounds_; }

  const BodyRunner& run_body() const { return options_.run_body; }

 private:
  absl::Span<const NDArray> inputs_;
  absl::Span<const bool> wanted_;
  const Options& options_;
  absl::Span<const TensorType* const> inferred_;
  Tensors outputs_;
  std::vector<Bounds> bounds_;
};

// Evaluates one operation and checks the outputs against what Infer says for
// these inputs. Fails with kInvalidArgument, naming the operator and the input,
// if a required input is not given; the error of an operator is passed on.
// Inputs without another owner may be overwritten.
struct Evaluated {
  Tensors outputs;
  std::vector<Bounds> bounds;  // With options.with_bounds, one per output.
};
absl::StatusOr<Evaluated> Evaluate(const OpAttrs& attrs, Tensors inputs,
                                   absl::Span<const bool> wanted,
                                   const EvalArgs::Options& options = {});

// Evaluates an operation that has been checked and inferred before: only the
// types of the outputs are checked again, against `types`, one for each, all of
// them static. REQUIRES: what Check and Infer read of the inputs, types and
// constants, has not changed since.
absl::StatusOr<Evaluated> EvaluateChecked(
    const OpAttrs& attrs, Tensors inputs,
    absl::Span<const TensorType* const> types, absl::Span<const bool> wanted,
    const EvalArgs::Options& options = {});

// What both bounds of each element x of output 0 are at least, where they are
// known, without computing them: the sum of these multiples of UnitRoundoff()
// times |x| and of HalfUlp() of x (tensor_loops.h).
struct LeastBounds {
  double roundoffs = 0;
  double half_ulps = 0;
};
// Returns none for an operator that only knows its bounds by computing them
// all. REQUIRES: the operation has been evaluated with these inputs.
std::optional<LeastBounds> LeastBoundsOf(const OpAttrs& attrs,
                                         const Tensors& inputs);
// Returns the bounds of some elements of output 0, in their order, which is
// ascending: what Evaluate() says about them, but for the order in which sums
// are added up. None for an operator that does not know those of a few without
// all others. REQUIRES: as above, and `output` was evaluated.
absl::StatusOr<std::optional<Bounds>> BoundsAt(
    const OpAttrs& attrs, const Tensors& inputs, const NDArray& output,
    absl::Span<const int64_t> elements);

// Returns whether the tensor is of exactly this type, which is static.
bool IsOfType(const NDArray& tensor, const TensorType& type);

}  // namespace nodewise
