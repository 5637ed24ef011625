#include "apps/nodewise/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace nodewise {

size_t LineWidth() {
  constexpr size_t kUsualWidth = 120;
  if (isatty(STDOUT_FILENO) == 0) return 0;
  winsize size{};
  const bool says = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return says && size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

}  // namespace nodewise
