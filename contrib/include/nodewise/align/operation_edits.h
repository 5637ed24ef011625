#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// An operation as it may have been compiled by mistake.
struct OperationEdit {
  std::string what;
  OpAttrs attrs;
  // For each slot, which input of the original operation it reads; kDropped for
  // an optional input that is left out.
  std::vector<size_t> slots;
  static constexpr size_t kDropped = SIZE_MAX;
  // The operation only hands on the first of these inputs; `attrs` is ignored.
  bool is_skipped = false;
};

// Returns OperationEdit::slots of an operation that reads as it did.
std::vector<size_t> AllSlots(const Operation& operation);

// Returns operators of the same form that may stand in the place of this one by
// mistake, with its attributes as far as they have them, else with defaults.
std::vector<OpAttrs> OtherOperators(const Network& network,
                                    const Operation& operation,
                                    const OpSet& operators);

// Calls `visit` with mistakes that could be made in any operation of such a
// kind, the likeliest first, until it returns false: another value of an
// attribute, operands in another order, an optional input left out, the whole
// operation left out, or another operator of the same form in its place.
void VisitEdits(const Network& network, const Operation& operation,
                const OpSet& operators,
                absl::FunctionRef<bool(const OperationEdit& edit)> visit);

// Calls `visit` with a constant as it may be misread, floats or integers, and
// with what was changed ("read backwards"), until it returns false: taken for
// zeros, with the other sign, moved by one element or by one step of the first
// side, read backwards as a whole or along that side, with sides of one length
// exchanged; and integers one too large or too small, all of them, or each of a
// few. Constants of many millions of numbers are passed over.
void VisitConstantEdits(
    const NDArray& constant,
    absl::FunctionRef<bool(const NDArray& changed, const std::string& what)>
        visit);

}  // namespace nodewise
