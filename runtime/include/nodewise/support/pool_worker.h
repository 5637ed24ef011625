#pragma once

namespace nodewise {

// Whether the calling thread is one of our pool's. May be called in a signal
// handler.
bool IsPoolWorker();

}  // namespace nodewise
