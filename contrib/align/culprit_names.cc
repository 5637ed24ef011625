#include "contrib/align/culprit_names.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

// More names than these do not answer anything.
constexpr size_t kMostNamed = 4;

// Adds what is not there yet, up to so many.
void AddNew(const std::vector<OperationId>& more, size_t most,
            std::vector<OperationId>* list) {
  for (const OperationId one : more) {
    if (list->size() >= most) return;
    if (std::find(list->begin(), list->end(), one) == list->end()) {
      list->push_back(one);
    }
  }
}

bool IsSaid(const FittingEdit& edit, const ValueCulprit& culprit) {
  return std::any_of(culprit.explanations.begin(), culprit.explanations.end(),
                     [&edit](const Explanation& said) {
                       return said.operation == edit.operation &&
                              said.what == edit.what;
                     });
}

int64_t MostNumbersOf(const Network& network, OperationId id) {
  int64_t most = 0;
  for (const ValueId input : network.operation(id).inputs) {
    if (input == kNoValue) continue;
    const NetworkValue& value = network.value(input);
    const bool is_constant = value.kind == NetworkValue::Kind::kConstant;
    if (is_constant) most = std::max(most, CountOf(value.data));
  }
  return most;
}

}  // namespace

std::vector<OperationId> Likeliest(const Network& network,
                                   std::vector<OperationId> region) {
  std::stable_sort(
      region.begin(), region.end(), [&](OperationId a, OperationId b) {
        return MostNumbersOf(network, a) > MostNumbersOf(network, b);
      });
  if (region.size() > kMostNamed) region.resize(kMostNamed);
  return region;
}

void NameOperations(const Network& network,
                    const std::vector<FittingEdit>& edits, bool is_one_number,
                    ValueCulprit* culprit) {
  for (const FittingEdit& edit : edits) {
    // Several values of an attribute may mean the same.
    if (IsSaid(edit, *culprit)) continue;
    culprit->explanations.push_back({edit.operation, edit.what});
    AddNew({edit.operation}, kMostNamed, &culprit->operations);
  }
  if (culprit->operations.empty() || is_one_number) {
    AddNew(Likeliest(network, culprit->region), kMostNamed,
           &culprit->operations);
  }
}

void NameAlike(const Network& network, ValueCulprit* culprit) {
  std::vector<OperationId> makers;
  for (const ValueId id : culprit->alike) {
    makers.push_back(network.value(id).producer);
  }
  AddNew(makers, culprit->region.size() + makers.size(), &culprit->region);
  AddNew(makers, kMostNamed, &culprit->operations);
}

void Join(ValueCulprit culprit, ValueCulprit* with) {
  AddNew(culprit.region, with->region.size() + culprit.region.size(),
         &with->region);
  AddNew(culprit.operations, kMostNamed, &with->operations);
  for (Explanation& one : culprit.explanations) {
    with->explanations.push_back(std::move(one));
  }
}

}  // namespace nodewise
