#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace nodewise {

// A thread that takes none of the process's signals: those are for the threads
// that the host program knows of. Null where the system has no thread to give.
std::unique_ptr<std::thread> StartQuietThread(std::function<void()> work);

}  // namespace nodewise
