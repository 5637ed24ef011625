#include "nodewise/ops/refused.h"

#include "contrib/ops/op_families.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"

// Operators that are known only by name, so that the message for a model that
// has one says why it is refused.

namespace nodewise {
namespace {

// Refused, since the decoding of images is not debugged in a compiled network,
// and each format would need a library.
struct ImageDecoder : ops::ImageDecoder {
  static constexpr auto Fields() {
    return FieldList(Field<&ImageDecoder::pixel_format>("pixel_format"));
  }
  absl::Status Check(const Inputs&) const {
    return absl::UnimplementedError(
        "decodes image files, which is refused, expected the decoded image "
        "(decode it first and make its output an input of the model)");
  }
  OutputInfos Infer(const Inputs&) const { return {TensorType(kUint8)}; }
  absl::Status Evaluate(EvalArgs&) const { return Check(Inputs({})); }
};

constexpr OperatorDef kRefused[] = {
    Row<ops::ImageDecoder, ImageDecoder>({.name = "ImageDecoder",
                                          .since = 20,
                                          .inputs = {"encoded_stream"},
                                          .outputs = {"image"}}),
};

}  // namespace

absl::Span<const OperatorDef> RefusedOperators() { return kRefused; }

}  // namespace nodewise
