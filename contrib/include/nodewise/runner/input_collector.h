#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/runner/input_list.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/vm/vm_graph.h"

namespace nodewise {

// Returns the tensor of a file under the first of these names that exists, or
// its only tensor under any name. Fails as ReadTensorFile, and with kNotFound
// if there is neither; the message names names[0].
absl::StatusOr<NDArray> ReadOneTensor(const std::string& path,
                                      const std::vector<std::string>& names);

// A file that holds an input, or with an empty name all inputs that are in it.
struct InputFile {
  std::string name;
  std::string path;
};

// Reads files of tensors. Tensors that are read before there is a network are
// kept: the files may change meanwhile. Not thread-safe.
class InputFiles {
 public:
  // Returns the tensors of a file: those kept, or what ReadTensorFile reads.
  absl::StatusOr<std::vector<NamedTensor>> Read(const std::string& path) const;
  // Returns the types of what these files hold, for a network that takes its
  // dimensions from its inputs, and keeps all that it reads in memory of its
  // own. Fails with the first error.
  absl::StatusOr<std::vector<VmInputType>> TypesOf(
      absl::Span<const InputFile> files);
  // Says that the network has this input no more, since the tensor that it is
  // is known. A file of all inputs may hold it still: that is passed over.
  void SetFrozen(const std::string& name) { frozen_.insert(name); }
  bool IsFrozen(const std::string& name) const {
    return frozen_.contains(name);
  }

 private:
  absl::StatusOr<std::vector<NamedTensor>> ReadToKeep(const std::string& path);

  std::map<std::string, std::vector<NamedTensor>> kept_;  // By path.
  std::set<std::string> frozen_;
};

// An input of a run, its source ("x.npy", or "random, seed 7") and its value: a
// tensor in memory of its own, so that the file may change. It must not be
// written to.
struct RunInput {
  size_t input = 0;  // In the InputList.
  std::string from;
  NDArray tensor;
};
// Returns the inputs as Runner::Run() takes them.
std::vector<NamedTensor> NameInputs(const InputList& list,
                                    absl::Span<const RunInput> inputs);

// Collects the inputs of a run from files, and draws those that are not given.
// Every fault goes into `diagnostics`: unknown and doubled names, types that do
// not fit, inputs that were not given. Not thread-safe.
class InputCollector {
 public:
  // What messages say one can do; each may be empty.
  struct Hints {
    // How to give the input of this name.
    std::function<std::string(const std::string& name)> how_to_give;
    // What follows "expected all sizes, to draw it" for an input whose sizes
    // are not all known.
    std::function<std::string(const std::string& name, const TensorType& type)>
        how_to_size;
  };

  // All three must outlive it.
  InputCollector(const InputList& list, const InputFiles& files,
                 DiagnosticList* diagnostics);

  // Take what a file holds, and a tensor in memory.
  void Give(const InputFile& file);
  void Give(const NamedTensor& tensor);
  // Draws what is needed and not given if there is a seed, each input from a
  // stream of its name, so that giving one does not change the others. Without
  // a seed adds a fault for each. Does nothing if there are errors already,
  // since a list of what is missing would only mislead.
  void Complete(std::optional<uint64_t> seed, const Hints& hints);
  // Returns what was set, in the order of the list.
  std::vector<RunInput> Inputs() const;

 private:
  void GiveOne(const InputFile& file);
  void GiveAll(const std::string& path);
  void Set(const std::string& name, const NDArray& tensor,
           const std::string& path);
  absl::Status Keep(size_t input, const NDArray& tensor);
  void Draw(size_t input, uint64_t seed, const Hints& hints);
  void AddMissing(size_t input, const Hints& hints);
  void AddError(const absl::Status& status) {
    diagnostics_.Add(DiagnosticOf(status));
  }

  const InputList& list_;
  const InputFiles& files_;
  DiagnosticList& diagnostics_;
  std::vector<RunInput> inputs_;  // By input; `from` is empty if it is not set.
};

}  // namespace nodewise
