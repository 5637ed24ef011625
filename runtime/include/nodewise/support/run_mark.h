#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace nodewise {

// Says which code that is not ours this process is in: which node of a graph
// runs, or which library is being loaded. In shared memory it still says so to
// another process when this one has ended, however that happened. Such code may
// write to it, so that readers believe nothing that would be harmful.
//
// Where nothing reads it, writing costs one store for each node.
class RunMark {
 public:
  enum class Phase : uint32_t { kOurs, kLoading, kNode, kAfterNode };

  // Returns where this process writes; never null.
  static RunMark* Current() { return current_; }
  // Has this process write there from now on; null for memory that is not read.
  // Another thread may run nodes meanwhile.
  static void Use(RunMark* mark);

  // Whether another process may read it.
  bool is_read() const { return is_read_; }

  // Ours until another call. `library` is a file.
  void BeginLoading(std::string_view library);
  void EndLoading();
  // What nodes are called from now on, unless that is known: those of the
  // executor with the number `owner`, which no two have.
  void NameNodes(uint64_t owner, size_t count,
                 const std::function<std::string(uint32_t)>& title_of);
  static uint64_t NewOwner();

  Phase phase() const;
  // Whether code that is not ours has been loaded into the process.
  bool has_loaded() const { return has_loaded_.load() != 0; }
  // "node 3 (conv1)", "loading net/lib.so"; empty for Phase::kOurs.
  std::string Where() const;
  // "node 3 (conv1)", as the executor that ran last calls it.
  std::string TitleOf(uint32_t node) const;

  RunMark(const RunMark&) = delete;
  RunMark& operator=(const RunMark&) = delete;
  // REQUIRES: the object lies in static or freshly mapped memory.
  explicit RunMark(bool is_read) : is_read_(is_read) {}

 private:
  friend class MarkedRun;

  static constexpr size_t kPathBytes = 4096;
  static constexpr size_t kTitleBytes = size_t{1} << 20;

  static uint64_t PlaceOf(Phase phase, uint32_t node) {
    return uint64_t{static_cast<uint32_t>(phase)} << 32 | node;
  }
  void EndNode() {
    const uint64_t place = place_.load(std::memory_order_relaxed);
    place_.store(PlaceOf(Phase::kAfterNode, static_cast<uint32_t>(place)),
                 std::memory_order_relaxed);
  }

  static RunMark* current_;

  const bool is_read_;
  std::atomic<uint64_t> place_{0};
  std::atomic<uint64_t> owner_{0};
  std::atomic<uint32_t> has_loaded_{0};
  // Both hold zeros from the beginning, as static and mapped memory do: the
  // pages of what is not written are never there.
  char library_[kPathBytes];
  char titles_[kTitleBytes];  // One after the other, each with a NUL.
};

// While one lives, a run goes on: the node that began last has ended when it
// is destroyed, whether or not there was an error.
class MarkedRun {
 public:
  MarkedRun() : mark_(*RunMark::Current()) {
    if (mark_.is_read()) place_ = &mark_.place_;
  }
  ~MarkedRun() {
    if (mark_.is_read()) mark_.EndNode();
  }
  MarkedRun(const MarkedRun&) = delete;
  MarkedRun& operator=(const MarkedRun&) = delete;

  void BeginNode(uint32_t node) {
    place_->store(RunMark::PlaceOf(RunMark::Phase::kNode, node),
                  std::memory_order_relaxed);
  }

 private:
  RunMark& mark_;
  // Threads of a host that all run networks must not share what they write.
  std::atomic<uint64_t> unread_{0};
  std::atomic<uint64_t>* place_ = &unread_;
};

}  // namespace nodewise
