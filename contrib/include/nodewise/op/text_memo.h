#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace nodewise {

// What has been made of texts, so that each is read once. Holds at most 16 MiB
// of texts; one that no longer fits is read again each time. Thread-safe, and
// never waits: a child that was forked while another thread used it goes
// without.
class TextMemo {
 public:
  // Returns what was kept for the text, or null.
  std::shared_ptr<const void> Find(const std::string& text) const;
  // Keeps what was made of it.
  void Keep(const std::string& text, std::shared_ptr<const void> made);
  // How many things were made, kept or not.
  int64_t count_made() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const void>> made_;
  size_t num_bytes_ = 0;
  int64_t count_made_ = 0;
};

}  // namespace nodewise
