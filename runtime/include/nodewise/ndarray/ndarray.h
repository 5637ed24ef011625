#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/device/device.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/file.h"
#include "nodewise/support/object_abi.h"

namespace nodewise {

// The tensors that a node reads or makes, in order. They belong to the run that
// hands them out, and are not to be changed.
using TensorSpan = absl::Span<const DLTensor* const>;

// A shared tensor with a DLTensor: it owns its memory, or borrows it and keeps
// its owner alive. Copies of an NDArray are the same tensor; the memory is
// freed with the last of them. Counting is thread-safe, access to the data is
// not.
class NDArray {
 public:
  // Returns a new, uninitialised, compact tensor.
  static absl::StatusOr<NDArray> Empty(absl::Span<const int64_t> shape,
                                       DLDataType dtype, DLDevice device);
  // Returns the tensor that `tensor` describes; shape and strides are copied,
  // the data is not. `owner` (may be null) is kept for as long as the result
  // lives.
  static NDArray Borrow(const DLTensor& tensor, std::shared_ptr<void> owner);
  // Returns plain memory as a tensor of one dimension, of type uint8; `owner`
  // is as for Borrow().
  static NDArray BorrowBytes(void* data, size_t bytes, DLDevice device,
                             std::shared_ptr<void> owner);
  // Returns `bytes` of a mapped file as a read-only tensor. The data may lie at
  // any address. REQUIRES: `bytes` holds the whole tensor.
  static NDArray Map(absl::Span<const uint8_t> bytes,
                     absl::Span<const int64_t> shape, DLDataType dtype,
                     std::shared_ptr<const MappedFile> file);
  // Takes over `managed`; it stays the caller's on failure (kInvalidArgument).
  static absl::StatusOr<NDArray> FromDLPack(DLManagedTensor* managed);

  NDArray() = default;
  NDArray(const NDArray& other);
  NDArray(NDArray&& other) noexcept;
  NDArray& operator=(NDArray other) noexcept;
  ~NDArray();

  bool defined() const { return box_ != nullptr; }
  const DLTensor* operator->() const { return tensor(); }
  const DLTensor& operator*() const { return *tensor(); }
  DLTensor* tensor() const;
  absl::Span<const int64_t> shape() const;
  DLDataType dtype() const { return tensor()->dtype; }
  DLDevice device() const { return tensor()->device; }
  // Returns the address of the first element: data plus byte_offset.
  void* data() const;
  template <typename T>
  T* As() const {
    return static_cast<T*>(data());
  }
  // Returns the size of a compact tensor of this shape and type.
  size_t bytes() const;
  // Returns whether the memory is its own and no other NDArray is the same
  // tensor or a view of it, so that no other owner sees what is written there.
  bool is_held_once() const;
  // A tensor is read-only if a holder, or its owner, has promised that it is
  // not written to any more; so it can be shared instead of copied. Views of it
  // are read-only too.
  void MakeReadOnly();
  bool is_read_only() const;

  // Returns the memory from `byte_offset` on as a tensor of another shape or
  // type, which must not need more bytes than there are. REQUIRES: this one is
  // compact.
  absl::StatusOr<NDArray> View(absl::Span<const int64_t> shape,
                               DLDataType dtype, size_t byte_offset = 0) const;
  // Returns a compact copy in host memory.
  absl::StatusOr<NDArray> CopyToHost() const;

  // Returns what a DLPack capsule holds; the caller calls its deleter.
  DLManagedTensor* ToDLPack() const;

  // These are for the C API: a handle is the DLTensor, and owns one count. It
  // lies behind an ObjectHeader, and so may be one that compiled C++ has made.
  DLTensor* LeakHandle();
  static NDArray AdoptHandle(DLTensor* handle);
  static NDArray ShareHandle(DLTensor* handle);
  static ObjectHeader* HeaderOf(DLTensor* handle);

 private:
  struct Box;
  explicit NDArray(Box* box) : box_(box) {}

  Box* box_ = nullptr;
};

// A tensor and its name in a file or a graph.
struct NamedTensor {
  std::string name;
  NDArray tensor;
};

// The maximum rank of a tensor that comes from outside: NumPy's.
inline constexpr int kMostDims = 64;

// Returns OK for a DLTensor that may be read: its rank, shape and data are
// there, its elements could lie in memory. An empty one needs no data. Does not
// check the type. Fails with kInvalidArgument.
absl::Status CheckDLTensor(const DLTensor& tensor);

inline absl::Span<const int64_t> ShapeOf(const DLTensor& tensor) {
  return {tensor.shape, static_cast<size_t>(tensor.ndim)};
}
inline void* DataOf(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}
// Returns the size of a compact tensor of this one's shape and type. Fails as
// TensorBytes() of a shape and a type does.
absl::StatusOr<size_t> TensorBytes(const DLTensor& tensor);

// Returns whether the strides are null or those of a compact row-major tensor;
// strides of dimensions of size 1 do not matter.
bool IsCompact(const DLTensor& tensor);

// Copies a tensor that operators could not read as it lies: they read compact,
// aligned tensors in host memory; those of mapped files may lie anywhere.
absl::Status MakeReadable(NDArray* tensor);

// Copies element by element between tensors of one shape and type. Host tensors
// may have any strides, those on other devices must be compact. Fails with
// kInvalidArgument, naming what differs.
absl::Status CopyTensor(const DLTensor& from, const DLTensor& to);

// Copy a compact tensor from or to host memory of exactly its size.
absl::Status CopyFromBytes(const void* data, size_t size, const DLTensor& to);
absl::Status CopyToBytes(const DLTensor& from, void* data, size_t size);

// Returns "float32 (1, 64)".
std::string TypeToString(absl::Span<const int64_t> shape, DLDataType dtype);

// Returns a compact tensor over memory and a shape that outlive it. What it is
// used for must not write to either if they are constant.
DLTensor TensorOver(const void* data, absl::Span<const int64_t> shape,
                    DLDataType dtype, DLDevice device);

}  // namespace nodewise
