#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/runner/input_collector.h"
#include "nodewise/runner/input_list.h"

namespace nodewise {

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

}  // namespace nodewise
