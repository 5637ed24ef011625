#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

TEST(RefusedOperatorsTest, ImageDecoderSaysWhatToGiveInstead) {
  EXPECT_THAT(InferOf({"ImageDecoder"}, {{"uint8[?]"}}),
              FailsWith(absl::StatusCode::kUnimplemented,
                        HasSubstr("expected the decoded image")));
}

}  // namespace
}  // namespace nodewise
