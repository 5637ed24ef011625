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
#include "nodewise/graph/graph_index.h"
#include "nodewise/runner/runner.h"
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

// Returns the type of a tensor that is to be the input of this name.
VmInputType InputTypeOf(const std::string& name, const NDArray& tensor);

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
  void Assign(const InputFile& file);
  void Assign(const NamedTensor& tensor);
  // Draws what is needed and not given if there is a seed, each input from a
  // stream of its name, so that giving one does not change the others. Without
  // a seed adds a fault for each. Does nothing if there are errors already,
  // since a list of what is missing would only mislead.
  void Complete(std::optional<uint64_t> seed, const Hints& hints);
  // Returns what was set, in the order of the list.
  std::vector<RunInput> Inputs() const;

 private:
  void AssignNamed(const InputFile& file);
  void AssignAll(const std::string& path);
  void Set(const std::string& name, const NDArray& tensor,
           const std::string& path);
  absl::Status Keep(size_t input, const NDArray& tensor);
  void Draw(size_t input, uint64_t seed, const Hints& hints);
  void AddError(const absl::Status& status) {
    diagnostics_.Add(DiagnosticOf(status));
  }

  const InputList& list_;
  const InputFiles& files_;
  DiagnosticList& diagnostics_;
  std::vector<RunInput> inputs_;  // By input; `from` is empty if it is not set.
};

// A folder of samples, each of which has all inputs of one run:
// - a file .npz, .params, .npy or .pb;
// - an ONNX test set, a folder with input_0.pb, input_1.pb, ...;
// - any other folder with such files.
struct SampleFolder {
  std::vector<std::string> samples;  // Paths; 2 comes before 10.
  // The names of other files, which are not samples.
  std::vector<std::string> passed_over;
};

// Looks at names alone. Fails with kNotFound if there is no such folder, and
// with kInvalidArgument if it is an ONNX test set or has no samples.
absl::StatusOr<SampleFolder> ListSamples(const std::string& folder);

// Returns the files of tensors that a sample is made of, without reading them;
// none for a folder without any.
std::vector<std::string> TensorFilesOf(const std::string& sample);

// Returns the files of a sample, by the name of the input where the file has
// one alone. Those of a test set without a known name get theirs from the order
// of the inputs that must be given. Fails with kInvalidArgument for a folder
// without inputs, and as ReadTensorFile() for files of a test set.
absl::StatusOr<std::vector<InputFile>> FilesOfSample(const std::string& sample,
                                                     const InputList& inputs);

// Reads the patch of an entry, as GraphIndex finds it, from a file: the tensor
// that is called as the entry's node, or as `run --until` or a dump name the
// entry, or the only one in the file. It has the model's order, also where the
// entry has its channels last. Fails as GraphIndex::FindEntry() and
// ReadOneTensor();
// `where` is what messages begin with, then and in the run.
absl::StatusOr<TensorPatch> ReadPatch(const GraphIndex& index,
                                      const std::string& entry,
                                      const std::string& file,
                                      const std::string& where);

}  // namespace nodewise
