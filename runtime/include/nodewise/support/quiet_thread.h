#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace nodewise {

// Starts a thread that takes none of the process's signals: those are for the
// threads that the host program knows of. Returns null if the system cannot
// create a thread.
std::unique_ptr<std::thread> StartQuietThread(std::function<void()> work);

}  // namespace nodewise
