#include "apps/nodewise/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace nodewise {
namespace {

constexpr size_t kUsualWidth = 120;
// The bar leaves room for its label and two counts in 80 columns.
constexpr size_t kBarWidth = 30;
// Ten times a second is smooth, and costs nothing beside the work.
constexpr std::chrono::milliseconds kInterval(100);

}  // namespace

// A pipe or a file has no width, and what reads it would be misled by cut
// lines.
size_t LineWidth() {
  if (isatty(STDOUT_FILENO) == 0) return 0;
  winsize size{};
  const bool says = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return says && size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

Progress::Progress(std::string label)
    : label_(std::move(label)), is_shown_(isatty(STDERR_FILENO) != 0) {}

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
  const size_t filled = std::min(done, total) * kBarWidth / total;
  const std::string bar =
      std::string(filled, '#') + std::string(kBarWidth - filled, '.');
  std::fprintf(stderr, "\r%s [%s] %zu of %zu\033[K", label_.c_str(),
               bar.c_str(), done, total);
}

}  // namespace nodewise
