#pragma once

namespace nodewise {

// How long threads of OpenMP that have nothing to do poll before they sleep.
//
// libgomp has them poll for milliseconds. Where other programs compute too,
// that takes the CPU from the very thread that is waited for, and a run takes
// ten times as long. libgomp reads what it should do from its environment when
// it is initialised, and can be told nothing later. So this library, if it is
// initialised before, puts GOMP_SPINCOUNT there if the program defines
// NodewiseOmpThreads(), and the environment says nothing about waiting.

// Whether libgomp has been told so. May be called from any thread.
bool OmpWaitsBriefly();

// Takes what this library has put into the environment out again. Called when
// libgomp is initialised, before the program begins threads.
void RestoreOmpEnvironment();

}  // namespace nodewise

// What a program defines whose OpenMP is this library's business: returns what
// omp_get_max_threads() does.
extern "C" int NodewiseOmpThreads();
