#ifndef NODEWISE_TVM_HOST_TYPE_TABLE_H_
#define NODEWISE_TVM_HOST_TYPE_TABLE_H_

// The types of the program's objects.

#include <tvm/runtime/object.h>

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runtime_error.h"

namespace tvm {
namespace runtime {
namespace tvm_host {

// Types by their index. Descendants of a type that asks for room get the
// indices after its own: TVM's headers test for that range before they ask
// DerivedFrom().
class TypeTable {
 public:
  static TypeTable& Get() {
    static auto* const table = new TypeTable;
    return *table;
  }

  struct Type {
    std::string key;
    uint32_t parent = 0;
    uint32_t room = 0;   // Indices for it and its descendants.
    uint32_t taken = 0;  // How many are taken.
    bool may_overflow = true;
  };

  uint32_t Add(const std::string& key, uint32_t fixed_index, uint32_t parent,
               uint32_t child_slots, bool may_overflow) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = index_of_.find(key);
    if (known != index_of_.end()) return known->second;
    const uint32_t room = child_slots + 1;
    const uint32_t index = fixed_index < TypeIndex::kStaticIndexEnd
                               ? fixed_index
                               : Place(parent, room, key);
    types_[index] = {key, parent, room, 1, may_overflow};
    index_of_.emplace(key, index);
    return index;
  }

  Type Find(uint32_t index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto type = types_.find(index);
    if (type != types_.end()) return type->second;
    throw RuntimeError("no object type has the index " + std::to_string(index));
  }

  bool IsKnown(uint32_t index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return types_.count(index) != 0;
  }

  uint32_t IndexOf(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto index = index_of_.find(key);
    if (index != index_of_.end()) return index->second;
    throw RuntimeError("no object type is called " + key);
  }

  bool IsDerived(uint32_t child, uint32_t parent) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // A parent's index is always less than that of its children.
    while (child > parent) {
      const auto type = types_.find(child);
      child = type != types_.end() ? type->second.parent : 0;
    }
    return child == parent;
  }

 private:
  TypeTable() { types_[0] = {"runtime.Object", 0, 1, 1, true}; }

  uint32_t Place(uint32_t parent, uint32_t room, const std::string& key) {
    Type& above = types_[parent];
    if (above.taken + room <= above.room) {
      above.taken += room;
      return parent + above.taken - room;
    }
    if (!above.may_overflow) {
      throw RuntimeError("object type " + key + ": its parent " + above.key +
                         " has no room for another child");
    }
    next_ += room;
    return next_ - room;
  }

  std::mutex mutex_;
  std::map<uint32_t, Type> types_;
  std::unordered_map<std::string, uint32_t> index_of_;
  uint32_t next_ = TypeIndex::kStaticIndexEnd;
};

}  // namespace tvm_host
}  // namespace runtime
}  // namespace tvm

#endif  // NODEWISE_TVM_HOST_TYPE_TABLE_H_
