// TVM's C API: objects and their types.

#include <cstdlib>
#include <cstring>
#include <string>

#include "fmt/format.h"
#include "nodewise/func/c_api.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/func/containers.h"
#include "nodewise/support/object_abi.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::Status FindTypeIndex(std::string_view key, unsigned* index) {
  for (const ObjectTypeRow& row : ObjectTypes()) {
    if (row.key != key) continue;
    *index = row.index;
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      fmt::format("object type {} is not known here", key));
}

absl::Status CopyTypeKey(unsigned index, char** key) {
  for (const ObjectTypeRow& row : ObjectTypes()) {
    if (row.index != index) continue;
    // The caller frees it, as with TVM's.
    *key = strdup(std::string(row.key).c_str());
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      fmt::format("object type {} is not known here", index));
}

}  // namespace
}  // namespace nodewise

using nodewise::CallFromC;
using nodewise::ObjectHeader;
using nodewise::Report;

int TVMObjectGetTypeIndex(TVMObjectHandle object, unsigned* out_index) {
  return CallFromC(
      __func__, {{"object", object}, {"out_index", out_index}}, [&] {
        *out_index = static_cast<ObjectHeader*>(object)->type_index;
        return absl::OkStatus();
      });
}

int TVMObjectTypeKey2Index(const char* type_key, unsigned* out_index) {
  return CallFromC(
      __func__, {{"type_key", type_key}, {"out_index", out_index}},
      [&] { return nodewise::FindTypeIndex(type_key, out_index); });
}

int TVMObjectTypeIndex2Key(unsigned index, char** out_type_key) {
  return CallFromC(__func__, {{"out_type_key", out_type_key}},
                   [&] { return nodewise::CopyTypeKey(index, out_type_key); });
}

int TVMObjectRetain(TVMObjectHandle object) {
  if (object != nullptr) static_cast<ObjectHeader*>(object)->Retain();
  return 0;
}

int TVMObjectFree(TVMObjectHandle object) {
  if (object != nullptr) static_cast<ObjectHeader*>(object)->Release();
  return 0;
}

int TVMObjectDerivedFrom(uint32_t child, uint32_t parent, int* is_derived) {
  return CallFromC(__func__, {{"is_derived", is_derived}}, [&] {
    *is_derived = child == parent || parent == 0;
    return absl::OkStatus();
  });
}

int TVMByteArrayFree(TVMByteArray*) {
  return Report(absl::UnimplementedError(
      "TVMByteArrayFree: no function here gives out a byte array to free"));
}

int TVMExtTypeFree(void*, int type_code) {
  return Report(absl::UnimplementedError(fmt::format(
      "TVMExtTypeFree: extension type {} is not supported", type_code)));
}
