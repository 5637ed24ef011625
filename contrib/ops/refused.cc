#include "contrib/ops/op_families.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"

// Operators that are known by name, so that a model that has one is told why it
// is not taken.

namespace nodewise {
namespace {

// Nobody debugs the decoding of an image in a compiled network, and it would
// take a library for each of the formats.
struct ImageDecoder {
  std::string pixel_format = "RGB";

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
    Row<ImageDecoder>({.name = "ImageDecoder",
                       .since = 20,
                       .inputs = {"encoded_stream"},
                       .outputs = {"image"}}),
};

}  // namespace

absl::Span<const OperatorDef> RefusedOperators() { return kRefused; }

}  // namespace nodewise
