#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Another program that runs models: a runtime's own tool, or a script around
// one. It is asked, and answers, in files (docs/formats/foreign_runner.md). It
// runs with the rights of the user who starts it, so a command comes from a
// command line or from code, never from a file.
struct ForeignCommand {
  std::string name;  // What messages call it: "my_runtime".
  // The program, looked for in PATH unless it has a slash, and its arguments;
  // the path of the request is added behind them. No shell sees them.
  std::vector<std::string> arguments;
};

// Splits a text into a program and its arguments, at blanks and tabs. Between
// '...' everything counts as it is; between "..." \" and \\ stand for " and \;
// elsewhere \ makes the next character count as it is. Nothing else means
// anything. Fails with kInvalidArgument for a quote or a \ that nothing
// follows, and for a text without a program.
absl::StatusOr<ForeignCommand> ParseForeignCommand(std::string_view text);

// What a foreign program may take for one run.
struct ForeignLimits {
  int64_t time_ms = 600'000;
  uint64_t answer_bytes = uint64_t{8} << 30;  // All its tensors together.
  uint64_t printed_bytes = uint64_t{64} << 20;
};

// Counts the runs of a program. Any thread may call it.
class ProgramMeter {
 public:
  void Add(const ProgramRuns& runs) {
    const std::lock_guard lock(mutex_);
    runs_ = runs_ + runs;
  }
  ProgramRuns runs() const {
    const std::lock_guard lock(mutex_);
    return runs_;
  }

 private:
  mutable std::mutex mutex_;
  ProgramRuns runs_;
};

// What a foreign program is to run.
struct ForeignTarget {
  std::string name;  // What messages call it: "ort:model.onnx".
  ForeignCommand command;
  // The model, as it was read. Must not change any more.
  std::shared_ptr<const Network> network;
  // The file that it was read from, which is handed over as it is when no
  // values are observed. Empty: a model is written from the network then, too.
  // That is right for one that was changed since it was read, by a frozen input
  // say.
  std::string model_file = {};
  ForeignLimits limits = {};
  // Takes outputs with more or fewer sides of 1 than they should have, and
  // whole numbers of another type, for right, as it takes values between
  // operations. Else such an output is an error.
  bool takes_other_forms = false;
  // The values that are handed to a sink, beside inputs and outputs; none: all
  // of ObservableValues(). Others count as not there.
  std::optional<std::vector<std::string>> observed = std::nullopt;
  // How many of them are asked for in one run of the program; 0: all at once.
  size_t most_at_once = 0;
  // Asks for each as the only output of a model that ends at it, in a run of
  // its own: for programs that hand out nothing but outputs.
  bool ends_at_each = false;
  std::shared_ptr<ProgramMeter> meter = nullptr;  // May be null.
};

// Returns the names of the values that a foreign runtime can be made to hand
// out, in the order of the run: those that operations make for others. The
// outputs of the network, which it hands out anyway, are not among them.
std::vector<std::string> ObservableValues(const Network& network);

// Makes a runner of the program. It has the capabilities kTensors and
// kPatches. For these it writes a model in which the observed values are
// outputs, and what is patched an input. That may change which operations the
// runtime computes together, and with that the result: compare the outputs with
// those of a run without a sink. A value that the program cannot hand out comes
// without a tensor. Fails with kInvalidArgument for an observed value that is
// none.
absl::StatusOr<std::unique_ptr<Runner>> MakeForeignRunner(ForeignTarget target);

// Returns the program, which runs the networks it is asked to run; the network,
// the file and the observed values of the target are ignored.
std::shared_ptr<const NetworkProgram> ProgramOf(ForeignTarget target);

// A network to be run with these inputs, in the order of its own.
struct ForeignCase {
  const Network* network = nullptr;
  absl::Span<const NDArray> inputs;
};

// Returns whether the program runs several cases in one start, which it says
// when it is asked to run this one as usual. A program that cannot be run, or
// refuses the case, does not.
bool SupportsForeignCases(const ForeignCommand& command,
                          const ForeignLimits& limits, const ForeignCase& one);

// Runs all cases in one start of a program that takes them. Cases of one
// network that follow each other share a model. Returns the outputs of each in
// the order of its network's, or why there are none: kUnavailable where the
// program refuses the case, kDataLoss where what it says does not fit. Fails if
// the program as a whole does, so that nothing is known of any case.
absl::StatusOr<std::vector<absl::StatusOr<std::vector<NDArray>>>>
RunForeignCases(const ForeignCommand& command, const ForeignLimits& limits,
                absl::Span<const ForeignCase> cases);

}  // namespace nodewise
