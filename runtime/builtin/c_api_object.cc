// TVM's C API: objects and their types.

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "fmt/format.h"
#include "nodewise/func/c_api.h"
#include "nodewise/func/c_call.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/support/status_macros.h"

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
                                          "runtime.profiling.Report",
                                          "runtime.ADT",
                                          "runtime.profiling.Duration",
                                          "runtime.profiling.Percent",
                                          "runtime.profiling.Count",
                                          "runtime.profiling.Ratio"};

absl::Status FindTypeIndex(std::string_view key, unsigned* index) {
  for (unsigned i = 0; i < std::size(kTypeKeys); ++i) {
    if (kTypeKeys[i] != key) continue;
    *index = i;
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      fmt::format("object type {} is not known here", key));
}

absl::Status CopyTypeKey(unsigned index, char** key) {
  if (index >= std::size(kTypeKeys)) {
    return absl::NotFoundError(
        fmt::format("object type {} is not known here", index));
  }
  // The caller frees it, as with TVM's.
  *key = strdup(std::string(kTypeKeys[index]).c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace nodewise

using nodewise::CallFromC;
using nodewise::Report;

int TVMObjectGetTypeIndex(TVMObjectHandle object, unsigned* out_index) {
  return CallFromC(
      __func__, {{"object", object}, {"out_index", out_index}}, [&] {
        const auto* const held = static_cast<nodewise::Object*>(object);
        return nodewise::FindTypeIndex(held->object_type(), out_index);
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
  if (object != nullptr) static_cast<nodewise::Object*>(object)->Retain();
  return 0;
}

int TVMObjectFree(TVMObjectHandle object) {
  if (object != nullptr) static_cast<nodewise::Object*>(object)->Release();
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
