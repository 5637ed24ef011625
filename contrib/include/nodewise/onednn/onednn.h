#pragma once

// Fast kernels for single operations, from oneDNN. This knows operators and
// tensors, not networks or graphs: the code that lowers a network says what one
// call is to compute, and gets a kernel or the reason why there is none.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// The order of a tensor's elements in memory. Types of a call are always as
// ONNX has them, [N, C, H, W]; a tensor with its channels last is handed over
// as a compact one of shape [N, H, W, C].
enum class TensorLayout {
  kPlain,
  kChannelsLast,  // From rank 3 on: the second side is the last in memory.
};

// One input of a call.
struct OneDnnInput {
  // No element type: this optional input is not given.
  TensorType type;
  TensorLayout layout = TensorLayout::kPlain;
  // Weights, biases, scales: the data, if it is the same in every run.
  // Undefined: given anew in each run. In plain layout always.
  NDArray constant;
  // Each run is given the constant, too, so that the kernel need not keep it in
  // this order.
  bool is_given_again = false;
};

// An operation on the value that the call has computed so far, which is its
// first input: an activation, or an operation with one more input (Add, Mul,
// ...).
struct OneDnnPostOp {
  OpAttrs op;
  std::vector<OneDnnInput> others;  // The inputs after the first.
};

// What one call computes: the first output of an operation, and operations that
// are fused behind it.
struct OneDnnCall {
  OpAttrs op;
  std::vector<OneDnnInput> inputs;
  std::vector<OneDnnPostOp> post_ops;
  // The result of all of it; sizes of all types are known.
  TensorType output;
  TensorLayout output_layout = TensorLayout::kPlain;
  // Results that float16 does not have are infinities to what is fused behind
  // them. For calls that compute in float32 what is float16 in a network, which
  // would hide overflows otherwise.
  bool overflows_as_float16 = false;
};

// A prepared call. It may be run again and again, by one thread at a time; it
// holds the weights in oneDNN's own order, and the memory that it needs on its
// way. Its results are the same bits each time.
class OneDnnKernel {
 public:
  virtual ~OneDnnKernel() = default;

  // Computes the output. `inputs` has one tensor for each of the call's inputs,
  // then one for each of the post-operations' others; those of constants that
  // are not given again, and of inputs that are not given, are not looked at.
  // All are compact and in host memory, of the call's types and layouts; an
  // output overlaps no input. Fails with kInvalidArgument for tensors of
  // another size, and kInternal if oneDNN fails.
  //
  // oneDNN's kernels turn a NaN that they meet in some places (a ReLU, a
  // maximum, an exponential) into a number. So runs that may have met one, or
  // numbers beyond the range in which a kernel is accurate, are computed by the
  // operators' own evaluation instead, which is slow; num_evaluated() counts
  // them.
  virtual absl::Status Run(absl::Span<const NDArray> inputs,
                           absl::Span<const NDArray> outputs) const = 0;

  virtual int64_t num_evaluated() const = 0;
  // Returns oneDNN's name of the code that it runs: "jit:avx2". What begins
  // with "ref" or "simple" is slow.
  virtual std::string implementation() const = 0;
};

// Returns whether there is a kernel for the call, and if not, why. Asking costs
// some microseconds; no code is generated and no weights are touched. Any
// thread may call.
Support OneDnnSupports(const OneDnnCall& call);

// Makes a kernel, whose runs use OneDnnThreads::Count() threads as it is now.
// Fails with kUnimplemented, with the reason, for what is not supported. Any
// thread may call.
absl::StatusOr<std::unique_ptr<OneDnnKernel>> MakeOneDnnKernel(
    const OneDnnCall& call);

// The gradient of one operation, from oneDNN's backward primitives: what
// reaches inputs of the operation from its first output.
struct OneDnnBackwardCall {
  OpAttrs op;
  // Those of the operation, undefined for optional ones that are not given; all
  // compact and in host memory.
  absl::Span<const NDArray> inputs;
  NDArray cotangent;  // Has the output's shape and type.
  // The inputs whose gradients are asked for.
  absl::Span<const size_t> wanted;
};

// Computes the gradients that are asked for, in that order, each of its input's
// shape and type. Makes its primitives anew each time, with
// OneDnnThreads::Count() threads. Fails with kUnimplemented, giving the reason,
// for what oneDNN has no backward primitive for, which is most; and in a build
// without it. Any thread may call.
absl::StatusOr<std::vector<NDArray>> RunOneDnnBackward(
    const OneDnnBackwardCall& call);

// Returns the names of the operators that have backward primitives, for some of
// their uses at least; none in a build without oneDNN.
std::vector<std::string_view> OneDnnBackwardOperators();

// Returns the names of the operators that have kernels, for some of their uses
// at least; none in a build without oneDNN.
std::vector<std::string_view> OneDnnOperators();

// Returns the largest int8 weight of an integer product that is sure to have a
// kernel: on processors without VNNI, whose instructions would saturate with
// larger ones, 63, else 127.
int OneDnnMostWeight();

// Returns the version of the library that runs, "2.6.3"; "" in a build without
// it.
std::string OneDnnVersion();

// Says how many threads the kernels use that the calling thread makes while
// this lives. Without it they use as many as nodewise does itself (NumThreads()
// of nodewise/support/thread_pool.h).
//
// The threads are those of the OpenMP runtime, which do not survive a fork(): a
// child of a process that has run a kernel with two threads or more waits for
// ever when it runs such a kernel itself. There Count() is always 1, and
// kernels that have been made before must not be run.
class OneDnnThreads {
 public:
  // REQUIRES: 1 <= count.
  explicit OneDnnThreads(int count);
  OneDnnThreads(const OneDnnThreads&) = delete;
  OneDnnThreads& operator=(const OneDnnThreads&) = delete;
  ~OneDnnThreads();

  static int Count();

 private:
  int before_;
};

}  // namespace nodewise
