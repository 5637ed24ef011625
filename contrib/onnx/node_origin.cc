// What nodes say of where they are from, in their metadata or, of older
// exporters, in their description (docs/formats/onnx_import.md).

#include "contrib/onnx/node_origin.h"

#include <algorithm>
#include <utility>

#include "nodewise/ir/origin.h"

namespace nodewise {
namespace {

// A trace has some lines for each frame, and a file may hold anything.
constexpr size_t kMostNoteBytes = size_t{64} << 10;

}  // namespace

std::shared_ptr<const Origin> OriginReader::Read(const proto::Node& node) {
  if (node.metadata_props().empty() && !node.has_doc_string()) return nullptr;
  const auto [entry, is_new] = read_.emplace(&node, nullptr);
  if (!is_new) return entry->second;
  Origin origin;
  for (const proto::StringPair& note : node.metadata_props()) {
    if (note.key() == kDescriptionKey || !IsOriginKey(note.key())) continue;
    Keep(note.key(), note.value(), &origin);
  }
  // People write other descriptions, too.
  if (node.doc_string().size() <= kMostNoteBytes &&
      FindSourceLine(node.doc_string()).has_value()) {
    Keep(std::string(kDescriptionKey), node.doc_string(), &origin);
  }
  if (!origin.notes.empty()) {
    entry->second = std::make_shared<const Origin>(std::move(origin));
  }
  return entry->second;
}

void OriginReader::Keep(const std::string& key, const std::string& value,
                        Origin* origin) {
  constexpr size_t kMostKeyBytes = 256;
  const bool is_there =
      std::any_of(origin->notes.begin(), origin->notes.end(),
                  [&](const auto& note) { return note.first == key; });
  if (is_there || value.size() > kMostNoteBytes || key.size() > kMostKeyBytes) {
    return;
  }
  const size_t own = key.size() + sizeof(Origin);
  const auto found = values_.find(value);
  const size_t bytes = own + (found == values_.end() ? 2 * value.size() : 0);
  if (bytes > bytes_left_) return;
  bytes_left_ -= bytes;
  if (found != values_.end()) {
    origin->notes.emplace_back(key, found->second);
    return;
  }
  auto kept = std::make_shared<const std::string>(value);
  values_.emplace(value, kept);
  origin->notes.emplace_back(key, std::move(kept));
}

void WriteOrigin(const Operation& operation, proto::Node* to) {
  if (operation.origin == nullptr) return;
  for (const auto& [key, value] : operation.origin->notes) {
    if (key == kDescriptionKey) {
      to->set_doc_string(*value);
      continue;
    }
    proto::StringPair* const note = to->add_metadata_props();
    note->set_key(key);
    note->set_value(*value);
  }
}

}  // namespace nodewise
