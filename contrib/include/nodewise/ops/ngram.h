#pragma once

// Features of texts. Each class is its operator's primary attributes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

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
