#pragma once

// Bodies of If, Loop and Scan: networks of their own, which other bodies are
// made of.

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/lab/gradient/writer.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/ir/network.h"

namespace nodewise::gradient {

// Entry `i` of a list of a Scan's, which is 0 where it is left out.
int64_t AttributeAt(absl::Span<const int64_t> list, size_t i);

// Gives all bodies what is known outside of them: the types of their inputs,
// and constants in place of constants that they capture. So more is known about
// what they make. Loops whose carried values may change their sizes stay as
// they are. Operations that are replaced have other numbers.
absl::Status CloseBodies(Network* network);

// Returns the gradient for these inputs of a body, of these outputs: its inputs
// are the body's, then a cotangent for each of the outputs. Fails as GradientOf
// does. REQUIRES: both lists have an element, and all are floats.
absl::StatusOr<Network> GradientOfBody(Network body,
                                       const std::vector<size_t>& outputs,
                                       const std::vector<size_t>& inputs);

// Gives a network other inputs, from which the old ones are calculated. First
// come those that an operator defines, then captures.
class BodyEditor {
 public:
  explicit BodyEditor(Network network);
  BodyEditor(const BodyEditor&) = delete;
  BodyEditor& operator=(const BodyEditor&) = delete;

  Writer& writer() { return writer_; }
  // Returns whether the network depends on the old input.
  bool Reads(size_t old) const;
  TensorType TypeOf(size_t old) const;
  Term AddInput(const TensorType& type);
  // Adds an input for a value of the network outside.
  Term Capture(Term outer, const TensorType& type);
  void Replace(size_t old, Term by) { by_[old] = by; }
  // Does nothing about an input that is not read.
  void ReplaceByCapture(size_t old, Term outer);

  // Ends the replacements, and returns the outputs. REQUIRES: there is one for
  // each input that is read.
  std::vector<Term> Outputs();
  // Returns the body that makes these.
  absl::StatusOr<Subgraph> Finish(const std::vector<Term>& outputs);
  // What it captures, in the order of its last inputs.
  const std::vector<Term>& captured() const { return captured_; }

 private:
  Network network_;
  Writer writer_;
  const std::vector<ValueId> old_;
  std::map<size_t, Term> by_;
  std::vector<Term> captured_;
};

}  // namespace nodewise::gradient
