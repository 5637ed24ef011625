#include "runtime/memcheck/guarded_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "nodewise/device/device.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};

std::atomic<GuardedMemory*> trapping_memory{nullptr};
// Indexed as kSignals. Written before our handler is in place.
struct sigaction previous_actions[2];

TrappedAccess AccessOf([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  // Bit 1 of the page fault's error code, which the kernel passes on.
  constexpr greg_t kWriteBit = 2;
  const auto* machine = static_cast<const ucontext_t*>(context);
  const greg_t error = machine->uc_mcontext.gregs[REG_ERR];
  return (error & kWriteBit) != 0 ? TrappedAccess::kWrite
                                  : TrappedAccess::kRead;
#else
  return TrappedAccess::kUnknown;
#endif
}

// A fault that is not ours goes where it would have gone without the trap: to
// the handler of the program, or to the default, which ends the process.
void Forward(int signal_number, siginfo_t* info, void* context) {
  const struct sigaction& previous =
      previous_actions[signal_number == kSignals[0] ? 0 : 1];
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    return previous.sa_sigaction(signal_number, info, context);
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    return previous.sa_handler(signal_number);
  }
  // A trapped access recurs on return and then ends the process; a signal sent
  // with kill() does not, so it is sent once more.
  sigaction(signal_number, &previous, nullptr);
  if (info->si_code <= 0) raise(signal_number);
}

// Signals that a process sent have a code of 0 or less and no address, so they
// are never a trapped access. errno belongs to the code that was interrupted.
void OnSignal(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  GuardedMemory* const memory = trapping_memory.load(std::memory_order_acquire);
  const bool is_handled =
      memory != nullptr && info->si_code > 0 &&
      memory->OnTrap(static_cast<uint8_t*>(info->si_addr), AccessOf(context));
  if (!is_handled) Forward(signal_number, info, context);
  errno = saved_errno;
}

// Threads that touch one page at the same time all come here, once each. If a
// page keeps faulting after it was opened, we give up.
constexpr size_t kMostRepeats = 100'000;

size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Indexed by GuardedMemory::Access.
constexpr int kProtections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};

// Opens the block with its guard pages. Signal handlers may call it.
bool OpenAll(const GuardedMemory::Block& block) {
  return mprotect(block.map, block.map_bytes, PROT_READ | PROT_WRITE) == 0;
}

// Returns whether a range holds nothing but `byte`, at the speed of memcmp. Red
// zones are read after each node, and almost always hold what they should.
bool HoldsOnly(const uint8_t* from, const uint8_t* to, uint8_t byte) {
  if (from >= to) return true;
  return *from == byte &&
         std::memcmp(from, from + 1, static_cast<size_t>(to - from) - 1) == 0;
}

}  // namespace

// The handlers run on the signal stack of a thread that has one, since the
// fault may be the overflow of its stack.
AccessTrap::AccessTrap(GuardedMemory* memory) {
  NODEWISE_CHECK(trapping_memory.exchange(memory) == nullptr);
  struct sigaction action {};
  action.sa_sigaction = &OnSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 2; ++i) {
    sigaction(kSignals[i], nullptr, &previous_actions[i]);
    sigaction(kSignals[i], &action, nullptr);
  }
}

AccessTrap::~AccessTrap() {
  for (int i = 0; i < 2; ++i) {
    sigaction(kSignals[i], &previous_actions[i], nullptr);
  }
  trapping_memory.store(nullptr, std::memory_order_release);
}

GuardedMemory::GuardedMemory(size_t red_zone, uint8_t zone_byte,
                             uint8_t poison_byte)
    : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
      front_bytes_(RoundUp(red_zone, kTensorAlignment)),
      red_zone_(red_zone),
      zone_byte_(zone_byte),
      poison_byte_(poison_byte) {}

// Threads that a node has left behind may go on writing; then the addresses
// stay mapped, and only their pages are given back.
GuardedMemory::~GuardedMemory() {
  const bool has_strays = census_.HasLeftThreads();
  for (const Block& block : blocks_) {
    if (has_strays) {
      madvise(block.map, block.map_bytes, MADV_DONTNEED);
      (void)OpenAll(block);
    } else {
      munmap(block.map, block.map_bytes);
    }
  }
  if (saved_pages_ != nullptr) munmap(saved_pages_, kMostTouches * page_bytes_);
}

// The block begins right behind the front red zone, aligned as compiled code
// expects, and its back red zone reaches to the end of a page. The whole range
// is reserved without access, and then opened but for a page at either end.
absl::StatusOr<size_t> GuardedMemory::Add(size_t bytes) {
  Block block;
  block.bytes = bytes;
  const size_t most = SIZE_MAX - 4 * page_bytes_ - front_bytes_ - red_zone_;
  void* map = MAP_FAILED;
  if (bytes < most) {
    const size_t behind = std::max<size_t>(red_zone_, 1);
    block.map_bytes =
        RoundUp(front_bytes_ + bytes + behind, page_bytes_) + 2 * page_bytes_;
    map = mmap(nullptr, block.map_bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  block.map = static_cast<uint8_t*>(map);
  if (map == MAP_FAILED ||
      mprotect(Open(block), OpenBytes(block), PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    if (map != MAP_FAILED) munmap(map, block.map_bytes);
    return ResourceExhausted(
        "guarded memory: {} bytes in pages of their own: {} (vm.max_map_count "
        "limits how many there can be)",
        bytes, std::strerror(error));
  }
  block.data = Open(block) + front_bytes_;
  blocks_.push_back(block);
  Fill(blocks_.size() - 1, bytes);
  return blocks_.size() - 1;
}

// The signal handler finds the block of an address by binary search, and saves
// pages in memory that is allocated here, since it can allocate none.
void GuardedMemory::Seal() {
  by_address_.resize(blocks_.size());
  for (uint32_t i = 0; i < by_address_.size(); ++i) by_address_[i] = i;
  std::ranges::sort(by_address_, {},
                    [&](uint32_t i) { return blocks_[i].map; });
  void* const pages =
      mmap(nullptr, kMostTouches * page_bytes_, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages != MAP_FAILED) saved_pages_ = static_cast<uint8_t*>(pages);
}

// msync() says ENOMEM for a range with a page that is not mapped, and has
// nothing to write for memory without a file.
bool GuardedMemory::IsMapped(size_t number) const {
  const Block& block = blocks_[number];
  return msync(block.map, block.map_bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

void GuardedMemory::MapAgain(size_t number) {
  Block& block = blocks_[number];
  mmap(block.map, block.map_bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  block.access = Access::kReadWrite;
  block.is_touched = true;
}

// Most calls change nothing, and each mprotect() is a system call over all
// pages of the block.
void GuardedMemory::SetAccess(size_t number, Access access) {
  Block& block = blocks_[number];
  if (block.access == access && !block.is_touched) return;
  if (block.is_touched) {
    // A guard page may be open and written to.
    for (uint8_t* guard :
         {block.map, block.map + block.map_bytes - page_bytes_}) {
      mprotect(guard, page_bytes_, PROT_READ | PROT_WRITE);
      std::memset(guard, 0, page_bytes_);
      mprotect(guard, page_bytes_, PROT_NONE);
    }
  }
  mprotect(Open(block), OpenBytes(block),
           kProtections[static_cast<size_t>(access)]);
  block.access = access;
  block.is_touched = false;
}

void GuardedMemory::Watch(bool on) {
  if (on) {
    num_touches_ = 0;
    num_repeats_ = 0;
    had_more_ = false;
  }
  is_watching_.store(on, std::memory_order_release);
}

std::vector<GuardedMemory::Touch> GuardedMemory::Touches() const {
  std::vector<Touch> touches(touches_, touches_ + num_touches_);
  std::ranges::sort(touches, {}, [](const Touch& touch) {
    return std::pair(touch.page, touch.access);
  });
  return touches;
}

// Compares the page with its copy from before the first write, so a write of
// the value that was there stays unseen.
Extent GuardedMemory::ChangedBytes(const Touch& touch) const {
  Extent changed;
  if (touch.before == nullptr) return changed;
  const int64_t start = touch.page - blocks_[touch.block].data;
  for (size_t i = 0; i < page_bytes_; ++i) {
    if (touch.page[i] == touch.before[i]) continue;
    const int64_t offset = start + static_cast<int64_t>(i);
    changed.Add(offset, offset);
  }
  return changed;
}

void GuardedMemory::Fill(size_t number, size_t bytes) {
  std::memset(blocks_[number].data, poison_byte_, bytes);
  FillZones(number, bytes);
}

void GuardedMemory::FillZones(size_t number, size_t bytes) {
  const Block& block = blocks_[number];
  std::memset(Open(block), zone_byte_, front_bytes_);
  std::memset(block.data + bytes, zone_byte_,
              OpenBytes(block) - front_bytes_ - bytes);
}

// From the first byte that differs to the last one; bytes between them need not
// differ.
Extent GuardedMemory::ChangedIn(const Block& block, const uint8_t* from,
                                const uint8_t* to) const {
  Extent changed;
  if (HoldsOnly(from, to, zone_byte_)) return changed;
  const auto differs = [&](uint8_t byte) { return byte != zone_byte_; };
  const uint8_t* const first = std::find_if(from, to, differs);
  const uint8_t* last = to - 1;
  while (!differs(*last)) --last;
  changed.Add(first - block.data, last - block.data);
  return changed;
}

Extent GuardedMemory::ChangedBefore(size_t number) const {
  const Block& block = blocks_[number];
  return ChangedIn(block, Open(block), block.data);
}

Extent GuardedMemory::ChangedBehind(size_t number, size_t bytes) const {
  const Block& block = blocks_[number];
  return ChangedIn(block, block.data + bytes, Open(block) + OpenBytes(block));
}

// The block before the first one that begins behind the address is the only one
// that can hold it.
GuardedMemory::Block* GuardedMemory::Find(const uint8_t* address) {
  const auto behind = std::upper_bound(
      by_address_.begin(), by_address_.end(), address,
      [&](const uint8_t* a, uint32_t b) { return a < blocks_[b].map; });
  if (behind == by_address_.begin()) return nullptr;
  Block& block = blocks_[*(behind - 1)];
  return address < block.map + block.map_bytes ? &block : nullptr;
}

// A lock that spins, because a mutex must not be taken in a signal handler; it
// is held for a few system calls.
bool GuardedMemory::OnTrap(uint8_t* address, TrappedAccess access) {
  Block* const block = Find(address);
  if (block == nullptr) return false;
  while (lock_.test_and_set(std::memory_order_acquire)) {
  }
  const bool may_go_on =
      NoteStray(block, address, access) || Note(block, address, access);
  lock_.clear(std::memory_order_release);
  return may_go_on;
}

// Returns whether the access was that of a thread left behind. It may have been
// made while no run is watched, or another node runs.
bool GuardedMemory::NoteStray(Block* block, uint8_t* address,
                              TrappedAccess access) {
  const auto node = census_.MakerOfThisThread();
  if (!node.has_value()) return false;
  const size_t place = num_stray_touches_;
  if (place < kMostTouches) {
    stray_touches_[place] = {static_cast<size_t>(block - blocks_.data()), *node,
                             access, address - block->data};
    ++num_stray_touches_;
  }
  block->is_touched = true;
  return OpenAll(*block);
}

std::vector<GuardedMemory::StrayTouch> GuardedMemory::TakeStrayTouches() {
  std::vector<StrayTouch> touches(stray_touches_,
                                  stray_touches_ + num_stray_touches_);
  num_stray_touches_ = 0;
  return touches;
}

// Runs in a signal handler: uses only system calls and existing memory.
bool GuardedMemory::Note(Block* block, uint8_t* address, TrappedAccess access) {
  const auto place = static_cast<size_t>(address - block->map);
  uint8_t* const page = block->map + place / page_bytes_ * page_bytes_;
  block->is_touched = true;
  if (!is_watching_.load(std::memory_order_acquire)) return OpenAll(*block);
  for (size_t i = 0; i < num_touches_; ++i) {
    if (touches_[i].page != page) continue;
    if (touches_[i].access == TrappedAccess::kRead &&
        access != TrappedAccess::kRead) {
      continue;
    }
    // Another thread came first and has opened the page far enough.
    return ++num_repeats_ < kMostRepeats;
  }
  if (num_touches_ == kMostTouches || saved_pages_ == nullptr) {
    had_more_ = true;
    if (++num_repeats_ >= kMostRepeats) return false;
    return OpenAll(*block);
  }
  Touch& touch = touches_[num_touches_];
  touch = {static_cast<size_t>(block - blocks_.data()), page, access,
           address - block->data, nullptr};
  if (mprotect(page, page_bytes_, PROT_READ) != 0) return false;
  if (access != TrappedAccess::kRead) {
    uint8_t* const saved = saved_pages_ + num_touches_ * page_bytes_;
    std::memcpy(saved, page, page_bytes_);
    touch.before = saved;
    if (mprotect(page, page_bytes_, PROT_READ | PROT_WRITE) != 0) return false;
  }
  ++num_touches_;
  return true;
}

}  // namespace nodewise
