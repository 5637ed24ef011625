#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/random/random.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/vm/vm_graph.h"

namespace nodewise {

// Where a run's inputs come from.
struct InputOptions {
  std::vector<std::string> inputs;  // NAME=FILE
  std::string inputs_file;
  std::optional<uint64_t> seed;
};

void AddInputOptions(OptionList* options, InputOptions* inputs);

// The files that the options name. What is read before there is a network is
// kept: the files may change meanwhile.
class InputFiles {
 public:
  // The options must outlive it.
  explicit InputFiles(const InputOptions& options) : options_(options) {}

  const InputOptions& options() const { return options_; }
  // Returns the tensors of a file: those kept, or what ReadTensorFile reads.
  absl::StatusOr<std::vector<NamedTensor>> Read(const std::string& path) const;
  // Reads the tensors of a file and keeps them, in memory of their own.
  absl::StatusOr<std::vector<NamedTensor>> ReadToKeep(const std::string& path);

 private:
  const InputOptions& options_;
  std::map<std::string, std::vector<NamedTensor>> kept_;  // By path.
};

// Returns the types of the inputs before there is a network, for a network that
// takes dimensions from them. Fails with the first error of a file or an
// argument. Keeps all that it reads.
absl::StatusOr<std::vector<VmInputType>> InputTypes(InputFiles* files);

// What takes the inputs: an executor, or a network.
class InputTaker {
 public:
  virtual ~InputTaker() = default;

  virtual size_t size() const = 0;
  virtual std::string Name(size_t input) const = 0;
  // The unique name that Find accepts; several inputs may have one name.
  virtual std::string Key(size_t input) const { return Name(input); }
  // "float32 (1, 64)".
  virtual std::string Type(size_t input) const = 0;
  // True if the run cannot do without the input.
  virtual bool IsNeeded(size_t input) const = 0;
  // Fails with kNotFound, suggesting the nearest name.
  virtual absl::StatusOr<size_t> Find(const std::string& name) const = 0;
  virtual bool Fits(size_t input, const NDArray& tensor) const = 0;
  // REQUIRES: the tensor fits.
  virtual absl::Status Set(size_t input, const NDArray& tensor) = 0;
  // Draws a tensor that fits from the source; fails if sizes are not known.
  virtual absl::StatusOr<NDArray> Draw(size_t input,
                                       RandomSource& source) const = 0;
};

// An input that was set, its source ("x.npy", or "random, seed 7") and its
// value: a tensor in memory of its own, so that the file may change. Nobody
// writes to it.
struct InputSource {
  size_t input = 0;
  std::string from;
  NDArray tensor;
};

// Sets the inputs, and draws those that are not given if there is a seed: each
// from a stream of its name, so that giving one does not change the others.
// Returns what was set, in the order of the graph; every fault goes into
// `diagnostics`: unknown and doubled names, types that do not fit, inputs that
// were not given.
std::vector<InputSource> SetInputs(const InputFiles& files, InputTaker* taker,
                                   DiagnosticList* diagnostics);
std::vector<InputSource> SetInputs(const InputFiles& files,
                                   GraphExecutor* executor,
                                   DiagnosticList* diagnostics);

// Returns the tensor of a file under the first of these names that exists, or
// its only tensor under any name. Fails with kNotFound if there is neither; the
// message names names[0].
absl::StatusOr<NDArray> ReadOneTensor(const std::string& path,
                                      const std::vector<std::string>& names);

}  // namespace nodewise
