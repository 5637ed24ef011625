#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/vm/vm_library.h"

namespace nodewise {

// A function of a VM library as a graph: kernel calls become nodes, constants
// become parameters p0, p1, ..., the storages that TVM planned become storage
// ids (docs/formats/vm_library.md says how each instruction is read).
struct VmGraph {
  Graph graph;
  Params params;  // These keep the library's file mapped.
  // Notes on what could not be kept as it is in the file.
  std::vector<std::string> notes;
};

// What a function may need to know of an input.
struct VmInputType {
  std::string name;
  std::vector<int64_t> shape;
  DLDataType dtype{};
};

// Binds the dimensions that a function leaves open.
struct VmBinding {
  std::vector<VmInputType> inputs;  // The inputs at hand.
  // Runs a kernel of the library that computes dimensions from others: it reads
  // and writes `heap`. If null, functions that need this are refused.
  std::function<absl::Status(std::string_view kernel, absl::Span<int64_t> heap)>
      compute;
};

// Returns the functions that can be asked for: all but kernels, in file order.
std::vector<std::string> VmFunctionNames(const VmExecutable& executable);

// Returns the function of that name; for "" main, or the only one. Valid as
// long as the library is. Fails with kNotFound or kInvalidArgument, with the
// names that there are.
absl::StatusOr<const VmFunction*> FindVmFunction(const VmLibrary& library,
                                                 const std::string& name);

// Follows the instructions of a function, running nothing but the binding's
// `compute`. Everything that a graph cannot express is added to `reasons` with
// its place; the graph is empty then. Fails with kDataLoss at bytecode that
// cannot be valid, and follows it no further.
absl::StatusOr<VmGraph> ReadVmGraph(const VmLibrary& library,
                                    const VmFunction& function,
                                    const VmBinding& binding,
                                    DiagnosticList* reasons);

// Reads the function of that name, and returns any reasons as one
// kUnimplemented.
absl::StatusOr<VmGraph> ReadVmGraph(const VmLibrary& library,
                                    const std::string& function_name,
                                    const VmBinding& binding = {});

}  // namespace nodewise
