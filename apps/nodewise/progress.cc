#include "apps/nodewise/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace nodewise {
namespace {

constexpr size_t kWidth = 30;
constexpr std::chrono::milliseconds kInterval(100);

}  // namespace

Progress::Progress(std::string label)
    : label_(std::move(label)),
      is_shown_(isatty(STDERR_FILENO) != 0),
      last_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (is_drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::Update(size_t done, size_t total) {
  if (!is_shown_ || total == 0) return;
  const auto now = std::chrono::steady_clock::now();
  // Work that is over in a moment shows nothing.
  if (now - last_ < kInterval) return;
  last_ = now;
  is_drawn_ = true;
  const size_t filled = std::min(done, total) * kWidth / total;
  const std::string bar =
      std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::fprintf(stderr, "\r%s [%s] %zu of %zu\033[K", label_.c_str(),
               bar.c_str(), done, total);
}

}  // namespace nodewise
