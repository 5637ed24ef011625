#pragma once

#include <vector>

#include "nodewise/ir/network.h"

namespace nodewise {

// Which values of a network are made alike: by the same operator with the same
// attributes, of the same values or of such that are made alike, and of equal
// constants. They have the same numbers for every input of the network, and a
// compiler may compute them once.
class AlikeValues {
 public:
  // REQUIRES: the network outlives this.
  explicit AlikeValues(const Network& network);

  // Returns the others that are made like this one, in the order of the
  // network; few values have any.
  std::vector<ValueId> With(ValueId id) const;

 private:
  std::vector<std::vector<ValueId>> groups_;  // Each has two values or more.
  std::vector<size_t> group_of_;              // By value; one too many if none.
};

}  // namespace nodewise
