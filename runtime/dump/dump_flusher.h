#pragma once

namespace nodewise {

class ChunkWriter;

// Calls FlushOpen() of every writer that is being watched, 20 times a second,
// in one thread of the process: a node that hangs holds up its own thread. The
// thread ends when there has been nothing to watch for a second; where the
// system gives none, nothing is flushed. Any thread may call; a forked child
// has a flusher of its own.
void WatchForFlushing(ChunkWriter* writer);
// Waits while the writer is being flushed.
void EndFlushing(ChunkWriter* writer);

}  // namespace nodewise
