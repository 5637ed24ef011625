#pragma once

#include <cstddef>
#include <string>

#include "apps/nodewise/command.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/planter/planter.h"

namespace nodewise {

// What `nodewise demo` shows of comparisons with the reference. All add to the
// outcome's text and document.

// Shows how many nodes agree with the reference, and those that are nearest to
// their bounds, or beyond them. `name` is the document's member.
void ShowChecks(const std::string& name, const Graph& graph,
                const NodeChecks& checks, Outcome* outcome);

// Shows what was planted and what was found. If that is not one and the same
// node, the outcome becomes kDiffers. `changed` of `tensors` tensors of the run
// are not as they were without the fault.
void ShowAnswer(const Graph& graph, const PlantedFault& fault,
                const NodeChecks& checks, size_t changed, size_t tensors,
                Outcome* outcome);

}  // namespace nodewise
