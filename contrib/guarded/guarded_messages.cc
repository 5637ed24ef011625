#include "contrib/guarded/guarded_messages.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "nodewise/ndarray/hash.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A message is its kind (u32), the size of its head (u64), the head, and then
// the contents of the tensors that the head lists. Contents stand outside of
// the head, so that they go from the pipe into the tensor's own memory.
//
// Both processes are copies of one program on one machine, which is why fields
// travel as they lie in memory. Each head has one function below that names its
// fields; it is called with a HeadWriter in the child and with a HeadReader in
// the process that waits, so that the two sides cannot come to differ.
enum Kind : uint32_t { kBegins = 1, kEnds, kTensor, kResult };

// Where the contents of a tensor are.
enum Contents : uint8_t { kAbsent, kFollow, kAsGiven, kAsMade };

// The head is read into memory before it is understood, so its size is bounded
// first. Heads hold names and shapes alone.
constexpr uint64_t kMostHeadBytes = 16 << 20;

class HeadWriter {
 public:
  static constexpr bool kReads = false;

  template <typename T>
  void Field(const char*, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void Field(const char* what, const std::string& text) {
    Field(what, uint64_t{text.size()});
    text_ += text;
  }
  template <typename List, typename Fields>
  void Each(const char* what, const List& items, Fields fields) {
    Field(what, uint64_t{items.size()});
    for (const auto& item : items) fields(item);
  }
  // Adds the type alone.
  void Tensor(const NDArray& tensor) {
    Field("type", tensor.dtype());
    Each("rank", tensor.shape(), [&](int64_t size) { Field("shape", size); });
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The first error ends the reading: all fields behind it stay as they are and
// lists end, so that the functions of fields need not look at each of them.
// Code that uses what was read looks at status() before.
class HeadReader {
 public:
  static constexpr bool kReads = true;

  explicit HeadReader(const std::vector<uint8_t>& head)
      : bytes_(head, "run in a child") {}

  template <typename T>
  void Field(const char* what, T& value) {
    if (status_.ok()) Keep(bytes_.Read<T>(what), &value);
  }
  // A byte that is neither 0 nor 1 must not get into a bool.
  void Field(const char* what, bool& flag) {
    uint8_t byte = 0;
    Field(what, byte);
    flag = byte != 0;
  }
  void Field(const char* what, std::string& text) {
    if (status_.ok()) Keep(bytes_.String(what), &text);
  }
  // Every item takes eight bytes at least: it begins with a number of that
  // size, or with the length of a text.
  template <typename List, typename Fields>
  void Each(const char* what, List& items, Fields fields) {
    uint64_t count = 0;
    if (status_.ok()) Keep(bytes_.Count(what, sizeof(uint64_t)), &count);
    for (uint64_t i = 0; i < count && status_.ok(); ++i) {
      fields(items.emplace_back());
    }
  }
  // Makes a tensor of the type, its contents still to be read. The sizes are
  // checked before memory is taken.
  void Tensor(NDArray& tensor) {
    DLDataType dtype{};
    std::vector<int64_t> shape;
    Field("type", dtype);
    Each("rank", shape, [&](int64_t& size) { Field("shape", size); });
    if (status_.ok() && shape.size() > static_cast<size_t>(kMostDims)) {
      status_ = DataLoss("run in a child: rank {}, expected at most {}",
                         shape.size(), kMostDims);
    }
    if (status_.ok()) Keep(NDArray::Empty(shape, dtype, kCpu), &tensor);
  }
  const absl::Status& status() const { return status_; }

 private:
  template <typename Read, typename T>
  void Keep(absl::StatusOr<Read> read, T* value) {
    status_ = read.status();
    if (read.ok()) *value = T(*std::move(read));
  }

  ByteReader bytes_;
  absl::Status status_;
};

template <typename Head, typename Key>
void KeyFields(Head& head, Key& key) {
  head.Field("node", key.node);
  head.Field("slot", key.slot);
  bool is_input = key.role == TensorRole::kInput;
  head.Field("role", is_input);
  if constexpr (Head::kReads) {
    key.role = is_input ? TensorRole::kInput : TensorRole::kOutput;
  }
}

struct TensorHead {
  TensorKey key;
  NodeTime time;
  bool is_network_input = false;
  bool has_origin = false;
  TensorKey origin;
  uint64_t hash = 0;
  Contents contents = kFollow;
};

template <typename Head, typename Item>
void TensorFields(Head& head, Item& item) {
  KeyFields(head, item.key);
  head.Field("time", item.time);
  head.Field("whether it is an input of the network", item.is_network_input);
  head.Field("whether its origin is known", item.has_origin);
  if (item.has_origin) KeyFields(head, item.origin);
  head.Field("hash", item.hash);
  head.Field("place of the contents", item.contents);
}

template <typename Head, typename Result>
void ResultFields(Head& head, Result& result) {
  bool has_stopped = result.stopped.has_value();
  head.Field("whether it has stopped", has_stopped);
  if (has_stopped) {
    if constexpr (Head::kReads) result.stopped.emplace();
    auto& place = *result.stopped;
    head.Field("key of the node that it stopped at", place.key);
    head.Field("title of the node that it stopped at", place.title);
    head.Field("function", place.function);
    head.Field("whether it stopped at a value", place.made_value);
  }
  head.Each("tensors", result.unread, [&](auto& tensor) {
    head.Field("name", tensor.name);
    head.Field("type", tensor.dtype);
  });
  head.Each("notes", result.notes,
            [&](auto& note) { head.Field("note", note); });
  head.Each("durations", result.durations_ns,
            [&](auto& duration) { head.Field("duration", duration); });
  head.Each("nodes", result.floats, [&](auto& node) {
    head.Field("node", node.key);
    head.Field("floats", node.change);
  });
  head.Field("memory", result.bytes_beside);
  head.Each("outputs", result.outputs, [&](auto& output) {
    head.Field("name", output.name);
    head.Tensor(output.tensor);
  });
}

absl::Status ReadContents(PipeReader& reader, const NDArray& tensor) {
  if (tensor.bytes() == 0) return absl::OkStatus();
  return reader.Read(tensor.data(), tensor.bytes());
}

absl::Status ReceiveTensor(HeadReader& head, PipeReader& reader,
                           const std::string& source, RunListener* listener) {
  TensorHead read;
  TensorFields(head, read);
  NODEWISE_RETURN_IF_ERROR(head.status());
  read.key.source = read.origin.source = source;
  TensorItem item{read.key};
  item.time = read.time;
  item.is_network_input = read.is_network_input;
  if (read.has_origin) item.origin = &read.origin;
  item.hash = TensorHash{HashKind::kXxh3, read.hash};
  if (read.contents == kAbsent) {
    item.why_absent = "only its hash was asked for";
    return listener->Consume(item);
  }
  if (read.contents == kAsGiven) {
    item.lasting = listener->FindGivenTensor(read.key.node);
  } else if (read.contents == kAsMade) {
    item.lasting = listener->FindMade(read.origin);
  } else {
    head.Tensor(item.lasting);
    NODEWISE_RETURN_IF_ERROR(head.status());
    NODEWISE_RETURN_IF_ERROR(ReadContents(reader, item.lasting));
  }
  if (!item.lasting.defined()) {
    return DataLoss(
        "run in a child: {} has the contents of a tensor that has not come",
        read.key.Name());
  }
  item.tensor = item.lasting.tensor();
  return listener->Consume(item);
}

absl::Status ReceiveResult(HeadReader& head, PipeReader& reader,
                           RunListener* listener) {
  RunResult result;
  ResultFields(head, result);
  NODEWISE_RETURN_IF_ERROR(head.status());
  for (const NamedTensor& output : result.outputs) {
    NODEWISE_RETURN_IF_ERROR(ReadContents(reader, output.tensor));
  }
  return listener->Consume(std::move(result));
}

// Returns the tensor, compact and in host memory. Contents travel as one run of
// bytes, and a hash is that of such a run.
absl::StatusOr<NDArray> Compact(const DLTensor& tensor) {
  NDArray lent = NDArray::Borrow(tensor, nullptr);
  if (lent.device().device_type == kDLCPU && IsCompact(tensor)) return lent;
  return lent.CopyToHost();
}

}  // namespace

// One write takes all of it: where the child ends within a message, the reader
// sees that bytes are missing.
absl::Status RunSender::SendHead(uint32_t kind, const std::string& head) {
  HeadWriter message;
  message.Field("kind", kind);
  message.Field("head", head);
  return writer_.Write(message.text().data(), message.text().size());
}

absl::Status RunSender::SendContents(const NDArray& tensor) {
  if (tensor.bytes() == 0) return absl::OkStatus();
  return writer_.Write(tensor.data(), tensor.bytes());
}

absl::Status RunSender::NodeBegins(uint32_t node) {
  HeadWriter head;
  head.Field("node", node);
  return SendHead(kBegins, head.text());
}

absl::Status RunSender::NodeEnds() { return SendHead(kEnds, ""); }

absl::Status RunSender::Send(const TensorItem& item, bool hashes_suffice) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, Compact(*item.tensor));
  TensorHead sent;
  sent.key = item.key;
  sent.time = item.time;
  sent.is_network_input = item.is_network_input;
  sent.has_origin = item.origin != nullptr;
  if (sent.has_origin) sent.origin = *item.origin;
  sent.hash = HashBytes(tensor.data(), tensor.bytes());
  if (hashes_suffice) {
    sent.contents = kAbsent;
  } else if (IsUnchangedInput(item, tensor)) {
    sent.contents = kAsGiven;
  } else if (IsUnchangedOutput(item, sent.hash)) {
    sent.contents = kAsMade;
  }
  const bool is_made = item.key.role == TensorRole::kOutput;
  if (is_made && !hashes_suffice) made_[item.key] = sent.hash;
  HeadWriter head;
  TensorFields(head, sent);
  if (sent.contents != kFollow) return SendHead(kTensor, head.text());
  head.Tensor(tensor);
  NODEWISE_RETURN_IF_ERROR(SendHead(kTensor, head.text()));
  return SendContents(tensor);
}

// The child has a copy of what the waiting process had when it began.
bool RunSender::IsUnchangedInput(const TensorItem& item,
                                 const NDArray& tensor) const {
  if (!item.is_network_input) return false;
  const auto found = given_.find(item.key.node);
  if (found == given_.end()) return false;
  const NDArray& given = found->second;
  return given.shape() == tensor.shape() && given.dtype() == tensor.dtype() &&
         std::memcmp(given.data(), tensor.data(), tensor.bytes()) == 0;
}

// Hashes are compared and not contents, since the child keeps no copy of what
// its nodes have made. The waiting process has kept the tensor itself, which it
// then hands out again.
bool RunSender::IsUnchangedOutput(const TensorItem& item, uint64_t hash) const {
  if (item.key.role != TensorRole::kInput || item.origin == nullptr) {
    return false;
  }
  const auto found = made_.find(*item.origin);
  return found != made_.end() && found->second == hash;
}

absl::Status RunSender::Send(const RunResult& result) {
  HeadWriter head;
  ResultFields(head, result);
  NODEWISE_RETURN_IF_ERROR(SendHead(kResult, head.text()));
  for (const NamedTensor& output : result.outputs) {
    NODEWISE_RETURN_IF_ERROR(SendContents(output.tensor));
  }
  return absl::OkStatus();
}

absl::Status ReceiveMessage(PipeReader& reader, const std::string& source,
                            RunListener* listener) {
  uint32_t kind = 0;
  uint64_t bytes = 0;
  NODEWISE_RETURN_IF_ERROR(reader.Read(&kind, sizeof(kind)));
  NODEWISE_RETURN_IF_ERROR(reader.Read(&bytes, sizeof(bytes)));
  if (bytes > kMostHeadBytes) {
    return DataLoss(
        "run in a child: a message of {} bytes, expected at most {} (has a "
        "node written over memory that is not its own?)",
        bytes, kMostHeadBytes);
  }
  // All of the head is here before a field of it is looked at, so that a wrong
  // length is found out at once.
  std::vector<uint8_t> text(bytes);
  NODEWISE_RETURN_IF_ERROR(reader.Read(text.data(), text.size()));
  HeadReader head(text);
  switch (kind) {
    case kBegins: {
      uint32_t node = 0;
      head.Field("node", node);
      NODEWISE_RETURN_IF_ERROR(head.status());
      return listener->NodeBegins(node);
    }
    case kEnds:
      return listener->NodeEnds();
    case kTensor:
      return ReceiveTensor(head, reader, source, listener);
    case kResult:
      return ReceiveResult(head, reader, listener);
  }
  return DataLoss("run in a child: a message of kind {}, expected 1 to 4",
                  kind);
}

}  // namespace nodewise
