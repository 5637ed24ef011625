#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

// Anything that tensors come from: a dump, a file of tensors, an ONNX test set,
// a run. It holds no more than one tensor in memory at a time where its format
// allows that. Not thread-safe; several sources of one file may be used at
// once.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // What messages and reports call it: a path, or what runs.
  virtual const std::string& name() const = 0;

  // Hands each tensor to the sink once, in the producer's order: that of the
  // run for dumps and runs, otherwise that of the file. May be called again,
  // and then hands out the same (a run runs again). Returns the sink's first
  // error as it is and stops there; an error of the source names the place and
  // what stands there. A tensor that is missing but known by name is handed out
  // as an item without a tensor, so that nothing is skipped unseen.
  virtual absl::Status Visit(TensorSink& sink) = 0;

  // Returns one tensor, which stays valid without the source and is not to be
  // written to; if several have that key, the last (as TVM does). Fails with
  // kNotFound for a key that the source does not have, or has without a tensor;
  // with kUnimplemented if the source can only be visited.
  virtual absl::StatusOr<NDArray> Find(const TensorKey& key);

  // Returns OK if the source has all that its producer meant to write; else
  // kDataLoss that says what is missing. Visit() hands out the rest all the
  // same. Dumps of runs that were killed are the usual case.
  virtual absl::Status CheckComplete() { return absl::OkStatus(); }
};

// Hands each tensor of a source to a function as Visit() does to a sink.
absl::Status VisitEach(
    TensorSource& source,
    absl::FunctionRef<absl::Status(const TensorItem& item)> take);

// The names of the tensors of an ONNX test set, in the order of its files
// input_0.pb, input_1.pb, ... and output_0.pb, ...: the names of the model's
// inputs and outputs. Names given here win over those in the files.
struct TestSetNames {
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};
};

// Opens what lies at `path`, recognised by its contents:
// - a dump: its root, a run's folder or its _tvmdbg_device_* folder, written by
//   us or by TVM (OpenDump);
// - a .params, .npz, .npy or .pb file (ReadTensorFile);
// - an ONNX test set: a folder with input_0.pb or output_0.pb, or the folder of
//   a model with one such test_data_set_N.
// Files are read as they are visited and must not change meanwhile. Fails as
// OpenDump and ReadTensorFile do; with kInvalidArgument, saying what was found
// and what was expected, if the path is none of these.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenTensorSource(
    const std::string& path, const TestSetNames& names = {});

// Returns whether Find() of the source reads a tensor of a file each time it is
// asked, and runs nothing: then what does not fit into memory need not be kept
// there. Archives hold far more than their size says.
bool IsRereadable(const TensorSource& source);

}  // namespace nodewise
