#include "nodewise/op/text_memo.h"

#include <utility>

namespace nodewise {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;

}  // namespace

std::shared_ptr<const void> TextMemo::Find(const std::string& text) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return nullptr;
  const auto found = made_.find(text);
  return found == made_.end() ? nullptr : found->second;
}

void TextMemo::Keep(const std::string& text, std::shared_ptr<const void> made) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  ++count_made_;
  if (text.size() > kMostBytes - num_bytes_) return;
  if (made_.try_emplace(text, std::move(made)).second) {
    num_bytes_ += text.size();
  }
}

int64_t TextMemo::count_made() const {
  const std::lock_guard lock(mutex_);
  return count_made_;
}

}  // namespace nodewise
