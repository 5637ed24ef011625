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

namespace nodewise {

// A shared tensor over a DLTensor: owning its memory, or borrowing it and
// keeping its owner alive. Copies of an NDArray are the same tensor; the memory
// goes with the last of them. Counting is thread-safe, the data is not.
class NDArray {
 public:
  // A new, uninitialised, compact tensor.
  static absl::StatusOr<NDArray> Empty(absl::Span<const int64_t> shape,
                                       DLDataType dtype, DLDevice device);
  // The tensor that `tensor` describes; shape and strides are copied, the data
  // is not. `owner` (may be null) is kept for as long as the result lives.
  static NDArray Borrow(const DLTensor& tensor, std::shared_ptr<void> owner);
  // The same for plain memory: one dimension, of uint8.
  static NDArray BorrowBytes(void* data, size_t bytes, DLDevice device,
                             std::shared_ptr<void> owner);
  // `bytes` of a mapped file as a tensor that must not be written to. The data
  // may lie at any address. REQUIRES: bytes holds the whole tensor.
  static NDArray Map(absl::Span<const uint8_t> bytes,
                     absl::Span<const int64_t> shape, DLDataType dtype,
                     std::shared_ptr<const MappedFile> file);
  // Takes over `managed`; when it fails (kInvalidArgument), it stays the
  // caller's.
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
  // The first element: data plus byte_offset.
  void* data() const;
  template <typename T>
  T* As() const {
    return static_cast<T*>(data());
  }
  // Bytes of a compact tensor of this shape and type.
  size_t bytes() const;
  // True if the memory is its own and no other NDArray is the same tensor or a
  // view of it: nobody else sees what is written there.
  bool is_held_once() const;

  // The same memory, from `byte_offset` on, under another shape or type, which
  // must not need more bytes than there are. REQUIRES: this one is compact.
  absl::StatusOr<NDArray> View(absl::Span<const int64_t> shape,
                               DLDataType dtype, size_t byte_offset = 0) const;
  // A compact copy in host memory.
  absl::StatusOr<NDArray> CopyToHost() const;

  // A DLPack capsule's content; the caller calls its deleter.
  DLManagedTensor* ToDLPack() const;

  // For the C API: a handle is the DLTensor, and owns one count.
  DLTensor* LeakHandle();
  static NDArray AdoptHandle(DLTensor* handle);
  static NDArray ShareHandle(DLTensor* handle);

 private:
  struct Box;
  explicit NDArray(Box* box) : box_(box) {}

  Box* box_ = nullptr;
};

// A tensor with the name it has in a file or a graph.
struct NamedTensor {
  std::string name;
  NDArray tensor;
};

// The highest rank of a tensor that comes from outside: NumPy's.
inline constexpr int kMostDims = 64;

// OK for a DLTensor that may be read: its rank, shape and data are there, its
// elements could lie in memory. An empty one needs no data. Says nothing of the
// type. kInvalidArgument.
absl::Status CheckDLTensor(const DLTensor& tensor);

absl::Span<const int64_t> ShapeOf(const DLTensor& tensor);
void* DataOf(const DLTensor& tensor);

// True if the strides are null or those of a compact row-major tensor; strides
// of dimensions of size 1 do not matter.
bool IsCompact(const DLTensor& tensor);

// Copies element by element between tensors of one shape and type. Host
// tensors may have any strides, those on other devices must be compact.
// kInvalidArgument, naming what differs.
absl::Status CopyTensor(const DLTensor& from, const DLTensor& to);

// Copies a compact tensor to or from exactly its bytes in host memory.
absl::Status CopyFromBytes(const void* data, size_t size, const DLTensor& to);
absl::Status CopyToBytes(const DLTensor& from, void* data, size_t size);

// "float32 (1, 64)".
std::string TypeToString(absl::Span<const int64_t> shape, DLDataType dtype);

}  // namespace nodewise
