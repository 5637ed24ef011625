#include "nodewise/support/float_environment.h"

#include <atomic>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace nodewise {
namespace {

// There is one for each thread, which has registers of its own.
struct ThreadState {
  bool is_default = false;     // The thread judges.
  FloatEnvironment candidate;  // Where is_default.
  FloatWatch* watch = nullptr;
};

// Workers that have taken over nothing yet have generation 0, which must be an
// older one.
std::atomic<uint32_t> generation{1};

// Finding the state of a thread takes as long as reading the registers, so
// functions find it once and pass it on.
ThreadState& CurrentThreadState() {
  constinit thread_local ThreadState state;
  return state;
}

// Some machines do not have all of the modes.
std::string_view RoundingName(int mode) {
  switch (mode) {
    case FE_TONEAREST:
      return "to nearest";
#ifdef FE_UPWARD
    case FE_UPWARD:
      return "upward";
#endif
#ifdef FE_DOWNWARD
    case FE_DOWNWARD:
      return "downward";
#endif
#ifdef FE_TOWARDZERO
    case FE_TOWARDZERO:
      return "towards zero";
#endif
    default:
      return "in another way";
  }
}

std::string RoundingText(int before, int after) {
  return fmt::format("the rounding mode changed ({}, was {})",
                     RoundingName(after), RoundingName(before));
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

}  // namespace

#ifdef __x86_64__

// The functions of <cfenv> would take ten times as long, since they save all of
// the old coprocessor, and know nothing of subnormal numbers.
namespace {

constexpr uint32_t kSseFlags = 0x3F;
// What a process starts with on x86-64: all exceptions masked, rounding to
// nearest; the x87 calculates with 64 bits of precision.
constexpr uint32_t kSseDefault = 0x1F80;
constexpr uint16_t kX87Default = 0x037F;
constexpr uint32_t kSubnormalInputsAreZero = 0x40;
constexpr uint32_t kFlushToZero = 0x8000;
// Both registers have a mask bit for each exception, here at its place in the
// control word; the rounding mode in two bits; the x87 its precision, too.
constexpr uint32_t kMasks = 0x3F;
constexpr int kSseMasksShift = 7;
constexpr int kSseRoundingShift = 13;
constexpr int kX87RoundingShift = 10;
constexpr uint16_t kX87Precision = 0x0300;

uint16_t ReadX87() {
  uint16_t word = 0;
  asm volatile("fnstcw %0" : "=m"(word));
  return word;
}

void WriteX87(uint16_t word) {
  // An exception that is pending would trap as soon as its mask is gone.
  asm volatile("fnclex\n\tfldcw %0" : : "m"(word));
}

// A host may replace the functions that the header declares, so the compiler
// never makes those part of another function. The functions here it can.
FloatEnvironment ReadRegisters() {
  return {_mm_getcsr() & ~kSseFlags, ReadX87()};
}

bool IsDefault(const FloatEnvironment& floats) {
  return floats.sse == kSseDefault && floats.x87 == kX87Default;
}

// Both registers number the modes alike.
int RoundingOf(uint32_t bits) {
  constexpr int kModes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD,
                            FE_TOWARDZERO};
  return kModes[bits & 3];
}

// A bit that is set keeps its exception from trapping.
std::string TrapsText(uint32_t before, uint32_t after) {
  constexpr std::string_view kNames[] = {
      "invalid operations", "subnormal operands", "division by zero",
      "overflow",           "underflow",          "inexact results"};
  std::vector<std::string> set, unset;
  for (size_t bit = 0; bit < std::size(kNames); ++bit) {
    const bool did_trap = (before >> bit & 1) == 0;
    const bool traps = (after >> bit & 1) == 0;
    if (traps && !did_trap) set.emplace_back(kNames[bit]);
    if (!traps && did_trap) unset.emplace_back(kNames[bit]);
  }
  std::vector<std::string> parts;
  if (!set.empty()) parts.push_back("traps set for " + Joined(set));
  if (!unset.empty()) parts.push_back("no traps for " + Joined(unset));
  return Joined(parts);
}

}  // namespace

FloatEnvironment ReadFloatEnvironment() { return ReadRegisters(); }

FloatEnvironment DefaultFloats() { return {kSseDefault, kX87Default}; }

void WriteFloatEnvironment(const FloatEnvironment& floats) {
  const uint32_t now = _mm_getcsr();
  if ((now & ~kSseFlags) != floats.sse) {
    _mm_setcsr((now & kSseFlags) | floats.sse);
  }
  if (ReadX87() != floats.x87) WriteX87(floats.x87);
}

std::string DescribeChange(const FloatChange& change) {
  const auto& [before, after] = change;
  std::vector<std::string> parts;
  const int sse_before = RoundingOf(before.sse >> kSseRoundingShift);
  const int sse_after = RoundingOf(after.sse >> kSseRoundingShift);
  const int x87_before = RoundingOf(before.x87 >> kX87RoundingShift);
  const int x87_after = RoundingOf(after.x87 >> kX87RoundingShift);
  if (sse_before != sse_after) {
    parts.push_back(RoundingText(sse_before, sse_after));
  } else if (x87_before != x87_after) {
    parts.push_back(RoundingText(x87_before, x87_after) +
                    " for long double alone");
  }
  const uint32_t different = before.sse ^ after.sse;
  constexpr uint32_t kZeroes = kFlushToZero | kSubnormalInputsAreZero;
  if ((different & kZeroes) != 0) {
    const uint32_t zeroes = after.sse & kZeroes;
    parts.emplace_back(zeroes == kZeroes ? "subnormal numbers treated as zero"
                       : zeroes == kFlushToZero ? "subnormal results made zero"
                       : zeroes != 0 ? "subnormal operands read as zero"
                                     : "subnormal numbers no longer zero");
  }
  const uint32_t sse_masks = kMasks << kSseMasksShift;
  if ((different & sse_masks) != 0) {
    parts.push_back(TrapsText(before.sse >> kSseMasksShift & kMasks,
                              after.sse >> kSseMasksShift & kMasks));
  } else if (((before.x87 ^ after.x87) & kMasks) != 0) {
    parts.push_back(TrapsText(before.x87 & kMasks, after.x87 & kMasks) +
                    " for long double alone");
  }
  if (((before.x87 ^ after.x87) & kX87Precision) != 0) {
    parts.emplace_back("the precision of long double changed");
  }
  if (parts.empty()) {
    parts.push_back(fmt::format(
        "the control bits changed (MXCSR {:#06x}, was {:#06x}; x87 {:#06x}, "
        "was {:#06x})",
        after.sse, before.sse, after.x87, before.x87));
  }
  return Joined(parts);
}

bool ChangesResults(const FloatChange& change) {
  const uint32_t different = change.before.sse ^ change.after.sse;
  const uint32_t different_x87 = change.before.x87 ^ change.after.x87;
  return (different >> kSseRoundingShift & 3) != 0 ||
         (different_x87 >> kX87RoundingShift & 3) != 0 ||
         (different_x87 & kX87Precision) != 0;
}

uint32_t PackFloats(const FloatEnvironment& floats) {
  return (floats.sse & 0xFFFF) | uint32_t{floats.x87} << 16;
}

FloatEnvironment UnpackFloats(uint32_t packed) {
  return {packed & 0xFFFF, static_cast<uint16_t>(packed >> 16)};
}

DefaultFloatEnvironment::DefaultFloatEnvironment()
    : was_default_(CurrentThreadState().is_default),
      sse_before_(_mm_getcsr()),
      x87_before_(ReadX87()) {
  if (!was_default_) {
    CurrentThreadState().is_default = true;
    CurrentThreadState().candidate = {sse_before_ & ~kSseFlags, x87_before_};
  }
  WriteFloatEnvironment(DefaultFloats());
}

DefaultFloatEnvironment::~DefaultFloatEnvironment() {
  FloatEnvironment wanted{sse_before_ & ~kSseFlags, x87_before_};
  if (!was_default_) {
    wanted = CurrentThreadState().candidate;
    CurrentThreadState().is_default = false;
  }
  _mm_setcsr((sse_before_ & kSseFlags) | wanted.sse);
  if (ReadX87() != wanted.x87) WriteX87(wanted.x87);
}

#else

namespace {

FloatEnvironment ReadRegisters() { return ReadFloatEnvironment(); }
bool IsDefault(const FloatEnvironment& floats) {
  return floats == DefaultFloats();
}

}  // namespace

FloatEnvironment ReadFloatEnvironment() {
  FloatEnvironment floats;
  std::fegetenv(&floats.whole);
  floats.rounding = std::fegetround();
  floats.traps = fegetexcept();
  return floats;
}

FloatEnvironment DefaultFloats() {
  static const FloatEnvironment floats = [] {
    std::fenv_t before;
    std::fegetenv(&before);
    std::fesetenv(FE_DFL_ENV);
    const FloatEnvironment read = ReadFloatEnvironment();
    std::fesetenv(&before);
    return read;
  }();
  return floats;
}

void WriteFloatEnvironment(const FloatEnvironment& floats) {
  std::fesetenv(&floats.whole);
}

std::string DescribeChange(const FloatChange& change) {
  std::vector<std::string> parts;
  if (change.before.rounding != change.after.rounding) {
    parts.push_back(
        RoundingText(change.before.rounding, change.after.rounding));
  }
  if (change.before.traps != change.after.traps) {
    parts.push_back(
        fmt::format("the exceptions that trap changed ({:#x}, were {:#x})",
                    change.after.traps, change.before.traps));
  }
  return Joined(parts);
}

bool ChangesResults(const FloatChange& change) {
  return change.before.rounding != change.after.rounding;
}

uint32_t PackFloats(const FloatEnvironment& floats) {
  return static_cast<uint32_t>(floats.rounding) ^
         static_cast<uint32_t>(floats.traps) << 1;
}

FloatEnvironment UnpackFloats(uint32_t packed) {
  FloatEnvironment floats = DefaultFloats();
  floats.rounding = static_cast<int>(packed);
  return floats;
}

DefaultFloatEnvironment::DefaultFloatEnvironment()
    : was_default_(CurrentThreadState().is_default) {
  std::fegetenv(&before_);
  if (!was_default_) {
    CurrentThreadState().candidate = ReadFloatEnvironment();
    CurrentThreadState().is_default = true;
  }
  std::fesetenv(FE_DFL_ENV);
}

DefaultFloatEnvironment::~DefaultFloatEnvironment() {
  if (was_default_) {
    std::fesetenv(&before_);
    return;
  }
  CurrentThreadState().is_default = false;
  WriteFloatEnvironment(CurrentThreadState().candidate);
}

#endif

namespace {

// In a thread that does not judge, the registers are the candidate's.
FloatEnvironment CandidateFloatsOf(const ThreadState& state) {
  return state.is_default ? state.candidate : ReadRegisters();
}

// The registers are not read where they are known: a thread that judges is in
// the default environment.
void ToCandidate(ThreadState* state) {
  state->is_default = false;
  if (!IsDefault(state->candidate)) WriteFloatEnvironment(state->candidate);
}

// `now` is what the thread has.
void ToDefault(const FloatEnvironment& now, ThreadState* state) {
  state->is_default = true;
  if (!IsDefault(now)) WriteFloatEnvironment(DefaultFloats());
}

}  // namespace

CandidateFloatEnvironment::CandidateFloatEnvironment()
    : was_default_(CurrentThreadState().is_default) {
  if (was_default_) ToCandidate(&CurrentThreadState());
}

CandidateFloatEnvironment::~CandidateFloatEnvironment() {
  if (!was_default_) return;
  ThreadState& state = CurrentThreadState();
  state.candidate = ReadRegisters();
  ToDefault(state.candidate, &state);
}

FloatEnvironment CandidateFloats() {
  return CandidateFloatsOf(CurrentThreadState());
}

bool HasDefaultFloats() { return CurrentThreadState().is_default; }

KeepCandidateFloats::~KeepCandidateFloats() {
  if (CandidateFloats() == before_) return;
  CandidateFloatsChanged();
  if (CurrentThreadState().is_default) {
    CurrentThreadState().candidate = before_;
  } else {
    WriteFloatEnvironment(before_);
  }
}

// Must be made in the thread that is about to make another one.
ThreadFloats::ThreadFloats()
    : is_default_(HasDefaultFloats()), candidate_(CandidateFloats()) {}

void ThreadFloats::Adopt() const {
  CurrentThreadState().is_default = is_default_;
  CurrentThreadState().candidate = candidate_;
  WriteFloatEnvironment(is_default_ ? DefaultFloats() : candidate_);
}

FloatWatch::FloatWatch(bool puts_back) : puts_back_(puts_back) {
  ThreadState& state = CurrentThreadState();
  was_default_ = state.is_default;
  before_ = CandidateFloatsOf(state);
  outer_ = std::exchange(state.watch, this);
  if (was_default_) ToCandidate(&state);
}

FloatWatch::~FloatWatch() { (void)Finish(); }

// The calling thread's own change is told, and that of a task only where the
// thread has none.
std::optional<FloatChange> FloatWatch::Finish() {
  if (std::exchange(is_over_, true)) return std::nullopt;
  ThreadState& state = CurrentThreadState();
  state.watch = outer_;
  const FloatEnvironment after = ReadRegisters();
  if (was_default_) {
    state.candidate = puts_back_ ? before_ : after;
    ToDefault(after, &state);
  } else if (puts_back_ && !(after == before_)) {
    WriteFloatEnvironment(before_);
  }
  if (after == before_) return std::exchange(in_task_, std::nullopt);
  return FloatChange{before_, after};
}

// Workers compare this number with the last one that they have seen, so no list
// of workers is kept.
uint32_t CandidateFloatsGeneration() {
  return generation.load(std::memory_order_acquire);
}

void CandidateFloatsChanged() { ++generation; }

FloatWatch* FloatWatch::ForThisThread() { return CurrentThreadState().watch; }

}  // namespace nodewise
