#ifndef NODEWISE_TVM_HOST_VERSION_H_
#define NODEWISE_TVM_HOST_VERSION_H_

// Finds out which TVM the program's headers belong to. Their version is a
// string, which the preprocessor cannot compare, so it is recognised by what
// came with a release: TVM_HOST_VERSION is 14 for 0.14 and later releases with
// the same declarations. -DTVM_HOST_VERSION=16 overrides that, for headers from
// between two releases or an incomplete set of them.

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/object.h>

#ifndef TVM_HOST_VERSION
#if __has_include(<tvm/runtime/container/boxed_primitive.h>)
#define TVM_HOST_VERSION 18
#elif __has_include(<tvm/relax/attrs/sampling.h>)
#define TVM_HOST_VERSION 17
#elif defined(TVM_DEFINE_OBJECT_REF_METHODS_WITHOUT_DEFAULT_CONSTRUCTOR)
#define TVM_HOST_VERSION 16
#elif __has_include(<tvm/runtime/container/variant.h>)
#define TVM_HOST_VERSION 14
#elif __has_include(<tvm/node/script_printer.h>)
#define TVM_HOST_VERSION 12
#elif defined(TVM_LOG_LEVEL_INFO)
#define TVM_HOST_VERSION 11
#elif __has_include(<tvm/runtime/metadata_types.h>)
#define TVM_HOST_VERSION 9
#else
#define TVM_HOST_VERSION 8
#endif

namespace tvm {
namespace runtime {
namespace tvm_host {

// The 14 of "0.14.0".
constexpr int MinorOf(const char* version) {
  int minor = 0;
  for (const char* c = version + 2; *c >= '0' && *c <= '9'; ++c) {
    minor = 10 * minor + (*c - '0');
  }
  return minor;
}

// The first release with the same declarations.
constexpr int FirstLike(int minor) {
  for (int first : {18, 17, 16, 14, 12, 11, 9}) {
    if (minor >= first) return first;
  }
  return 8;
}

static_assert(FirstLike(MinorOf(TVM_VERSION)) == TVM_HOST_VERSION,
              "these are TVM headers of a kind not seen before: compile with "
              "-DTVM_HOST_VERSION=N, where N is the second number of the "
              "release that they are closest to");

}  // namespace tvm_host
}  // namespace runtime
}  // namespace tvm
#endif  // TVM_HOST_VERSION

#endif  // NODEWISE_TVM_HOST_VERSION_H_
