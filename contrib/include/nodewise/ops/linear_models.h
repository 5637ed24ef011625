#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nodewise/ops/post_transform.h"

// Linear models and support vector machines, operators of ai.onnx.ml. Strings
// as labels are refused.

namespace nodewise::ops {

// Scores are x w^T + intercepts, and the label is that of the largest one. One
// score alone is that of the second label, or of 1 if there are not two.
struct LinearClassifier {
  std::vector<int64_t> classlabels_ints;
  std::vector<std::string> classlabels_strings;
  std::vector<float> coefficients;  // A row for each score.
  std::vector<float> intercepts;    // Empty: zeros, one for each label.
  int64_t multi_class = 0;          // Ignored.
  PostTransform post_transform = PostTransform::kNone;
};

enum class SvmKernel { kLinear, kPoly, kRbf, kSigmoid };

struct SupportVectors {
  std::vector<float> coefficients;
  std::vector<float> kernel_params;  // gamma, coef0, degree; empty: zeros.
  SvmKernel kernel_type = SvmKernel::kLinear;
  PostTransform post_transform = PostTransform::kNone;
  std::vector<float> rho;
  std::vector<float> support_vectors;  // A row each.
};

// y = sum of coefficients[i] kernel(x, vector i) + rho; without vectors x
// coefficients + rho. With `one_class` 1 where that is above 0, else -1. The
// transform is ignored, as onnxruntime does.
struct SVMRegressor : SupportVectors {
  int64_t n_supports = 0;
  bool one_class = false;
};

// A classifier for each pair of classes votes for one of them. Without vectors
// each class has a linear score instead.
struct SVMClassifier : SupportVectors {
  std::vector<int64_t> classlabels_ints;
  std::vector<std::string> classlabels_strings;
  // Where they are given the scores are probabilities of classes, else of each
  // pair what its classifier says.
  std::vector<float> prob_a;
  std::vector<float> prob_b;
  std::vector<int64_t> vectors_per_class;
};

}  // namespace nodewise::ops
