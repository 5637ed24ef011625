// Faults that do not show in what a node makes, or not in each run.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>

#include "contrib/lab/planter/sides.h"
#include "contrib/lab/planter/spoiling.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// A function that is called in the place of the sound one.
Spoiling InsteadOfTheCall(std::string what, NodeBody body) {
  Spoiling made;
  made.what = std::move(what);
  made.bind = [body = std::move(body)](
                  Library& sound,
                  const KernelRequest& request) -> absl::StatusOr<PackedFunc> {
    NODEWISE_RETURN_IF_ERROR(sound.Bind(request).status());
    return NodeFunction(request.num_outputs, body);
  };
  return made;
}

// Says which calls are faulty: a third of them, by chance. The calls are those
// of all executors, since a race does not begin anew with each of them. Where
// one process plants and the next one runs, calls of two runs must not be
// faulty alike: there the process counts, too.
class ThirdOfCalls {
 public:
  explicit ThirdOfCalls(uint64_t seed) : seed_(seed), planted_in_(getpid()) {}

  bool Next() {
    const uint64_t call = calls_++;
    const auto process = static_cast<uint64_t>(getpid() - planted_in_);
    RandomSource random(seed_ + call, fmt::format("flaky {}", process));
    return random.Between(0, 2) == 0;
  }

 private:
  const uint64_t seed_;
  const pid_t planted_in_;
  std::atomic<uint64_t> calls_ = 0;
};

Spoiling InAThirdOfCalls(const Spoiling& always, uint64_t seed) {
  Spoiling made = always;
  made.what = fmt::format("in a third of the calls: {}", always.what);
  made.bind_for_trial = always.bind;
  const auto calls = std::make_shared<ThirdOfCalls>(seed);
  made.bind = [always, calls](
                  Library& sound,
                  const KernelRequest& request) -> absl::StatusOr<PackedFunc> {
    NODEWISE_ASSIGN_OR_RETURN(const PackedFunc right, sound.Bind(request));
    NODEWISE_ASSIGN_OR_RETURN(const PackedFunc wrong,
                              always.bind(sound, request));
    return NodeFunction(request.num_outputs,
                        [right, wrong, calls](const NodeCall& call) {
                          return CallNode(calls->Next() ? wrong : right, call);
                        });
  };
  return made;
}

// The address is none that a program has.
[[gnu::noinline]] void WriteToNowhere() {
  volatile uintptr_t address = 16;
  *reinterpret_cast<volatile int*>(address) = 1;
  // Where a sanitizer or a handler lets it pass all the same.
  (void)std::raise(SIGSEGV);
}

}  // namespace

absl::StatusOr<Spoilings> Overrun(const FaultPlace& place,
                                  RandomSource& random) {
  for (const size_t slot : {place.sound.outputs.size() - 1}) {
    const NDArray& output = place.sound.outputs[slot];
    if (output.bytes() == 0) break;
    const auto elements = static_cast<size_t>(random.Between(1, 4));
    const size_t bytes = elements * ElementBytes(output.dtype());
    return Spoilings{AfterTheCall(
        fmt::format("writes {} bytes past the end of output {}", bytes, slot),
        [slot, bytes](const NodeCall& call) {
          const NDArray& written = call.outputs[slot];
          // No constant: another write of the same bytes must not hide it.
          std::memset(written.As<char>() + written.bytes(), 0x5a, bytes);
          return absl::OkStatus();
        })};
  }
  return Lacks("its result is empty");
}

absl::StatusOr<Spoilings> FlakyOutput(const FaultPlace& place,
                                      RandomSource& random) {
  const uint64_t seed = random.Next();
  Spoilings made;
  for (const SpoilingsOf kind : {&ScaledOutputs, &DroppedLane}) {
    const auto always = kind(place, random);
    if (!always.ok()) continue;
    for (const Spoiling& spoiling : *always) {
      made.push_back(InAThirdOfCalls(spoiling, seed));
    }
  }
  if (made.empty()) return Lacks("it makes one element alone, and no float");
  return made;
}

absl::StatusOr<Spoilings> Crash(const FaultPlace&, RandomSource&) {
  return Spoilings{
      InsteadOfTheCall("ends the process by SIGSEGV", [](const NodeCall&) {
        WriteToNowhere();
        return absl::OkStatus();
      })};
}

absl::StatusOr<Spoilings> Hang(const FaultPlace&, RandomSource&) {
  return Spoilings{
      InsteadOfTheCall("never ends", [](const NodeCall&) -> absl::Status {
        for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
      })};
}

}  // namespace nodewise
