#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/module/module.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// A network whose functions a C compiler made, of the C that EmitC() wrote.
struct CompiledNetwork {
  Graph graph;
  Ref<Library> library;
};

// Compiles the functions of a lowered graph into a library in `folder`, which
// must be there. Functions that have been compiled there before are not
// compiled again, also not by another process at the same time. Fails as
// EmitC() and LoadModule() do, and with kInternal, with the command, if the
// compiler fails.
absl::StatusOr<CompiledNetwork> CompileNetwork(const Graph& graph,
                                               const OpSet& ops,
                                               const std::string& folder);

}  // namespace nodewise
