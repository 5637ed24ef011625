#include "contrib/interp/rounding_chain.h"

#include <algorithm>
#include <set>

#include "nodewise/ir/elementwise.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/slice.h"

namespace nodewise {
namespace {

bool IsAnyIn(const std::vector<ValueId>& ids, const std::set<ValueId>& values) {
  return std::any_of(ids.begin(), ids.end(), [&](ValueId id) {
    return id != kNoValue && values.count(id) > 0;
  });
}

// What the value depends on, and the value.
std::set<ValueId> AncestorsOf(const Network& network, ValueId output) {
  std::set<ValueId> found = {output};
  const auto order = network.order();
  for (size_t i = order.size(); i-- > 0;) {
    const Operation& operation = network.operation(order[i]);
    if (!IsAnyIn(operation.outputs, found)) continue;
    for (const ValueId id : operation.inputs) {
      if (id != kNoValue) found.insert(id);
    }
  }
  return found;
}

bool IsMove(const Operation& operation) {
  return operation.attrs.As<ops::Transpose>() != nullptr;
}

// Between the source and the output there are only floats: where a decision
// falls, being a little off may change everything.
bool CanFollow(const Network& network, const Operation& operation) {
  return (IsElementwise(operation) || IsMove(operation)) &&
         operation.outputs.size() == 1 && operation.outputs[0] != kNoValue &&
         IsFloat(network.value(operation.outputs[0]).type.dtype);
}

}  // namespace

const Operation& RoundingChain::LastComputing() const {
  const size_t computing = followers.size() - moves;
  return computing == 0 ? *source : *followers[computing - 1];
}

bool RoundingChain::IsHidden(const Network& network,
                             const Operation& operation) const {
  const ValueId made = operation.outputs[0];
  const auto outputs = network.outputs();
  return &LastComputing() != &operation &&
         network.value(made).uses.size() == 1 &&
         std::find(outputs.begin(), outputs.end(), made) == outputs.end();
}

ValueId RoundingChain::BeforeMoves() const {
  return LastComputing().outputs[0];
}

std::vector<ValueId> RoundingChain::Needs() const {
  std::vector<ValueId> needs = source->inputs;
  needs.push_back(source->outputs[0]);
  needs.push_back(BeforeMoves());
  std::set<ValueId> made;
  for (const Operation* follower : followers) {
    for (const ValueId id : follower->inputs) {
      if (id != kNoValue && made.count(id) == 0) needs.push_back(id);
    }
    made.insert(follower->outputs[0]);
    const LeastBounds own = LeastBoundsOfFollower(*follower);
    if (own.roundoffs + own.half_ulps > 0) {
      needs.push_back(follower->outputs[0]);
    }
  }
  return needs;
}

// A Sum of n tensors is a sum of n terms t: n u (sum |t|) and 3 u (sqrt(n)
// norm(t) + sqrt(n) |y|) are at least so many u |y|, and both have HalfUlp(y)
// added (BoundSum() in contrib/ops/util/sum_bounds.h).
LeastBounds LeastBoundsOfFollower(const Operation& operation) {
  const ErrorBound& bound = operation.def().bound;
  if (bound.kind == ErrorBound::Kind::kUlps) return {0, 2 * bound.ulps};
  if (operation.kind() != "Sum" || !operation.def().domain.empty()) return {};
  const auto terms = static_cast<double>(operation.inputs.size());
  return {std::min(terms, 3.0), 1};
}

std::optional<RoundingChain> FindRoundingChain(const Network& network,
                                               ValueId output) {
  const std::set<ValueId> ancestors = AncestorsOf(network, output);
  RoundingChain chain;
  std::set<ValueId> dependent;
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (!IsAnyIn(operation.outputs, ancestors)) continue;
    if (chain.source == nullptr) {
      if (operation.def().bound.kind == ErrorBound::Kind::kExact) {
        chain.stands_alone = chain.stands_alone && IsMove(operation);
        continue;
      }
      if (operation.outputs.size() != 1) return std::nullopt;
      chain.source = &operation;
    } else if (IsAnyIn(operation.inputs, dependent)) {
      const bool is_move = IsMove(operation);
      if (!CanFollow(network, operation) || (chain.moves > 0 && !is_move)) {
        return std::nullopt;
      }
      chain.moves += is_move ? 1 : 0;
      chain.followers.push_back(&operation);
    } else {
      chain.stands_alone = chain.stands_alone && IsMove(operation);
      continue;
    }
    dependent.insert(operation.outputs[0]);
  }
  if (dependent.count(output) == 0) return std::nullopt;
  return chain;
}

}  // namespace nodewise
