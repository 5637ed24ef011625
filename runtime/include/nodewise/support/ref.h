#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace nodewise {

// Base of objects shared by reference counting, also across the C API, where a
// handle is a bare pointer that owns one count. Any thread may hold and drop
// them.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void Retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
  // Calls Retain(), unless the last count is gone already; for tables that know
  // an object without owning it.
  bool TryRetain() const {
    int count = count_.load(std::memory_order_relaxed);
    while (count > 0) {
      if (count_.compare_exchange_weak(count, count + 1,
                                       std::memory_order_acquire)) {
        return true;
      }
    }
    return false;
  }
  void Release() const {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~RefCounted() = default;

 private:
  mutable std::atomic<int> count_{0};
};

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
  // Takes over a count that somebody leaked.
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
