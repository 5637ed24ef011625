#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/process/piped_child.h"
#include "nodewise/runner/runner.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

// What a run in a child tells the process that waits for it. Only in builds
// with USE_PROFILER. The child runs code that may do anything to its memory, so
// that what comes is checked.
//
// Contents that the waiting process has already do not travel: what the network
// was given, as long as it still is that, and what a node reads, as long as it
// is what was made.

// By the names of the network's inputs and parameters.
using GivenTensors = std::unordered_map<std::string, NDArray>;

// In the child.
class RunSender {
 public:
  // Both must outlive it.
  RunSender(PipeWriter* writer, const GivenTensors& given)
      : writer_(*writer), given_(given) {}

  absl::Status NodeBegins(uint32_t node);
  absl::Status NodeEnds();
  // Leaves the contents away, and sends their hash, if hashes suffice.
  absl::Status Send(const TensorItem& item, bool hashes_suffice);
  absl::Status Send(const RunResult& result);

 private:
  absl::Status SendHead(uint32_t kind, const std::string& head);
  absl::Status SendContents(const NDArray& tensor);
  // Returns whether the waiting process has these contents already.
  bool IsUnchangedInput(const TensorItem& item, const NDArray& tensor) const;
  bool IsUnchangedOutput(const TensorItem& item, uint64_t hash) const;

  PipeWriter& writer_;
  const GivenTensors& given_;
  std::unordered_map<TensorKey, uint64_t> made_;  // The hashes.
};

// In the waiting process.
class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual absl::Status NodeBegins(uint32_t node) = 0;
  virtual absl::Status NodeEnds() = 0;
  virtual absl::Status Consume(const TensorItem& item) = 0;
  virtual absl::Status Consume(RunResult result) = 0;
  // Return a tensor that the network was given, or one that was made and taken;
  // undefined if there is none.
  virtual NDArray FindGivenTensor(const std::string& name) const = 0;
  virtual NDArray FindMade(const TensorKey& key) const = 0;
};

// Reads one message and hands it on. `source` names the run in tensors' keys.
// Fails as the reader and the listener do, and with kDataLoss for bytes that
// are not a message.
absl::Status ReceiveMessage(PipeReader& reader, const std::string& source,
                            RunListener* listener);

}  // namespace nodewise
