#pragma once

#include <sys/types.h>

namespace nodewise {

// Whether the calling thread is one of our pool's. May be called in a signal
// handler.
bool IsPoolWorker();

// Whether a thread of this process is one.
bool IsPoolWorker(pid_t thread);

}  // namespace nodewise
