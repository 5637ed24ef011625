#pragma once

#include <vector>

#include "contrib/align/region_edits.h"
#include "nodewise/align/value_locate.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Which operations of the network a culprit's names are.

// Returns the operations that are likeliest to be wrong in a way that no change
// explains: those with the most numbers of their own, of which any may be
// wrong; of two with as many the first one. A few at most.
std::vector<OperationId> Likeliest(const Network& network,
                                   std::vector<OperationId> region);

// Adds the changes to the culprit and names the operations that they are of;
// without any, the likeliest of its region. One number in all elements (the
// zeros of a Relu) is made by so many changes that they say little: then the
// others are named, too.
void NameOperations(const Network& network,
                    const std::vector<FittingEdit>& edits, bool is_one_number,
                    ValueCulprit* culprit);

// Names the operations that make what the entry may be meant to hold as well.
void NameAlike(const Network& network, ValueCulprit* culprit);

// Makes one culprit of two that are outputs of one node.
void Join(ValueCulprit culprit, ValueCulprit* with);

}  // namespace nodewise
