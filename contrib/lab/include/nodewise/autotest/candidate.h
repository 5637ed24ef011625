#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/foreign/c_compiler.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/ir/network.h"
#include "nodewise/ir/pass.h"
#include "nodewise/lower/lower.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// A network to be run on several sets of inputs, each in the order of the
// network's own.
struct CandidateJob {
  const Network* network = nullptr;
  absl::Span<const std::vector<NDArray>> sets;
  // The case whose gradient the network is; null if it is not a gradient. A
  // candidate that has gradients of its own may compute these in place of the
  // network.
  const BackwardCase* backward = nullptr;
};

using CandidateJobs = absl::Span<const CandidateJob>;

// What came out of one set: the outputs of the network in their order, or why
// there are none. kUnimplemented: the candidate does not have this at all.
// kUnavailable: it could not be asked. kAborted and kDeadlineExceeded: it has
// ended its process, or has not come to an end.
using CandidateOutputs = absl::StatusOr<std::vector<NDArray>>;
struct CandidateAnswer {
  std::vector<CandidateOutputs> sets;
};

// Something that computes networks, and is to be tested.
class Candidate {
 public:
  virtual ~Candidate() = default;

  // What reports call it: "onednn".
  virtual const std::string& name() const = 0;
  // How many jobs it likes to get at once. Those that are in other processes,
  // or compile what they run, take nearly as long for one as for many.
  virtual size_t jobs_at_once() const { return 16; }
  // Gets the answer of a job, with an entry for each set.
  using Take = absl::FunctionRef<void(CandidateAnswer answer)>;
  // Hands out the answers in the order of the jobs, each as soon as it is
  // there.
  virtual void Run(CandidateJobs jobs, Take take) = 0;
};

// A candidate with one of its features switched off.
struct CandidateVariant {
  std::string without;  // "fusing"
  std::function<absl::StatusOr<std::unique_ptr<Candidate>>()> make;
};

// Computes one network on one set.
using NetworkFunction = std::function<CandidateOutputs(
    const Network& network, const std::vector<NDArray>& inputs)>;
// Computes the gradient of a network on one set: inputs, then cotangents. Fails
// with kUnimplemented for what it has no gradient of its own for.
using BackwardFunction = std::function<CandidateOutputs(
    const BackwardCase& backward, const std::vector<NDArray>& inputs)>;
std::unique_ptr<Candidate> CallableCandidate(
    std::string name, NetworkFunction function,
    BackwardFunction backward = nullptr);

// Has a function compute the gradients that it knows, and another candidate all
// else.
std::unique_ptr<Candidate> BackwardCandidate(std::unique_ptr<Candidate> inner,
                                             BackwardFunction backward);

// The gradients of single operations that oneDNN has backward primitives for.
BackwardFunction OneDnnBackward();

// Runs lowered networks with the functions of a library that is made for each:
// what `nodewise run` does.
std::unique_ptr<Candidate> LoweredCandidate(
    std::string name, LowerOptions options,
    std::function<Ref<Library>()> make_library);

// Compiles the C that is emitted for many networks at once, with "-O2" say.
std::unique_ptr<Candidate> EmittedCandidate(
    const OpSet& ops, std::shared_ptr<const CCompiler> compiler,
    std::string optimisation, LowerOptions lowering = {});

// Gives another program many networks at once: each as a case of its own, if it
// takes cases (foreign_runner.h), else one model of all, which have nothing in
// common. What it cannot load or run is halved until what it cannot is alone.
std::unique_ptr<Candidate> ForeignCandidate(std::string name,
                                            ForeignCommand command,
                                            ForeignLimits limits = {});

// Runs another candidate in child processes: one that crashes or hangs takes
// down its child alone, and the sets behind go on in another. A set may take
// `limit_ms`. For candidates that run in this process.
std::unique_ptr<Candidate> GuardedCandidate(std::unique_ptr<Candidate> inner,
                                            int64_t limit_ms);

// Gives another candidate each network as these passes leave it. A pass that
// fails, or leaves faults, counts as one that has crashed.
std::unique_ptr<Candidate> RewrittenCandidate(std::unique_ptr<Candidate> inner,
                                              std::vector<Pass> passes);

// Runs the jobs and returns their answers.
std::vector<CandidateAnswer> RunJobs(Candidate& candidate, CandidateJobs jobs);

// Joins networks that have nothing in common in one; "cN_" is put before the
// names of number N. Inputs and outputs are those of the first, then of the
// second, and so on. REQUIRES: they have the same opsets.
absl::StatusOr<Network> JoinNetworks(absl::Span<const Network* const> parts);

}  // namespace nodewise
