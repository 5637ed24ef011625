#include "contrib/lower/fusion.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "nodewise/ir/network.h"

namespace nodewise {
namespace {

// How an operator takes part in fusion.
enum class Part {
  kAlone,
  kHead,         // Computes from whole tensors; a region may begin with it.
  kElementwise,  // Computes each element from those at its place.
};

constexpr std::string_view kHeads[] = {"Conv", "ConvInteger", "ConvTranspose",
                                       "Gemm", "MatMul",      "MatMulInteger"};

// The most operations of one region: a longer chain gains nothing more, and
// hides more values from a user who debugs it.
constexpr size_t kMostOperations = 16;

bool IsHead(std::string_view kind) {
  return std::find(std::begin(kHeads), std::end(kHeads), kind) !=
         std::end(kHeads);
}

class RegionFinder {
 public:
  explicit RegionFinder(const Network& network)
      : network_(network),
        places_(network.data().operations.size()),
        is_taken_(places_.size()),
        is_output_(network.data().values.size()) {
    for (size_t i = 0; i < network.order().size(); ++i) {
      places_[Index(network.order()[i])] = i;
    }
    for (const ValueId id : network.outputs()) is_output_[Index(id)] = true;
  }

  std::vector<std::vector<OperationId>> Find(bool fuse) {
    std::vector<std::vector<OperationId>> regions;
    for (const OperationId id : network_.order()) {
      if (is_taken_[Index(id)] || !MakesSomething(id)) continue;
      std::vector<OperationId> region = {id};
      if (fuse && PartOf(id) != Part::kAlone) {
        while (Extend(&region)) {
        }
      }
      for (const OperationId taken : region) is_taken_[Index(taken)] = true;
      regions.push_back(std::move(region));
    }
    std::sort(regions.begin(), regions.end(),
              [this](const auto& a, const auto& b) {
                return PlaceOf(a.back()) < PlaceOf(b.back());
              });
    return regions;
  }

 private:
  size_t PlaceOf(OperationId id) const { return places_[Index(id)]; }

  bool MakesSomething(OperationId id) const {
    const auto& outputs = network_.operation(id).outputs;
    return std::any_of(outputs.begin(), outputs.end(),
                       [](ValueId output) { return output != kNoValue; });
  }

  // An operation that waits for another, or that another waits for, must keep
  // its place among the nodes.
  bool HasBarriers(const Operation& operation) const {
    return !operation.after.empty() ||
           !network_.value(operation.barrier).uses.empty();
  }

  Part PartOf(OperationId id) const {
    const Operation& operation = network_.operation(id);
    if (!operation.def().domain.empty() || operation.outputs.size() != 1 ||
        HasBarriers(operation)) {
      return Part::kAlone;
    }
    if (IsHead(operation.kind())) return Part::kHead;
    return IsElementwise(operation) ? Part::kElementwise : Part::kAlone;
  }

  ValueId OutputOf(OperationId id) const {
    return network_.operation(id).outputs[0];
  }

  // An operand with more sides would make the result larger.
  bool HasShapeOf(OperationId id, ValueId value) const {
    const auto& shape = network_.value(value).type.shape;
    return shape.has_value() &&
           network_.value(OutputOf(id)).type.shape == shape;
  }

  // Returns the first operation that reads one of the values and is not in
  // `inside`; none if all are read inside alone.
  std::optional<OperationId> FirstReader(
      const std::set<ValueId>& values,
      const std::set<OperationId>& inside) const {
    std::optional<OperationId> first;
    for (const ValueId value : values) {
      for (const Use& use : network_.value(value).uses) {
        if (inside.contains(use.user)) continue;
        if (!first.has_value() || PlaceOf(use.user) < PlaceOf(*first)) {
          first = use.user;
        }
      }
    }
    return first;
  }

  // Takes in the operations behind the region's result up to the next one where
  // everything comes together again: one operation in a chain, and all of a
  // Gelu that reads its input twice. Returns false if there is nothing to take.
  bool Extend(std::vector<OperationId>* region) const {
    const ValueId result = OutputOf(region->back());
    std::vector<OperationId> taken;
    std::set<OperationId> inside;
    std::set<ValueId> open = {result};  // Made inside.
    while (region->size() + taken.size() < kMostOperations) {
      for (const ValueId value : open) {
        if (is_output_[Index(value)]) return false;
      }
      const auto next = FirstReader(open, inside);
      if (!next.has_value() || is_taken_[Index(*next)] ||
          PartOf(*next) != Part::kElementwise || !HasShapeOf(*next, result)) {
        return false;
      }
      taken.push_back(*next);
      inside.insert(*next);
      if (!FirstReader(open, inside).has_value()) {
        region->insert(region->end(), taken.begin(), taken.end());
        return true;
      }
      open.insert(OutputOf(*next));
    }
    return false;
  }

  const Network& network_;
  std::vector<size_t> places_;   // In the order, by operation.
  std::vector<bool> is_taken_;   // By operation.
  std::vector<bool> is_output_;  // Which values are outputs of the network.
};

}  // namespace

std::vector<std::vector<OperationId>> FindRegions(const Network& network,
                                                  bool fuse) {
  return RegionFinder(network).Find(fuse);
}

}  // namespace nodewise
