#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/fault.h"
#include "nodewise/vm/vm_library.h"

namespace nodewise {

// A function of a VM library as a graph: the calls of kernels become nodes, the
// constants parameters p0, p1, ..., the storages that TVM planned storage ids
// (docs/formats/vm_library.md says how each instruction is read).
struct VmGraph {
  Graph graph;
  Params params;  // Keep the library's file mapped.
  // What could not be kept as it is in the file, in words.
  std::vector<std::string> notes;
};

// An input, as far as a function may want to know it.
struct VmInputType {
  std::string name;
  std::vector<int64_t> shape;
  DLDataType dtype{};
};

// What binds dimensions that a function leaves open.
struct VmBinding {
  std::vector<VmInputType> inputs;  // Those that are at hand.
  // Runs a kernel of the library that computes dimensions from others: it reads
  // and writes `heap`. Null: such a function is refused.
  std::function<absl::Status(std::string_view kernel, absl::Span<int64_t> heap)>
      compute;
};

// The functions that can be asked for: all but kernels, in file order.
std::vector<std::string> VmFunctionNames(const VmExecutable& executable);

// The function of that name; without one "main", or the only one. kNotFound or
// kInvalidArgument, with the names that there are. Valid as long as the
// library is.
absl::StatusOr<const VmFunction*> FindVmFunction(const VmLibrary& library,
                                                 const std::string& name);

// Follows the instructions of a function, running nothing but what the binding
// has for it. What a graph cannot say is added to `reasons`, all of it with its
// place; the graph is empty then. kDataLoss for bytecode that cannot be true:
// it is not followed further.
absl::StatusOr<VmGraph> ReadVmGraph(const VmLibrary& library,
                                    const VmFunction& function,
                                    const VmBinding& binding,
                                    FaultList* reasons);

// The same, with the reasons as one kUnimplemented.
absl::StatusOr<VmGraph> ReadVmGraph(const VmLibrary& library,
                                    const std::string& function_name,
                                    const VmBinding& binding = {});

}  // namespace nodewise
