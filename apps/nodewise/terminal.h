#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace nodewise {

// Returns how many characters fit a line of stdout: those of the terminal, 120
// if it does not say, 0 for no limit if stdout is not a terminal.
size_t LineWidth();

// A bar on stderr for work that takes a while, where stderr is a terminal; it
// is erased at the end. Elsewhere it shows nothing.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();

  void Update(size_t done, size_t total);
  std::function<void(size_t, size_t)> Updater() {
    return [this](size_t done, size_t total) { Update(done, total); };
  }

 private:
  std::string label_;
  bool is_shown_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point last_ =
      std::chrono::steady_clock::now();
};

}  // namespace nodewise
