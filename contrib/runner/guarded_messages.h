#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/process/piped_child.h"
#include "nodewise/runner/runner.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

// What a run in a child tells the process that waits for it. Only in builds
// with USE_PROFILER. The child runs code that may do anything to its memory, so
// that what comes is checked.

// In the child.
class RunTeller {
 public:
  explicit RunTeller(PipeWriter* writer) : writer_(*writer) {}

  absl::Status NodeBegins(uint32_t node);
  absl::Status NodeEnds();
  // Leaves the contents away, and sends their hash, if hashes suffice.
  absl::Status Tell(const TensorItem& item, bool hashes_suffice);
  absl::Status Tell(const RunResult& result);

 private:
  absl::Status Send(uint32_t kind, const std::string& head);
  absl::Status SendTensor(const NDArray& tensor);

  PipeWriter& writer_;
};

// In the waiting process.
class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual absl::Status NodeBegins(uint32_t node) = 0;
  virtual absl::Status NodeEnds() = 0;
  virtual absl::Status Take(const TensorItem& item) = 0;
  virtual absl::Status Take(RunResult result) = 0;
};

// Reads one message and hands it on. `source` names the run in tensors' keys.
// Fails as the reader and the listener do, and with kDataLoss for what is no
// message.
absl::Status HearMessage(PipeReader& reader, const std::string& source,
                         RunListener* listener);

}  // namespace nodewise
