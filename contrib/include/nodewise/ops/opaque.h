#pragma once

// Operations whose operator nodewise does not have. They are kept as their
// model has them, so that everything around them can still be worked with. And
// the operators that are known only to refuse them.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// The domain of Opaque itself. No model has it: an opaque operation is written
// as the node that it was.
inline constexpr std::string_view kOpaqueDomain = "nodewise.opaque";

namespace ops {

// A node that only its model's own runtime understands. Inputs are those of the
// node and then the values around it that its bodies read, in the order of
// `captures`. Nothing is known about the outputs but what the model states.
struct Opaque {
  std::string op_type;      // Required: "DynamicQuantizeLSTM".
  std::string domain = "";  // "com.microsoft"; "" is ONNX's own.
  int64_t version = 1;      // The domain's.
  // Required: the node as ONNX's NodeProto, byte by byte, but that it refers to
  // no other file and to no attribute of a function. What it says about its own
  // name and those of its inputs and outputs means nothing.
  std::string node;
  // What the bodies in `node` call the values that they read from around them.
  std::vector<std::string> captures;
  // The domains that operators in its bodies may have, and their versions.
  std::vector<std::string> body_domains;
  std::vector<int64_t> body_versions;
  // The inputs that were constants in the model, in ascending order.
  std::vector<int64_t> constants;
  std::vector<TensorType> types;  // By output; those missing are unknown.
};

// Decodes an image file: known by its name only, so that the message for a
// model that has it says why it is refused.
struct ImageDecoder {
  std::string pixel_format = "RGB";
};

}  // namespace ops

// Returns what people call the operator: "com.microsoft.DynamicQuantizeLSTM".
inline std::string NameOf(const ops::Opaque& op) {
  return op.domain.empty() ? op.op_type : op.domain + "." + op.op_type;
}

// Something outside nodewise that can compute opaque operations.
class OpaqueRunner {
 public:
  virtual ~OpaqueRunner() = default;

  // Computes one operation. `inputs` are undefined where optional ones are not
  // given. Returns a tensor for each of `wanted`, undefined where it is false.
  // Any thread may call.
  virtual absl::StatusOr<std::vector<NDArray>> Run(
      const ops::Opaque& op, absl::Span<const NDArray> inputs,
      absl::Span<const bool> wanted) const = 0;
};

// Sets what computes opaque operations in this process from now on, wherever
// they are evaluated. Null, as at the beginning: nothing, they fail with
// kUnimplemented. Any thread may call both.
void SetOpaqueRunner(std::shared_ptr<const OpaqueRunner> runner);
std::shared_ptr<const OpaqueRunner> CurrentOpaqueRunner();

}  // namespace nodewise
