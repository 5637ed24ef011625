#pragma once

namespace nodewise::ops {

// What operators of ai.onnx.ml do with the scores of a row at the end.
// kSoftmaxZero leaves scores of 0 out of the sum; kProbit is the inverse of the
// normal distribution.
enum class PostTransform { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

}  // namespace nodewise::ops
