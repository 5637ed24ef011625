#include "apps/python/native/raise.h"

#include <nanobind/nanobind.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "nodewise/support/status.h"

namespace nodewise {
namespace {

namespace nb = nanobind;

[[noreturn]] void RaiseFindings(const std::vector<std::string>& texts) {
  nb::list findings;
  for (const std::string& text : texts) {
    // Names from files may be any bytes.
    findings.append(nb::steal(PyUnicode_DecodeUTF8(
        text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
  }
  const nb::object error =
      nb::module_::import_("nodewise._errors").attr("Error");
  // nanobind has no type for an exception that is written in Python.
  const nb::object raised = error(findings);
  PyErr_SetObject(error.ptr(), raised.ptr());
  throw nb::python_error();
}

// What a handler of signals may touch is atomic and takes no lock.
std::atomic<bool> g_is_interrupted = false;
std::atomic<bool> g_is_running = false;  // On the main thread.
std::atomic<void (*)(int)> g_pythons = nullptr;
static_assert(std::atomic<bool>::is_always_lock_free);

// Python's handler is called in any case: it makes a note, and raises later.
void OnInterrupt(int signal) {
  if (g_is_running.load(std::memory_order_relaxed)) {
    g_is_interrupted.store(true, std::memory_order_relaxed);
  }
  g_pythons.load(std::memory_order_relaxed)(signal);
}

bool IsMainThread() {
  // The system is asked once for each thread, so that a run costs no call of
  // it.
  thread_local const bool is_main = syscall(SYS_gettid) == getpid();
  return is_main;
}

}  // namespace

void Raise(const absl::Status& status) {
  // A run that was cancelled has a signal waiting, whose handler raises.
  if (absl::IsCancelled(status) && PyErr_CheckSignals() != 0) {
    throw nb::python_error();
  }
  RaiseFindings({std::string(MessageOf(status))});
}

// One Error has all of them, as the command prints all of them.
void Raise(const absl::Status& status, const DiagnosticList& diagnostics) {
  std::vector<std::string> texts;
  for (const Diagnostic& each : diagnostics.items()) {
    if (each.severity == Severity::kError) texts.push_back(each.ToString());
  }
  // Warnings alone do not say why a call failed, and the status does.
  if (texts.empty()) Raise(status);
  RaiseFindings(texts);
}

void WatchInterrupts() {
  struct sigaction before {};
  if (sigaction(SIGINT, nullptr, &before) != 0) return;
  // Python's handler takes the number alone; another one is not Python's.
  if ((before.sa_flags & SA_SIGINFO) != 0) return;
  const auto handler = before.sa_handler;
  if (handler == SIG_DFL || handler == SIG_IGN || handler == OnInterrupt) {
    return;
  }
  g_pythons.store(handler, std::memory_order_relaxed);
  before.sa_handler = OnInterrupt;
  sigaction(SIGINT, &before, nullptr);
}

InterruptibleRun::InterruptibleRun() {
  if (IsMainThread()) g_is_running.store(true, std::memory_order_relaxed);
}

// An interrupt that came too late for this run must not end the next one.
InterruptibleRun::~InterruptibleRun() {
  if (!IsMainThread()) return;
  g_is_running.store(false, std::memory_order_relaxed);
  g_is_interrupted.store(false, std::memory_order_relaxed);
}

const std::atomic<bool>& InterruptibleRun::is_interrupted() {
  return g_is_interrupted;
}

}  // namespace nodewise
