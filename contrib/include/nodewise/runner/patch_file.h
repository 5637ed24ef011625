#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Reads the patch of an entry, as GraphIndex finds it, from a file: the tensor
// that is called as the entry's node, or as `run --until` or a dump name the
// entry, or the only one in the file. It has the model's order, also where the
// entry has its channels last. Fails as GraphIndex::FindEntry() and
// ReadOneTensor();
// `where` is what messages begin with, then and in the run.
absl::StatusOr<TensorPatch> ReadPatch(const GraphIndex& index,
                                      const std::string& entry,
                                      const std::string& file,
                                      const std::string& where);

}  // namespace nodewise
