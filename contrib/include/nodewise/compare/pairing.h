#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// Which tensor of the candidate is compared with which of the reference. Always
// by name or by kind and order, never by position alone: runners may list the
// same outputs in another order, and a wrong pair looks like a broken operator.
// All functions are pure; any thread may call them.

// The candidate's name of a tensor, by the reference's.
using NameMap = std::map<std::string, std::string>;

// Reads a map file: on each line the reference's name and the candidate's,
// with a tab between them, or blanks if neither name has any. Empty lines and
// those that begin with # mean nothing. Fails with kInvalidArgument, naming
// file and line, for other text, and for a name that stands there twice on one
// side.
absl::StatusOr<NameMap> ParseNameMap(std::string_view text,
                                     const std::string& where);

// A tensor that has no partner of its name.
struct UnpairedTensor {
  std::string name;  // TensorKey::Name().
  std::string type;  // "float32 (1, 64)": only equal ones are paired.
};

// How sure a pair is.
enum class PairedBy {
  kName,
  kMap,
  kSpelling,  // The names are equal but for case, separators and endings.
  kOrder,     // The n-th of all that are called so but for numbers at the end.
  kWords,     // The names share most words.
};
// Returns "name", "map", "spelling", "order" or "words".
std::string_view NameOf(PairedBy by);

struct FuzzyPair {
  size_t expected = 0, actual = 0;  // Indices.
  PairedBy by = PairedBy::kSpelling;
};

// Pairs what is left, surest first, by the three last rules of PairedBy; both
// lists are in the order of their runs. No tensor is in two pairs, and where
// names fit several equally well, there is no pair. The result is in the order
// of the reference.
std::vector<FuzzyPair> PairFuzzily(absl::Span<const UnpairedTensor> expected,
                                   absl::Span<const UnpairedTensor> actual);

}  // namespace nodewise
