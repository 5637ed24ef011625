#pragma once

// Networks in which some operations are opaque: the part of them that can be
// computed without knowing these operations.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Returns the operations that are opaque, or have such ones in their bodies, in
// the order of the run.
std::vector<OperationId> OpaqueOperations(const Network& network);

// An operator that is opaque, and the operations that it makes so.
struct OpaqueOperator {
  std::string name;  // "com.microsoft.DynamicQuantizeLSTM"
  std::vector<std::string> operations;
};
// Returns them by name. Those in bodies stand under the operation that has the
// body.
std::vector<OpaqueOperator> OpaqueOperators(const Network& network);
// "com.microsoft.DynamicQuantizeLSTM: 4 operations, Foo: 1 operation"; "" for
// none.
std::string TextOf(const std::vector<OpaqueOperator>& operators);

// An output of the network that cannot be computed, and the operations because
// of which: those opaque ones that it depends on and that depend on no other.
struct MissingOutput {
  std::string name;
  std::vector<std::string> because;
};

struct KnownPart {
  // The network without what opaque operations make and what depends on that;
  // the inputs are all there. Its outputs are those of the network that remain,
  // in their order, and then the values that are `ends`.
  Network network;
  std::vector<MissingOutput> missing;
  // What operations that remain make and those that are gone would read, as far
  // as it is not an output of the network.
  std::vector<std::string> ends;
  // All values that remain, other than constants, and that those read.
  std::vector<ValueId> open;
};
// Fails with kFailedPrecondition, naming the opaque operations, if nothing
// remains.
absl::StatusOr<KnownPart> KnownPartOf(const Network& network);

}  // namespace nodewise
