#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/bound_source.h"

namespace nodewise {

// A run of a network with the reference evaluation of its operators, without
// bounds, and with those of InterpretCarryingBounds() for the tensors they are
// asked for. Most tensors are settled for much less
// (BoundSource::IsSurelyWithin()): where one operation rounds and what follows
// it computes element by element, as in what a kernel fuses. First with a bound
// that follows from the size of each number, then with the bounds of those
// elements alone that are left.
class BoundedRun {
 public:
  virtual ~BoundedRun() = default;

  virtual const std::vector<NDArray>& outputs() const = 0;
  // The bounds of an output; lives as long as this.
  virtual BoundSource& bounds(size_t output) = 0;
};

// Fails as Interpreter::Run(). The network must outlive what is returned; the
// inputs are held, and must stay as they are.
absl::StatusOr<std::unique_ptr<BoundedRun>> RunWithLazyBounds(
    const Network& network, std::vector<NDArray> inputs);

}  // namespace nodewise
