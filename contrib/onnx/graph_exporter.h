#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "contrib/onnx/onnx_types.h"
#include "nodewise/ir/network.h"
#include "nodewise/ops/opaque.h"

namespace nodewise {

// Writes one network as a graph: the model's, or a body of control flow.
class GraphExporter {
 public:
  // For a body, `outer` is the network around it, and `captured` holds the
  // names there of its last inputs; null and none for the model's own graph.
  // Both networks outlive this.
  GraphExporter(const Network& network, GraphExporter* outer,
                absl::Span<const std::string> captured);

  // Fails with kInvalidArgument, naming the operation, for what the network's
  // opset cannot express; with kUnimplemented for types that ONNX does not
  // have.
  absl::Status Export(proto::Graph* to);

  // Returns the versions of domains that opaque operations need, those in
  // bodies included. REQUIRES: Export() has been called, on the outermost.
  const std::map<std::string, int>& opaque_opsets() const {
    return opaque_opsets_;
  }

 private:
  void NameValues(absl::Span<const std::string> captured);
  void NameValue(const NetworkValue& value);
  bool IsTaken(const std::string& name) const;
  // Returns whether this constant is one of a graph around this one.
  bool IsOuterConstant(const NetworkValue& constant);
  std::string NameOf(ValueId id) const;

  absl::Status AddNode(const Operation& operation, proto::Node* to);
  absl::Status AddOpaque(const Operation& operation, const ops::Opaque& opaque,
                         proto::Node* to);
  absl::Status NeedOpset(const std::string& domain, int64_t version);
  absl::Status AddAttributes(const Operation& operation, proto::Node* to);
  absl::Status AddBodies(const Operation& operation,
                         absl::Span<const ValueId> captures, proto::Node* to);
  // Turns inputs that are attributes in this opset into attributes.
  absl::Status AddMoved(const Operation& operation,
                        std::vector<ValueId>* inputs, proto::Node* to);
  absl::Status AddConstants(proto::Graph* to);
  void AddInfo(const NetworkValue& value, proto::ValueInfo* to) const;

  const Network& network_;
  GraphExporter* outer_;
  size_t num_captures_;
  std::map<ValueId, std::string> names_;
  std::set<std::string> taken_;  // The names, for the bodies.
  std::set<ValueId> needed_;     // Constants that something reads.
  std::set<ValueId> moved_;      // Constants that became attributes.
  std::map<std::string, int> opaque_opsets_;
  std::set<ValueId> from_outside_;  // Constants that stand around this graph.
};

}  // namespace nodewise
