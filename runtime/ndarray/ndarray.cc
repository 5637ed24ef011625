#include "nodewise/ndarray/ndarray.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "fmt/format.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

struct Memory {
  std::shared_ptr<void> owner;  // The owner of borrowed memory.
  Device* device = nullptr;     // Where `block` was allocated; else null.
  void* block = nullptr;
  size_t bytes = 0;
  std::atomic<bool> is_read_only{false};
};

// The beginning of TVM's NDArray::Container. The address of the tensor is the
// handle in C; compiled C++ and bindings find the header before it.
struct Described {
  ObjectHeader header{kNDArrayType, {1}, nullptr};
  DLTensor tensor{};
  void* manager = nullptr;        // TVM's, for what a view is a view of.
  ObjectHeader* sides = nullptr;  // TVM's, a shape object.

  static Described* FromTensor(DLTensor* tensor) {
    return reinterpret_cast<Described*>(reinterpret_cast<char*>(tensor) -
                                        sizeof(ObjectHeader));
  }
};
static_assert(offsetof(Described, tensor) == sizeof(ObjectHeader));
static_assert(sizeof(Described) == 80);

}  // namespace

// Small tensors come and go by the thousand: each takes a box and a block of
// memory, and no other allocation. Freed memory keeps its bytes except for the
// first few, where the header is: hosts in Python read the device of a
// temporary array (`get_output(0).device`) just after it was freed, and get
// away with it, as with TVM.
struct NDArray::Box : Described, Memory {
  // The dimensions, stored without extra memory for most tensors.
  using Sides = absl::InlinedVector<int64_t, 4>;

  Sides shape;
  Sides strides;

  Box() { header.deleter = &Delete; }
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;
  ~Box() {
    if (device != nullptr) {
      device->Free(tensor.device.device_id, block, bytes);
    }
  }

  static void Delete(ObjectHeader* header) {
    delete static_cast<Box*>(reinterpret_cast<Described*>(header));
  }
  // Returns null if the tensor is not in a box but in a container of TVM's.
  static Box* FromTensor(DLTensor* tensor) {
    Described* const described = Described::FromTensor(tensor);
    if (described->header.deleter != &Delete) return nullptr;
    return static_cast<Box*>(described);
  }
};

namespace {

struct ManagedNDArray {
  DLManagedTensor managed{};
  NDArray array;
};

// A side of two tensors: how many places it has, and how many elements the next
// place is away in each.
struct WalkedSide {
  int64_t size = 1;
  int64_t step_from = 0;
  int64_t step_to = 0;
};

// A tensor without strides is compact: its steps are the products of the sides
// that follow.
std::vector<WalkedSide> WalkedSides(const DLTensor& from, const DLTensor& to) {
  std::vector<WalkedSide> sides(static_cast<size_t>(from.ndim));
  int64_t compact = 1;
  for (int d = from.ndim - 1; d >= 0; --d) {
    sides[static_cast<size_t>(d)] = {
        from.shape[d], from.strides != nullptr ? from.strides[d] : compact,
        to.strides != nullptr ? to.strides[d] : compact};
    compact *= from.shape[d];
  }
  return sides;
}

// Walks all elements in row-major order, handing out element offsets on both
// sides. REQUIRES: same shape, at least one element.
template <typename Visit>
void ForEachElement(const DLTensor& from, const DLTensor& to, Visit visit) {
  // The last side is a loop of its own: most elements are reached by one step.
  const std::vector<WalkedSide> sides = WalkedSides(from, to);
  const WalkedSide row = sides.empty() ? WalkedSide{1} : sides.back();
  std::vector<int64_t> index(sides.size(), 0);
  int64_t at = 0, into = 0;
  while (true) {
    for (int64_t i = 0; i < row.size; ++i) {
      visit(at + i * row.step_from, into + i * row.step_to);
    }
    bool is_over = true;
    for (size_t d = sides.size(); d-- > 1;) {
      const WalkedSide& side = sides[d - 1];
      at += side.step_from;
      into += side.step_to;
      is_over = ++index[d - 1] == side.size;
      if (!is_over) break;
      index[d - 1] = 0;
      at -= side.size * side.step_from;
      into -= side.size * side.step_to;
    }
    if (is_over) return;
  }
}

// No two bytes of a process are further apart.
constexpr double kMostReach = 0x1p48;

// How far from `data` the elements may lie. As a double, since strides that
// make no sense overflow everything else.
double ReachOf(const DLTensor& tensor, size_t bytes) {
  double reach = static_cast<double>(tensor.byte_offset);
  if (tensor.strides == nullptr) return reach + static_cast<double>(bytes);
  const auto width = static_cast<double>(ElementBytes(tensor.dtype));
  for (int d = 0; d < tensor.ndim; ++d) {
    reach += static_cast<double>(tensor.shape[d] - 1) * width *
             std::fabs(static_cast<double>(tensor.strides[d]));
  }
  return reach;
}

// `width` is a constant where that makes a copy one instruction. Elements may
// lie at any address, hence memcpy.
template <typename Width>
void CopyElements(const DLTensor& from, const DLTensor& to, Width width) {
  const char* const source = static_cast<const char*>(DataOf(from));
  char* const target = static_cast<char*>(DataOf(to));
  const auto bytes = static_cast<int64_t>(width);
  ForEachElement(from, to, [&](int64_t at, int64_t into) {
    std::memcpy(target + into * bytes, source + at * bytes, width);
  });
}

DLTensor HostMemoryFor(const DLTensor& tensor, const void* data) {
  return TensorOver(data, ShapeOf(tensor), tensor.dtype, kCpu);
}

// The device that is not the CPU does the copying, since only it can reach its
// memory.
absl::Status CopyBlock(const DLTensor& from, const DLTensor& to, size_t bytes) {
  if (DeviceTypeOf(from.device) == kDLCPU) {
    NODEWISE_ASSIGN_OR_RETURN(Device * device, FindDevice(to.device));
    return device->CopyFromHost(to.device.device_id, DataOf(to), DataOf(from),
                                bytes);
  }
  NODEWISE_ASSIGN_OR_RETURN(Device * device, FindDevice(from.device));
  const int id = from.device.device_id;
  if (DeviceTypeOf(to.device) == kDLCPU) {
    return device->CopyToHost(id, DataOf(to), DataOf(from), bytes);
  }
  if (to.device == from.device) {
    return device->Copy(id, DataOf(to), DataOf(from), bytes);
  }
  // Two devices that cannot see each other meet in host memory.
  std::vector<char> host(bytes);
  NODEWISE_RETURN_IF_ERROR(
      device->CopyToHost(id, host.data(), DataOf(from), bytes));
  NODEWISE_ASSIGN_OR_RETURN(Device * target, FindDevice(to.device));
  return target->CopyFromHost(to.device.device_id, DataOf(to), host.data(),
                              bytes);
}

}  // namespace

DLTensor TensorOver(const void* data, absl::Span<const int64_t> shape,
                    DLDataType dtype, DLDevice device) {
  DLTensor tensor{};
  tensor.data = const_cast<void*>(data);
  tensor.device = device;
  tensor.ndim = static_cast<int>(shape.size());
  tensor.dtype = dtype;
  tensor.shape = const_cast<int64_t*>(shape.data());
  return tensor;
}

// The contents are not defined. The box frees the memory on the device that
// gave it.
absl::StatusOr<NDArray> NDArray::Empty(absl::Span<const int64_t> shape,
                                       DLDataType dtype, DLDevice device) {
  NODEWISE_RETURN_IF_ERROR(CheckDType(dtype));
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(shape, dtype));
  NODEWISE_ASSIGN_OR_RETURN(Device * memory, FindDevice(device));
  NODEWISE_ASSIGN_OR_RETURN(
      void* const data,
      memory->Allocate(device.device_id, bytes, kTensorAlignment));
  NDArray array = Borrow(TensorOver(data, shape, dtype, device), nullptr);
  array.box_->device = memory;
  array.box_->block = data;
  array.box_->bytes = bytes;
  return array;
}

// The shape and the strides are copied, since those of the caller may be gone
// before the array is.
NDArray NDArray::Borrow(const DLTensor& tensor, std::shared_ptr<void> owner) {
  Box* box = new Box;
  box->tensor = tensor;
  box->owner = std::move(owner);
  box->shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  box->tensor.shape = box->shape.data();
  if (tensor.strides != nullptr) {
    box->strides.assign(tensor.strides, tensor.strides + tensor.ndim);
    box->tensor.strides = box->strides.data();
  }
  return NDArray(box);
}

NDArray NDArray::BorrowBytes(void* data, size_t bytes, DLDevice device,
                             std::shared_ptr<void> owner) {
  const auto count = static_cast<int64_t>(bytes);
  return Borrow(TensorOver(data, {&count, 1}, {kDLUInt, 8, 1}, device),
                std::move(owner));
}

// Written to by mistake, a mapped page would end the process; the mark lets
// callers refuse before that.
NDArray NDArray::Map(absl::Span<const uint8_t> bytes,
                     absl::Span<const int64_t> shape, DLDataType dtype,
                     std::shared_ptr<const MappedFile> file) {
  NDArray mapped = Borrow(TensorOver(bytes.data(), shape, dtype, kCpu),
                          std::const_pointer_cast<MappedFile>(std::move(file)));
  mapped.MakeReadOnly();
  return mapped;
}

absl::StatusOr<NDArray> NDArray::FromDLPack(DLManagedTensor* managed) {
  if (managed == nullptr) {
    return InvalidArgument("DLPack: the managed tensor is null");
  }
  const DLTensor& tensor = managed->dl_tensor;
  NODEWISE_RETURN_IF_ERROR(At("DLPack", CheckDType(tensor.dtype)));
  NODEWISE_RETURN_IF_ERROR(At("DLPack", CheckDLTensor(tensor)));
  // Taken over only now: a refused tensor stays the caller's.
  std::shared_ptr<void> owner(managed, [](void* pointer) {
    auto* managed = static_cast<DLManagedTensor*>(pointer);
    if (managed->deleter != nullptr) managed->deleter(managed);
  });
  return Borrow(tensor, std::move(owner));
}

// Copies share the box, whose header counts them, as C does through the same
// header.
NDArray::NDArray(const NDArray& other) : box_(other.box_) {
  if (box_ != nullptr) box_->header.Retain();
}

NDArray::NDArray(NDArray&& other) noexcept
    : box_(std::exchange(other.box_, nullptr)) {}

NDArray& NDArray::operator=(NDArray other) noexcept {
  std::swap(box_, other.box_);
  return *this;
}

NDArray::~NDArray() {
  if (box_ != nullptr) box_->header.Release();
}

DLTensor* NDArray::tensor() const {
  NODEWISE_CHECK(box_ != nullptr);
  return &box_->tensor;
}

absl::Span<const int64_t> NDArray::shape() const { return ShapeOf(*tensor()); }

void* NDArray::data() const { return DataOf(*tensor()); }

// Cannot overflow: the tensor has been checked when the array was made.
size_t NDArray::bytes() const {
  size_t elements = 1;
  for (const int64_t dim : shape()) elements *= static_cast<size_t>(dim);
  return elements * ElementBytes(dtype());
}

// Memory that is borrowed may have other holders that no count tells of.
bool NDArray::is_held_once() const {
  return box_ != nullptr && box_->device != nullptr &&
         box_->header.count.load(std::memory_order_acquire) == 1;
}

void NDArray::MakeReadOnly() {
  NODEWISE_CHECK(box_ != nullptr);
  box_->is_read_only.store(true, std::memory_order_release);
}

bool NDArray::is_read_only() const {
  return box_ != nullptr && box_->is_read_only.load(std::memory_order_acquire);
}

// The view holds the array that it was made of, so that memory lives as long as
// the last view, and a view of a view needs nothing special.
absl::StatusOr<NDArray> NDArray::View(absl::Span<const int64_t> shape,
                                      DLDataType dtype,
                                      size_t byte_offset) const {
  NODEWISE_CHECK(IsCompact(*tensor()));
  NODEWISE_RETURN_IF_ERROR(CheckDType(dtype));
  NODEWISE_ASSIGN_OR_RETURN(const size_t wanted, TensorBytes(shape, dtype));
  if (byte_offset > bytes() || wanted > bytes() - byte_offset) {
    const std::string from =
        byte_offset > 0 ? fmt::format(" from byte {} on", byte_offset) : "";
    return InvalidArgument("a view as {} needs {} bytes{}, the tensor has {}",
                           TypeToString(shape, dtype), wanted, from, bytes());
  }
  DLTensor view = TensorOver(tensor()->data, shape, dtype, tensor()->device);
  view.byte_offset = tensor()->byte_offset + byte_offset;
  NDArray made = Borrow(view, std::make_shared<NDArray>(*this));
  if (is_read_only()) made.MakeReadOnly();
  return made;
}

absl::StatusOr<NDArray> NDArray::CopyToHost() const {
  NODEWISE_ASSIGN_OR_RETURN(NDArray copy, Empty(shape(), dtype(), kCpu));
  NODEWISE_RETURN_IF_ERROR(CopyTensor(*tensor(), *copy));
  return copy;
}

// The receiver owns the result and calls its deleter, on any thread.
DLManagedTensor* NDArray::ToDLPack() const {
  auto* managed = new ManagedNDArray;
  managed->array = *this;
  managed->managed.dl_tensor = *tensor();
  managed->managed.manager_ctx = managed;
  managed->managed.deleter = [](DLManagedTensor* self) {
    delete static_cast<ManagedNDArray*>(self->manager_ctx);
  };
  return &managed->managed;
}

// The count of this array goes to C, which gives it back by AdoptHandle().
DLTensor* NDArray::LeakHandle() {
  Box* box = std::exchange(box_, nullptr);
  return box == nullptr ? nullptr : &box->tensor;
}

NDArray NDArray::AdoptHandle(DLTensor* handle) {
  if (handle == nullptr) return NDArray();
  Box* const box = Box::FromTensor(handle);
  if (box != nullptr) return NDArray(box);
  // A container that compiled C++ has made.
  std::shared_ptr<void> owner(
      &Described::FromTensor(handle)->header,
      [](void* held) { static_cast<ObjectHeader*>(held)->Release(); });
  return Borrow(*handle, std::move(owner));
}

NDArray NDArray::ShareHandle(DLTensor* handle) {
  if (handle != nullptr) Described::FromTensor(handle)->header.Retain();
  return AdoptHandle(handle);
}

ObjectHeader* NDArray::HeaderOf(DLTensor* handle) {
  return &Described::FromTensor(handle)->header;
}

// For tensors that C hands over: everything after this check may read the
// shape, and the elements as far as they reach.
absl::Status CheckDLTensor(const DLTensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > kMostDims) {
    return InvalidArgument("the tensor's rank is {}, expected 0 to {}",
                           tensor.ndim, kMostDims);
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr) {
    return InvalidArgument("the tensor's shape is null");
  }
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(tensor));
  if (bytes == 0) return absl::OkStatus();
  if (tensor.data == nullptr) {
    return InvalidArgument("the tensor's data is null");
  }
  if (ReachOf(tensor, bytes) <= kMostReach) return absl::OkStatus();
  return InvalidArgument(
      "the tensor's elements lie too far apart for memory (byte offset {})",
      tensor.byte_offset);
}

absl::StatusOr<size_t> TensorBytes(const DLTensor& tensor) {
  return TensorBytes(ShapeOf(tensor), tensor.dtype);
}

// Sides of one element may have any stride, because no step is ever made along
// them; tensors without elements may have any strides at all.
bool IsCompact(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  for (const int64_t dim : ShapeOf(tensor)) {
    if (dim == 0) return true;
  }
  int64_t expected = 1;
  for (int d = tensor.ndim - 1; d >= 0; --d) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.shape[d];
  }
  return true;
}

// A type without bits has no width, and nothing can be divided by that.
absl::Status MakeReadable(NDArray* tensor) {
  if (!tensor->defined()) return absl::OkStatus();
  const auto address = reinterpret_cast<uintptr_t>(tensor->data());
  const size_t width = std::max<size_t>(1, ElementBytes(tensor->dtype()));
  if (DeviceTypeOf(tensor->device()) == kDLCPU && IsCompact(**tensor) &&
      address % width == 0) {
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(*tensor, tensor->CopyToHost());
  return absl::OkStatus();
}

// Blocks are copied at once, on any device. Strides are followed in host memory
// alone: elsewhere each element would be a copy of its own.
absl::Status CopyTensor(const DLTensor& from, const DLTensor& to) {
  if (!IsSameType(from.dtype, to.dtype) || ShapeOf(from) != ShapeOf(to)) {
    return InvalidArgument("tensor is {}, expected {}",
                           TypeToString(ShapeOf(from), from.dtype),
                           TypeToString(ShapeOf(to), to.dtype));
  }
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(from));
  if (bytes == 0) return absl::OkStatus();
  if (IsCompact(from) && IsCompact(to)) return CopyBlock(from, to, bytes);
  if (DeviceTypeOf(from.device) != kDLCPU ||
      DeviceTypeOf(to.device) != kDLCPU) {
    return InvalidArgument(
        "tensor has strides, expected a compact one (copy it first)");
  }
  const size_t width = ElementBytes(from.dtype);
  if (width == 4) {
    CopyElements(from, to, std::integral_constant<size_t, 4>());
  } else {
    CopyElements(from, to, width);
  }
  return absl::OkStatus();
}

absl::Status CopyFromBytes(const void* data, size_t size, const DLTensor& to) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(to));
  if (bytes == size) return CopyTensor(HostMemoryFor(to, data), to);
  return InvalidArgument("got {} bytes for a tensor {}, expected {}", size,
                         TypeToString(ShapeOf(to), to.dtype), bytes);
}

absl::Status CopyToBytes(const DLTensor& from, void* data, size_t size) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(from));
  if (bytes == size) return CopyTensor(from, HostMemoryFor(from, data));
  return InvalidArgument("got room for {} bytes of a tensor {}, expected {}",
                         size, TypeToString(ShapeOf(from), from.dtype), bytes);
}

std::string TypeToString(absl::Span<const int64_t> shape, DLDataType dtype) {
  return ToString(dtype) + " " + ShapeToString(shape);
}

}  // namespace nodewise
