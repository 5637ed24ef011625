// TVM's C API: objects and their types.

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "absl/strings/str_format.h"
#include "nodewise/runtime/c_api.h"
#include "nodewise/runtime/packed_func.h"
#include "nodewise/support/status_macros.h"
#include "runtime/builtin/c_report.h"

namespace nodewise {
namespace {

// TVM's fixed numbers. All types derive from the first and from nothing else.
constexpr std::string_view kTypeKeys[] = {"runtime.Object",
                                          "runtime.Module",
                                          "runtime.NDArray",
                                          "runtime.String",
                                          "Array",
                                          "Map",
                                          "runtime.ShapeTuple",
                                          "runtime.PackedFunc",
                                          "runtime.profiling.Report"};

absl::StatusOr<unsigned> TypeIndex(std::string_view key) {
  for (unsigned i = 0; i < std::size(kTypeKeys); ++i) {
    if (kTypeKeys[i] == key) return i;
  }
  return absl::NotFoundError(
      absl::StrFormat("object type %s is not known here", key));
}

absl::StatusOr<unsigned> TypeIndexOf(TVMObjectHandle handle) {
  if (handle == nullptr) {
    return absl::InvalidArgumentError("the object handle is null");
  }
  return TypeIndex(static_cast<Object*>(handle)->object_type());
}

int GiveIndex(const absl::StatusOr<unsigned>& index, unsigned* out) {
  if (!index.ok()) return Report(index.status());
  *out = *index;
  return 0;
}

}  // namespace
}  // namespace nodewise

using nodewise::Report;

int TVMObjectGetTypeIndex(TVMObjectHandle object, unsigned* out_index) {
  return nodewise::GiveIndex(nodewise::TypeIndexOf(object), out_index);
}

int TVMObjectTypeKey2Index(const char* type_key, unsigned* out_index) {
  return nodewise::GiveIndex(nodewise::TypeIndex(type_key), out_index);
}

int TVMObjectTypeIndex2Key(unsigned index, char** out_type_key) {
  if (index >= std::size(nodewise::kTypeKeys)) {
    return Report(absl::NotFoundError(
        absl::StrFormat("object type %d is not known here", index)));
  }
  // The caller frees it, as with TVM's.
  *out_type_key = strdup(std::string(nodewise::kTypeKeys[index]).c_str());
  return 0;
}

int TVMObjectRetain(TVMObjectHandle object) {
  if (object != nullptr) static_cast<nodewise::Object*>(object)->Retain();
  return 0;
}

int TVMObjectFree(TVMObjectHandle object) {
  if (object != nullptr) static_cast<nodewise::Object*>(object)->Release();
  return 0;
}

int TVMObjectDerivedFrom(uint32_t child, uint32_t parent, int* is_derived) {
  *is_derived = child == parent || parent == 0;
  return 0;
}

int TVMByteArrayFree(TVMByteArray*) {
  return Report(absl::UnimplementedError(
      "TVMByteArrayFree: no function here gives out a byte array to free"));
}

int TVMExtTypeFree(void*, int type_code) {
  return Report(absl::UnimplementedError(absl::StrFormat(
      "TVMExtTypeFree: extension type %d is not supported", type_code)));
}
