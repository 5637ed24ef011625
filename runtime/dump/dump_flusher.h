#pragma once

namespace nodewise {

class ChunkWriter;

// Calls FlushOpen() of every watched writer 20 times a second, in one thread of
// the process, since a node that hangs blocks its own thread. The flushing
// thread ends when there has been nothing to watch for a second; if the system
// cannot create it, nothing is flushed. Any thread may call; a forked child has
// its own flusher.
void WatchForFlushing(ChunkWriter* writer);
// Stops watching the writer; waits while it is being flushed.
void EndFlushing(ChunkWriter* writer);

}  // namespace nodewise
