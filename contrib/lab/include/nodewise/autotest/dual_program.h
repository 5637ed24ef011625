#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/autotest/candidate.h"
#include "nodewise/autotest/generator.h"
#include "nodewise/compare/metrics.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// A test of operators that is written once, against the interface of ONNX, and
// run by the reference and by the candidate. All results on the way are
// compared:
//
//   TEST(MyBackend, MatMul) {
//     const generator m = random(1, 6), k = random(1, 6), n = random(1, 6);
//     EXPECT_EQ(autotest(AllOperators(), *MyCandidate(), [&](DualObject& onnx)
//     {
//       onnx["MatMul"]({random_tensor({m, k}), random_tensor({k, n})});
//     }), absl::OkStatus());
//   }
//
// A test that fails prints the program with the drawn values in place of the
// generators, as simple as it could be made, and the seed that draws it again.

class DualCase;
class DualObject;

// An input of a call: something that both sides have, or a generator of a
// tensor, or of nothing at all.
using DualInput = std::variant<DualObject, generator>;

// An attribute of a call. Its type is that of the operator's own; the generator
// is told. A tuple is a list; nothing leaves it out.
struct DualAttribute {
  std::string name;
  generator value;
};

// Something that both sides have: the two runtimes themselves, an operator, an
// operator with attributes and parameters (a module), a tensor, or what is
// known of one. Copies are the same thing. Nothing fails at once: the first
// error ends the case, and is what autotest() returns.
class DualObject {
 public:
  const std::string& name() const;

  // An attribute of the objects on both sides. A runtime has its operators, by
  // ONNX's names. A tensor has "shape" and "dtype", and operators as methods
  // that get this tensor as their first input: x["Relu"]().
  DualObject operator[](std::string_view attribute) const;

  // Calls an operator or a module on both sides. With several outputs the
  // object is the first one; Output() gives the others.
  DualObject operator()(std::vector<DualInput> inputs = {},
                        std::vector<DualAttribute> attributes = {}) const;
  // As above, with so many outputs.
  DualObject Call(std::vector<DualInput> inputs,
                  std::vector<DualAttribute> attributes,
                  size_t num_outputs) const;
  DualObject Output(size_t output) const;

  // Binds attributes and the last inputs (weights, a bias) to an operator. A
  // module that is never called is an error of the program: its calls are what
  // is compared.
  DualObject Module(std::vector<DualAttribute> attributes,
                    std::vector<DualInput> parameters = {}) const;

  // What each side holds: a tensor, or a list of numbers for "shape". Nothing
  // after an error.
  const GeneratedValue& reference() const;
  const GeneratedValue& tested() const;

  struct State;

 private:
  friend class DualCase;
  friend DualObject GetDualObject(const std::string& name, DualCase* owner);
  explicit DualObject(std::shared_ptr<const State> state)
      : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

// How the tested side runs.
enum class DualExecution {
  kEager,       // Call by call, each on what the call before gave.
  kGraph,       // All calls as one network.
  kConcurrent,  // As one network, in two threads at once.
};

struct DualOptions {
  uint64_t n = 20;  // Cases.
  // None: each comes with the bounds of the reference.
  std::optional<Tolerance> tolerance = std::nullopt;
  std::vector<DualExecution> executions = {DualExecution::kEager,
                                           DualExecution::kGraph};
  // Also compares, of all calls as one network, what reaches its inputs that
  // are floats from random cotangents of everything that comes out. The tested
  // side computes the gradient as a network, unless it has gradients of its own
  // (BackwardFunction). An operator that has no gradient is an error.
  bool with_gradients = false;
  // None: $NODEWISE_SEED, or one drawn anew.
  std::optional<uint64_t> seed = std::nullopt;
  int opset = kNewestOpset;
  // Draws that a case may take until the reference accepts it.
  uint64_t most_refused = 20;
  size_t most_tries = 500;  // Simpler programs that are tried.
};

// NOLINTBEGIN(readability-identifier-naming): as in its model
// Runs a program in n cases. Fails with kInternal, giving the program, where
// the sides differ; with kInvalidArgument for a program that cannot be run, and
// with kUnimplemented for what the tested side does not have.
absl::Status autotest(const OpSet& ops, Candidate& tested,
                      const std::function<void(DualObject& onnx)>& program,
                      const DualOptions& options = {});
// NOLINTEND(readability-identifier-naming)

}  // namespace nodewise
