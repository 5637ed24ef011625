#pragma once

#include <cstddef>
#include <utility>

#include "nodewise/support/object_abi.h"

namespace nodewise {

// Deletes the RefCounted object of a header. Its address tells these objects
// from those of others.
void DeleteObject(ObjectHeader* header);

// Base of objects shared by reference counting, also across the C API, where a
// handle is a bare pointer that owns one count. Any thread may hold and drop
// them.
class RefCounted {
 public:
  RefCounted() : RefCounted(kObjectType) {}
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void Retain() const { header_.Retain(); }
  // Calls Retain(), unless the last count is gone already; for tables that know
  // an object without owning it.
  bool TryRetain() const {
    int count = header_.count.load(std::memory_order_relaxed);
    while (count > 0) {
      if (header_.count.compare_exchange_weak(count, count + 1,
                                              std::memory_order_acquire)) {
        return true;
      }
    }
    return false;
  }
  void Release() const { header_.Release(); }

 protected:
  explicit RefCounted(uint32_t type_index)
      : header_{type_index, {0}, &DeleteObject} {}
  virtual ~RefCounted() = default;

  ObjectHeader* header() const { return &header_; }
  // Returns the object with this header, or null if it is not one of these.
  static RefCounted* FromHeader(ObjectHeader* header) {
    if (header->deleter != &DeleteObject) return nullptr;
    return reinterpret_cast<RefCounted*>(reinterpret_cast<char*>(header) -
                                         kHeaderOffset);
  }

 private:
  friend void DeleteObject(ObjectHeader* header);

  // The header follows the pointer to the virtual functions, as in TVM's
  // classes that have them, and members of derived classes follow the header.
  static constexpr size_t kHeaderOffset = sizeof(void*);

  mutable ObjectHeader header_;
};

static_assert(sizeof(RefCounted) == sizeof(void*) + sizeof(ObjectHeader));

// Owns one count of a RefCounted object, or nothing.
template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT: null converts, as for any pointer.
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->Retain();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(other.Leak()) {}
  template <typename U>
  Ref(Ref<U> other) : object_(other.Leak()) {}  // NOLINT: upcasts.
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->Release();
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

  // Gives the count to the caller, who must Release() it or Adopt() it again.
  T* Leak() { return std::exchange(object_, nullptr); }
  // Takes over a count that was leaked.
  static Ref Adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Args>
Ref<T> MakeRef(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace nodewise
