#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/params.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

// Files of named tensors: numpy's .npy and .npz, TVM's .params and ONNX's .pb
// (one TensorProto). Any thread may call. OpenTensorSource (tensor_source.h)
// reads one tensor after the other instead of all at once.

// Reads all tensors of a file, in the order of the file. The format is
// recognised by the first bytes, or by the extension where these say nothing.
// The tensor of a .npy file is named after the file, those of a .npz file as
// their members without ".npy", that of a .pb file as it says, or after the
// file. Tensors of a .params file keep the file mapped and must not be written
// to; the others own their memory.
//
// numpy's bool is kBool, '<V2' is bfloat16 (as ml_dtypes saves it); big-endian
// data is swapped and Fortran order turned into C order.
//
// Fails as MappedFile::Open does; with kInvalidArgument for another kind of
// file, kDataLoss (and the byte) for a damaged one, kUnimplemented for types
// that a tensor cannot have (objects, strings, structures, long double), for
// '|V1' (numpy does not say which 8-bit float it is) and for archives that are
// encrypted or packed by a method other than deflate.
absl::StatusOr<std::vector<NamedTensor>> ReadTensorFile(
    const std::string& path);

// Writes a file in the format that the extension names: .npy (exactly one
// tensor, whose name is not kept), .npz, .params or .pb (exactly one tensor).
// The bytes depend on nothing but the tensors. Tensors outside host memory are
// fetched one at a time. The file appears only once it is complete.
//
// In numpy's formats int4 and uint4 become 8-bit integers, a vector type gets
// its lanes as a further last dimension, bfloat16 becomes '<V2' and the 8-bit
// floats become '|V1', which ReadTensorFile refuses.
//
// Fails with kInvalidArgument for another extension, an undefined tensor, a
// number of tensors other than one in .npy or .pb, a name that appears twice or
// is too long in .npz; kUnimplemented for types that the format does not have.
absl::Status WriteTensorFile(const std::string& path,
                             absl::Span<const NamedTensor> tensors);

// Writes such a file from a stream of tensors, one at a time, under the names
// of their keys. What comes without a tensor is counted, not written.
class TensorFileWriter : public TensorSink {
 public:
  // Fails as WriteTensorFile does.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(
      const std::string& path);

  // Fails as WriteTensorFile does. REQUIRES: it has not failed before.
  absl::Status Consume(const TensorItem& item) override = 0;
  // Makes the file appear; without it nothing is left. Fails if a .npy or .pb
  // file got no tensor. REQUIRES: nothing is taken afterwards.
  virtual absl::Status Finish() = 0;

  // The number of items that had no tensor.
  virtual size_t num_skipped() const = 0;
};

// An open file of tensors (tensor_file.h), from which they are read one at a
// time. It keeps the file mapped.
class TensorFileReader {
 public:
  // Recognises the format. Fails as ReadTensorFile does; the tensors of .npz
  // and .npy files are checked when they are read.
  static absl::StatusOr<std::unique_ptr<TensorFileReader>> Open(
      const std::string& path);

  virtual ~TensorFileReader() = default;
  // The names as the file has them, in its order.
  virtual const std::vector<std::string>& names() const = 0;
  // Returns a tensor that stays valid without the reader. REQUIRES: `index` is
  // below names().size().
  virtual absl::StatusOr<NDArray> Read(size_t index) = 0;
};

}  // namespace nodewise
