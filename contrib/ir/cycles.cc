#include "nodewise/ir/cycles.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {
namespace {

constexpr size_t kMostOfPath = 16;  // Shown at either end.

// Takes away items that wait for nothing that is left, so that only those
// on cycles, and after them, remain.
class Peeler {
 public:
  explicit Peeler(std::vector<std::vector<uint32_t>> makers)
      : makers_(std::move(makers)),
        users_(makers_.size()),
        waits_for_(makers_.size(), 0),
        is_gone_(makers_.size(), false) {
    for (uint32_t id = 0; id < makers_.size(); ++id) {
      waits_for_[id] = makers_[id].size();
      for (const uint32_t maker : makers_[id]) {
        users_[maker].push_back(id);
      }
    }
    std::vector<uint32_t> free;
    for (uint32_t id = 0; id < makers_.size(); ++id) {
      if (waits_for_[id] == 0) free.push_back(id);
    }
    Take(std::move(free));
  }

  // One of the cycles that are left, makers before users from the lowest number
  // on, which is then taken away; empty if none is left.
  std::vector<uint32_t> TakeCycle() {
    while (first_ < is_gone_.size() && is_gone_[first_]) ++first_;
    if (first_ == is_gone_.size()) return {};
    // Everything left waits for something left, so that going back never ends
    // but in a circle.
    std::vector<uint32_t> path = {first_};
    std::vector<bool> is_on_path(is_gone_.size(), false);
    while (!is_on_path[path.back()]) {
      is_on_path[path.back()] = true;
      path.push_back(MakerLeft(path.back()));
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), path.back()));
    path.pop_back();
    std::reverse(path.begin(), path.end());
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()),
                path.end());
    Take(path);
    return path;
  }

 private:
  uint32_t MakerLeft(uint32_t id) const {
    for (const uint32_t maker : makers_[id]) {
      if (!is_gone_[maker]) return maker;
    }
    return id;
  }

  void Take(std::vector<uint32_t> open) {
    for (const uint32_t id : open) is_gone_[id] = true;
    while (!open.empty()) {
      const uint32_t id = open.back();
      open.pop_back();
      for (const uint32_t user : users_[id]) {
        if (--waits_for_[user] > 0 || is_gone_[user]) continue;
        is_gone_[user] = true;
        open.push_back(user);
      }
    }
  }

  std::vector<std::vector<uint32_t>> makers_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<size_t> waits_for_;
  std::vector<bool> is_gone_;
  uint32_t first_ = 0;
};

}  // namespace

std::vector<std::vector<uint32_t>> FindCycles(
    std::vector<std::vector<uint32_t>> makers, size_t most) {
  Peeler peeler(std::move(makers));
  std::vector<std::vector<uint32_t>> cycles;
  while (cycles.size() < most) {
    std::vector<uint32_t> cycle = peeler.TakeCycle();
    if (cycle.empty()) break;
    cycles.push_back(std::move(cycle));
  }
  return cycles;
}

std::string PathText(absl::Span<const std::string> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += " -> ";
    if (i == kMostOfPath && names.size() > 2 * kMostOfPath) {
      const size_t left_out = names.size() - 2 * kMostOfPath;
      text += fmt::format("({} more) -> ", left_out);
      i += left_out;
    }
    text += Shortened(names[i]);
  }
  return text;
}

}  // namespace nodewise
