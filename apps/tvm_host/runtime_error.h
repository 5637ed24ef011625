#ifndef NODEWISE_TVM_HOST_RUNTIME_ERROR_H_
#define NODEWISE_TVM_HOST_RUNTIME_ERROR_H_

#include <tvm/runtime/logging.h>

#include <ctime>
#include <string>

namespace tvm {
namespace runtime {
namespace tvm_host {

// An error of the runtime. TVM's own runtime throws InternalError, so programs
// catch that or one of its bases; this one holds only the message.
class RuntimeError : public InternalError {
 public:
  explicit RuntimeError(const std::string& message)
      : InternalError("nodewise", 0, message, std::time(nullptr), "") {}
  const char* what() const noexcept override { return message().c_str(); }
};

}  // namespace tvm_host
}  // namespace runtime
}  // namespace tvm

#endif  // NODEWISE_TVM_HOST_RUNTIME_ERROR_H_
