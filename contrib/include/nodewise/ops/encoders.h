#pragma once

// Operators that lay out the inputs of classical models, most of them of
// ai.onnx.ml, and that count the features of texts. Each class is its
// operator's primary attributes. Strings among them are refused.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

// y = the value that stands beside the key x, or the default. Exactly one list
// of keys and one of values is given. Bits of keys are compared, and of keys
// that are equal the first one counts.
struct LabelEncoder2 {
  float default_float = -0.0F;
  int64_t default_int64 = -1;
  std::string default_string = "_Unused";
  std::vector<float> keys_floats;
  std::vector<int64_t> keys_int64s;
  std::vector<std::string> keys_strings;
  std::vector<float> values_floats;
  std::vector<int64_t> values_int64s;
  std::vector<std::string> values_strings;
};
// Keys and values may be of other types too. Every NaN is the same key, and of
// keys that are equal the last one counts.
struct LabelEncoder : LabelEncoder2 {
  std::optional<NDArray> default_tensor;
  std::optional<NDArray> keys_tensor;
  std::optional<NDArray> values_tensor;
};

// y[..., i] = 1 where x, made an integer, is category i, else 0.
struct OneHotEncoder {
  std::vector<int64_t> cats_int64s;
  std::vector<std::string> cats_strings;
  bool zeros = true;  // Else what is not a category is an error.
};

// Rows of all inputs side by side, as float32. What a row has less than
// `inputdimensions` says is 0, what it has more is left out.
struct FeatureVectorizer {
  std::vector<int64_t> inputdimensions;  // Empty: as many as there are.
};

// What an n-gram adds to its place: how often it is there, its weight if it is
// there at all, or the product of both.
enum class NgramMode { kTf, kIdf, kTfIdf };
// Counts how often the n-grams of a pool are in each row of the input.
struct TfIdfVectorizer {
  // All but the last three are required.
  Required<int64_t> max_gram_length;
  Required<int64_t>
      max_skip_count;  // What lies between two items of an n-gram.
  Required<int64_t> min_gram_length;
  Required<NgramMode> mode;
  std::vector<int64_t> ngram_counts;   // Where in the pool each length begins.
  std::vector<int64_t> ngram_indexes;  // By n-gram: its place in the output.
  // The n-grams, the shortest first, one of the two. Strings are refused.
  std::optional<std::vector<int64_t>> pool_int64s;
  std::optional<std::vector<std::string>> pool_strings;
  std::optional<std::vector<float>> weights;  // By n-gram. None or empty: 1.
};

}  // namespace nodewise::ops
