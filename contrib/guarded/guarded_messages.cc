#include "contrib/guarded/guarded_messages.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// A message is its kind (u32), the size of its head (u64), the head, and then
// the contents of the tensors that the head lists.
enum Kind : uint32_t { kBegins = 1, kEnds, kTensor, kResult };

// Where the contents of a tensor are.
enum Contents : uint8_t { kAbsent, kFollow, kAsGiven, kAsMade };

constexpr uint64_t kMostHeadBytes = 16 << 20;

class HeadWriter {
 public:
  template <typename T>
  HeadWriter& Add(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    text_.append(bytes, sizeof(T));
    return *this;
  }
  HeadWriter& AddText(std::string_view text) {
    Add(uint64_t{text.size()});
    text_.append(text);
    return *this;
  }
  HeadWriter& AddKey(const TensorKey& key) {
    return AddText(key.node).Add(key.slot).Add(static_cast<uint8_t>(key.role));
  }
  HeadWriter& AddType(const DLTensor& tensor) {
    Add(tensor.dtype).Add(uint64_t{ShapeOf(tensor).size()});
    for (const int64_t size : ShapeOf(tensor)) Add(size);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The fields as HeadWriter has written them.
class HeadReader {
 public:
  explicit HeadReader(const std::vector<uint8_t>& head)
      : bytes_(head, "run in a child") {}

  template <typename T>
  absl::StatusOr<T> Read(const char* what) {
    return bytes_.Read<T>(what);
  }
  absl::StatusOr<std::string> Text(const char* what) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, bytes_.String(what));
    return std::string(text);
  }
  absl::StatusOr<uint64_t> Count(const char* what, uint64_t least_bytes) {
    return bytes_.Count(what, least_bytes);
  }
  absl::StatusOr<TensorKey> Key(const std::string& source) {
    TensorKey key;
    NODEWISE_ASSIGN_OR_RETURN(key.node, Text("node"));
    NODEWISE_ASSIGN_OR_RETURN(key.slot, Read<uint32_t>("slot"));
    NODEWISE_ASSIGN_OR_RETURN(const auto role, Read<uint8_t>("role"));
    key.role = role == static_cast<uint8_t>(TensorRole::kInput)
                   ? TensorRole::kInput
                   : TensorRole::kOutput;
    key.source = source;
    return key;
  }
  // Returns a tensor of that type, its contents still to be read.
  absl::StatusOr<NDArray> Tensor() {
    NODEWISE_ASSIGN_OR_RETURN(const auto dtype, Read<DLDataType>("type"));
    NODEWISE_ASSIGN_OR_RETURN(const uint64_t rank,
                              Count("rank", sizeof(int64_t)));
    if (rank > kMostDims) {
      return absl::DataLossError(fmt::format(
          "run in a child: rank {}, expected at most {}", rank, kMostDims));
    }
    std::vector<int64_t> shape(rank);
    for (int64_t& size : shape) {
      NODEWISE_ASSIGN_OR_RETURN(size, Read<int64_t>("shape"));
    }
    return NDArray::Empty(shape, dtype, {kDLCPU, 0});
  }

 private:
  ByteReader bytes_;
};

absl::Status ReadContents(PipeReader& reader, const NDArray& tensor) {
  if (tensor.bytes() == 0) return absl::OkStatus();
  return reader.Read(tensor.data(), tensor.bytes());
}

absl::Status HearTensor(HeadReader& head, PipeReader& reader,
                        const std::string& source, RunListener* listener) {
  NODEWISE_ASSIGN_OR_RETURN(const TensorKey key, head.Key(source));
  TensorItem item{key};
  NODEWISE_ASSIGN_OR_RETURN(item.time, head.Read<NodeTime>("time"));
  NODEWISE_ASSIGN_OR_RETURN(const auto is_input, head.Read<uint8_t>("flag"));
  item.is_network_input = is_input != 0;
  NODEWISE_ASSIGN_OR_RETURN(const auto has_origin, head.Read<uint8_t>("flag"));
  TensorKey origin;
  if (has_origin != 0) {
    NODEWISE_ASSIGN_OR_RETURN(origin, head.Key(source));
    item.origin = &origin;
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto hash, head.Read<uint64_t>("hash"));
  item.hash = TensorHash{HashKind::kXxh3, hash};
  NODEWISE_ASSIGN_OR_RETURN(const auto contents, head.Read<uint8_t>("flag"));
  if (contents == kAbsent) {
    item.why_absent = "only its hash was asked for";
    return listener->Take(item);
  }
  if (contents == kAsGiven) {
    item.lasting = listener->FindGiven(key.node);
  } else if (contents == kAsMade) {
    item.lasting = listener->FindMade(origin);
  } else {
    NODEWISE_ASSIGN_OR_RETURN(item.lasting, head.Tensor());
    NODEWISE_RETURN_IF_ERROR(ReadContents(reader, item.lasting));
  }
  if (!item.lasting.defined()) {
    return absl::DataLossError(fmt::format(
        "run in a child: {} has the contents of a tensor that has not come",
        key.Name()));
  }
  item.tensor = item.lasting.tensor();
  return listener->Take(item);
}

void AddStop(const RunResult& result, HeadWriter* head) {
  head->Add(static_cast<uint8_t>(result.stopped.has_value()));
  if (!result.stopped.has_value()) return;
  head->AddText(result.stopped->key)
      .AddText(result.stopped->title)
      .AddText(result.stopped->function)
      .Add(static_cast<uint8_t>(result.stopped->made_value));
}

absl::Status HearStop(HeadReader& head, RunResult* result) {
  NODEWISE_ASSIGN_OR_RETURN(const auto is_stopped, head.Read<uint8_t>("flag"));
  if (is_stopped == 0) return absl::OkStatus();
  StopPlace& place = result->stopped.emplace();
  NODEWISE_ASSIGN_OR_RETURN(place.key, head.Text("node"));
  NODEWISE_ASSIGN_OR_RETURN(place.title, head.Text("node"));
  NODEWISE_ASSIGN_OR_RETURN(place.function, head.Text("function"));
  NODEWISE_ASSIGN_OR_RETURN(const auto made, head.Read<uint8_t>("flag"));
  place.made_value = made != 0;
  return absl::OkStatus();
}

absl::Status HearLists(HeadReader& head, RunResult* result) {
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t unread,
                            head.Count("tensors", sizeof(uint64_t)));
  for (uint64_t i = 0; i < unread; ++i) {
    UnreadTensor& tensor = result->unread.emplace_back();
    NODEWISE_ASSIGN_OR_RETURN(tensor.name, head.Text("name"));
    NODEWISE_ASSIGN_OR_RETURN(tensor.dtype, head.Read<DLDataType>("type"));
  }
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t notes,
                            head.Count("notes", sizeof(uint64_t)));
  for (uint64_t i = 0; i < notes; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(result->notes.emplace_back(), head.Text("note"));
  }
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t durations,
                            head.Count("durations", sizeof(int64_t)));
  for (uint64_t i = 0; i < durations; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(result->durations_ns.emplace_back(),
                              head.Read<int64_t>("duration"));
  }
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t floats,
                            head.Count("nodes", sizeof(uint64_t)));
  for (uint64_t i = 0; i < floats; ++i) {
    NodeFloats& node = result->floats.emplace_back();
    NODEWISE_ASSIGN_OR_RETURN(node.key, head.Text("node"));
    NODEWISE_ASSIGN_OR_RETURN(node.change, head.Read<FloatChange>("floats"));
  }
  NODEWISE_ASSIGN_OR_RETURN(result->bytes_beside,
                            head.Read<uint64_t>("memory"));
  return absl::OkStatus();
}

absl::Status HearResult(HeadReader& head, PipeReader& reader,
                        RunListener* listener) {
  RunResult result;
  NODEWISE_RETURN_IF_ERROR(HearStop(head, &result));
  NODEWISE_RETURN_IF_ERROR(HearLists(head, &result));
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t outputs,
                            head.Count("outputs", sizeof(uint64_t)));
  for (uint64_t i = 0; i < outputs; ++i) {
    NamedTensor& output = result.outputs.emplace_back();
    NODEWISE_ASSIGN_OR_RETURN(output.name, head.Text("name"));
    NODEWISE_ASSIGN_OR_RETURN(output.tensor, head.Tensor());
  }
  for (const NamedTensor& output : result.outputs) {
    NODEWISE_RETURN_IF_ERROR(ReadContents(reader, output.tensor));
  }
  return listener->Take(std::move(result));
}

// Returns the tensor, compact and in host memory.
absl::StatusOr<NDArray> Compact(const DLTensor& tensor) {
  NDArray lent = NDArray::Borrow(tensor, nullptr);
  if (lent.device().device_type == kDLCPU && IsCompact(tensor)) return lent;
  return lent.CopyToHost();
}

}  // namespace

absl::Status RunTeller::Send(uint32_t kind, const std::string& head) {
  std::string message(sizeof(uint32_t) + sizeof(uint64_t), '\0');
  const uint64_t bytes = head.size();
  std::memcpy(message.data(), &kind, sizeof(kind));
  std::memcpy(message.data() + sizeof(kind), &bytes, sizeof(bytes));
  message += head;
  return writer_.Write(message.data(), message.size());
}

absl::Status RunTeller::SendTensor(const NDArray& tensor) {
  if (tensor.bytes() == 0) return absl::OkStatus();
  return writer_.Write(tensor.data(), tensor.bytes());
}

absl::Status RunTeller::NodeBegins(uint32_t node) {
  return Send(kBegins, HeadWriter().Add(node).text());
}

absl::Status RunTeller::NodeEnds() { return Send(kEnds, ""); }

absl::Status RunTeller::Tell(const TensorItem& item, bool hashes_suffice) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, Compact(*item.tensor));
  HeadWriter head;
  head.AddKey(item.key).Add(item.time).Add(
      static_cast<uint8_t>(item.is_network_input));
  head.Add(static_cast<uint8_t>(item.origin != nullptr));
  if (item.origin != nullptr) head.AddKey(*item.origin);
  const uint64_t hash = HashBytes(tensor.data(), tensor.bytes());
  head.Add(hash);
  Contents contents = kFollow;
  if (hashes_suffice) {
    contents = kAbsent;
  } else if (IsAsGiven(item, tensor)) {
    contents = kAsGiven;
  } else if (IsAsMade(item, hash)) {
    contents = kAsMade;
  }
  const bool is_made = item.key.role == TensorRole::kOutput;
  if (is_made && !hashes_suffice) made_[item.key] = hash;
  head.Add(static_cast<uint8_t>(contents));
  if (contents != kFollow) return Send(kTensor, head.text());
  head.AddType(*tensor);
  NODEWISE_RETURN_IF_ERROR(Send(kTensor, head.text()));
  return SendTensor(tensor);
}

// The child has a copy of what the waiting process had when it began.
bool RunTeller::IsAsGiven(const TensorItem& item, const NDArray& tensor) const {
  if (!item.is_network_input) return false;
  const auto found = given_.find(item.key.node);
  if (found == given_.end()) return false;
  const NDArray& given = found->second;
  return given.shape() == tensor.shape() && given.dtype() == tensor.dtype() &&
         std::memcmp(given.data(), tensor.data(), tensor.bytes()) == 0;
}

bool RunTeller::IsAsMade(const TensorItem& item, uint64_t hash) const {
  if (item.key.role != TensorRole::kInput || item.origin == nullptr) {
    return false;
  }
  const auto found = made_.find(*item.origin);
  return found != made_.end() && found->second == hash;
}

absl::Status RunTeller::Tell(const RunResult& result) {
  HeadWriter head;
  AddStop(result, &head);
  head.Add(uint64_t{result.unread.size()});
  for (const UnreadTensor& tensor : result.unread) {
    head.AddText(tensor.name).Add(tensor.dtype);
  }
  head.Add(uint64_t{result.notes.size()});
  for (const std::string& note : result.notes) head.AddText(note);
  head.Add(uint64_t{result.durations_ns.size()});
  for (const int64_t duration : result.durations_ns) head.Add(duration);
  head.Add(uint64_t{result.floats.size()});
  for (const NodeFloats& node : result.floats) {
    head.AddText(node.key).Add(node.change);
  }
  head.Add(result.bytes_beside);
  head.Add(uint64_t{result.outputs.size()});
  for (const NamedTensor& output : result.outputs) {
    head.AddText(output.name).AddType(*output.tensor);
  }
  NODEWISE_RETURN_IF_ERROR(Send(kResult, head.text()));
  for (const NamedTensor& output : result.outputs) {
    NODEWISE_RETURN_IF_ERROR(SendTensor(output.tensor));
  }
  return absl::OkStatus();
}

absl::Status HearMessage(PipeReader& reader, const std::string& source,
                         RunListener* listener) {
  uint32_t kind = 0;
  uint64_t bytes = 0;
  NODEWISE_RETURN_IF_ERROR(reader.Read(&kind, sizeof(kind)));
  NODEWISE_RETURN_IF_ERROR(reader.Read(&bytes, sizeof(bytes)));
  if (bytes > kMostHeadBytes) {
    return absl::DataLossError(
        fmt::format("run in a child: a message of {} bytes, expected at most "
                    "{} (has a node written over memory that is not its own?)",
                    bytes, kMostHeadBytes));
  }
  std::vector<uint8_t> text(bytes);
  NODEWISE_RETURN_IF_ERROR(reader.Read(text.data(), text.size()));
  HeadReader head(text);
  switch (kind) {
    case kBegins: {
      NODEWISE_ASSIGN_OR_RETURN(const auto node, head.Read<uint32_t>("node"));
      return listener->NodeBegins(node);
    }
    case kEnds:
      return listener->NodeEnds();
    case kTensor:
      return HearTensor(head, reader, source, listener);
    case kResult:
      return HearResult(head, reader, listener);
  }
  return absl::DataLossError(fmt::format(
      "run in a child: a message of kind {}, expected 1 to 4", kind));
}

}  // namespace nodewise
