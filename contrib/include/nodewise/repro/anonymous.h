#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/op/op_def.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/repro/shrink.h"
#include "nodewise/support/json_writer.h"

namespace nodewise {

// Makes a case that strangers may have: DrawTensors(), then perhaps
// ShrinkCase(), then HideNames().

struct DrawOptions {
  // How often the node runs at most, and at which cost.
  ShrinkOptions bounds = {};
  // Searches the case as the command of its folder does, and returns whether
  // it accuses the node in the same way. It is asked about each set of tensors
  // that passes otherwise, and decides alone about what runs of the node do not
  // show: side effects, stray writes. May be null.
  std::function<absl::StatusOr<bool>(const ReproCase& node_case)> accuses =
      nullptr;
};

// Replaces parameters and inputs by drawn numbers of the same distribution as
// long as the case shows the same: first all of them, then halves of those, so
// that few stay that the failure needs. What stays says why in
// ReproInput::why_not_drawn. Beside a model, constants of the model that a
// parameter holds in another order become the same numbers as that.
//
// Nothing depends on chance: one case always becomes the same one. Fails only
// if memory runs out.
absl::Status DrawTensors(const DrawOptions& options, const OpSet& operators,
                         ReproCase* node_case);

// Replaces the names of nodes, tensors, operations, sides and networks by such
// as say what they are, forgets what else came from a file, and sets
// Anonymity::kept. Then it runs the case once more: fails with
// kFailedPrecondition if that does not show what it did; as reading a graph
// back and making a network does. The case is undefined after an error.
absl::Status HideNames(const DrawOptions& options, const OpSet& operators,
                       ReproCase* node_case);

// Adds what is kept to a document, as "kept" (docs/formats/repro.md).
void WriteKept(const std::vector<KeptPart>& kept, JsonWriter* json);

// Returns what HideNames() will call a node: the kinds of its operators, such
// as "conv_relu"; "node" if it does not say what it computes.
std::string HiddenName(const Graph& graph, NodeId node, const OpSet& operators);
// Names the node of a case, whose model beside it may say what it computes.
std::string HiddenName(const ReproCase& node_case, const OpSet& operators);

}  // namespace nodewise
