#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/support/file.h"

namespace nodewise {

inline constexpr size_t kChunkBytes = size_t{1} << 20;

// Memory of chunks that passes from one run's writer to the next: getting new
// pages from the system costs more than everything else about a small tensor.
// Keeps as many as a run of small tensors uses. Any thread may call.
class ChunkPool {
 public:
  using Memory = std::unique_ptr<char[]>;

  Memory Acquire();
  void Return(Memory memory);

 private:
  static constexpr size_t kMaxKept = 3;

  std::mutex mutex_;
  std::vector<Memory> kept_;  // mutex_
};

// Writes chunks of bytes to files in the order in which they are handed over,
// in a thread of its own that starts with the first of them, or in the
// producer's if the system cannot create one. There is one producer. The
// contents of a chunk that has not been handed over are still written within a
// tenth of a second, so that a run which hangs or is killed leaves them.
//
// After the first error nothing is written any more; chunks still come back,
// so that errors never block the producer. In a forked child it fails with the
// first chunk that is full or wanted, and writes nothing, even when destroyed:
// what is buffered is the parent's to write.
class ChunkWriter {
 public:
  static constexpr size_t kMaxChunks = 12;

  struct Chunk {
    ChunkPool::Memory data;
    std::atomic<size_t> size = 0;
    GrowingFile* file = nullptr;
    size_t written = 0;  // How many of its bytes are in the file.
    // If not null, written instead of `data`; it is the producer's.
    const char* borrowed = nullptr;
  };

  explicit ChunkWriter(std::shared_ptr<ChunkPool> pool);
  // Writes everything that is left.
  ~ChunkWriter();

  // Returns an empty chunk for a file. The producer appends to its data and
  // raises its size. Waits while all chunks are on their way to the disk.
  Chunk* Acquire(GrowingFile* file);
  // Hands a chunk over to be written.
  void Submit(Chunk* chunk);
  // Hands over bytes that stay where they are until Finish().
  void SubmitBorrowed(std::string_view bytes, GrowingFile* file);
  // Waits for the thread to end, and returns the first error. From then on
  // Submit() writes in the caller's thread, as it does without a thread.
  absl::Status Finish();
  // Writes what is new in chunks not handed over, if all others are written.
  // Any thread may call.
  void FlushOpen();

  bool has_thread() const { return thread_ != nullptr; }
  bool has_failed() const { return failed_.load(std::memory_order_relaxed); }
  bool is_forked() const;

 private:
  // The state that the threads share.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Chunk*> queue;  // mutex
    std::vector<Chunk*> open;  // mutex; those taken and not handed over.
    std::vector<Chunk*> free;  // mutex; the last one used is warm in cache.
    bool is_writing = false;   // mutex; whether the thread is writing.
    bool is_stopping = false;  // mutex
    absl::Status status;       // mutex
  };

  void WriteChunks();
  void WriteChunk(Chunk* chunk);
  absl::Status WriteRest(Chunk* chunk);
  void Fail(absl::Status status);

  const pid_t owner_;
  const std::shared_ptr<ChunkPool> pool_;
  std::atomic<bool> failed_ = false;
  std::vector<std::unique_ptr<Chunk>> chunks_;  // The producer's.
  std::unique_ptr<std::thread> thread_;
  bool is_finished_ = false;
  Chunk forgotten_;  // In a forked child: takes what it would write.
  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
};

// One file's bytes, gathered in chunks.
class DumpStream {
 public:
  // Both must outlive it.
  DumpStream(ChunkWriter* writer, GrowingFile* file)
      : writer_(writer), file_(file) {}

  void Append(const void* data, size_t size) {
    if (size <= static_cast<size_t>(end_ - next_)) {
      std::memcpy(next_, data, size);
      next_ += size;
      Publish();
    } else {
      AppendPieces(static_cast<const char*>(data), size);
    }
  }
  // Hands over what is there, even if the chunk is not full.
  void SubmitChunk();

 private:
  void AppendPieces(const char* data, size_t size);
  // Allows what was appended to be written from now on.
  void Publish() {
    if (chunk_ == nullptr) return;
    chunk_->size.store(kChunkBytes - static_cast<size_t>(end_ - next_),
                       std::memory_order_release);
  }

  ChunkWriter* writer_;
  GrowingFile* file_;
  ChunkWriter::Chunk* chunk_ = nullptr;
  char* next_ = nullptr;
  char* end_ = nullptr;
};

}  // namespace nodewise
