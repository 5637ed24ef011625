#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/params.h"

namespace nodewise {

// Files of named tensors: numpy's .npy and .npz, TVM's .params and ONNX's .pb
// (one TensorProto). Any thread may call.

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

}  // namespace nodewise
