#include "runtime/dump/dump_stream.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

// Twice within the tenth of a second that ChunkWriter promises.
constexpr std::chrono::milliseconds kPeriod(50);
// A second: the runs of a loop share one thread, and a program that is done
// with dumps keeps none.
constexpr int kIdlePeriods = 20;

// Calls FlushOpen() of every watched writer once a period, in one thread of the
// process, since a node that hangs blocks its own thread. The thread ends after
// idle periods; if the system cannot create it, nothing is flushed. Any thread
// may call.
class Flusher {
 public:
  // Never destroyed: the thread may run during static destruction.
  // A forked child gets one of its own.
  static Flusher& ForThisProcess() {
    static std::atomic<Flusher*> current = nullptr;
    Flusher* flusher = current.load();
    // A parent's flusher may be locked by a thread that does not exist here.
    while (flusher == nullptr || flusher->process_ != getpid()) {
      auto* const fresh = new Flusher();
      if (current.compare_exchange_strong(flusher, fresh)) return *fresh;
      delete fresh;
    }
    return *flusher;
  }

  // Watches the writer until End(), which waits while it is being flushed.
  void Watch(ChunkWriter* writer) {
    const std::lock_guard lock(mutex_);
    watched_.push_back(writer);
    idle_periods_ = 0;
    if (!has_thread_) StartThread();
  }

  void End(ChunkWriter* writer) {
    const std::lock_guard lock(mutex_);
    std::erase(watched_, writer);
  }

 private:
  Flusher() : process_(getpid()) {}
  void StartThread() {
    const auto thread = StartQuietThread([this] {
      do {
        std::this_thread::sleep_for(kPeriod);
      } while (FlushAll());
    });
    // Without a thread, the next writer to be watched tries again.
    if (thread == nullptr) return;
    thread->detach();
    has_thread_ = true;
  }

  // Returns whether the thread is to go on.
  bool FlushAll() {
    const std::lock_guard lock(mutex_);
    for (ChunkWriter* const writer : watched_) writer->FlushOpen();
    if (!watched_.empty() || ++idle_periods_ < kIdlePeriods) return true;
    has_thread_ = false;
    return false;
  }

  const pid_t process_;
  std::mutex mutex_;
  std::vector<ChunkWriter*> watched_;  // mutex_
  int idle_periods_ = 0;               // mutex_
  bool has_thread_ = false;            // mutex_
};

}  // namespace

// The memory that came back last is the one that is still in a cache.
ChunkPool::Memory ChunkPool::Acquire() {
  const std::lock_guard lock(mutex_);
  // Not make_unique: it would touch every page.
  if (kept_.empty()) return Memory(new char[kChunkBytes]);
  Memory memory = std::move(kept_.back());
  kept_.pop_back();
  return memory;
}

void ChunkPool::Return(Memory memory) {
  const std::lock_guard lock(mutex_);
  if (kept_.size() < kMaxKept) kept_.push_back(std::move(memory));
}

ChunkWriter::ChunkWriter(std::shared_ptr<ChunkPool> pool)
    : owner_(getpid()), pool_(std::move(pool)) {
  Flusher::ForThisProcess().Watch(this);
}

ChunkWriter::~ChunkWriter() {
  if (is_forked()) {
    // In a forked child there is no thread to join, and what the parent's
    // thread waits on or has locked cannot be destroyed.
    (void)thread_.release();
    (void)shared_.release();
    return;
  }
  Flusher::ForThisProcess().End(this);
  (void)Finish();
  FlushOpen();
  for (const auto& chunk : chunks_) {
    if (chunk->data != nullptr) pool_->Return(std::move(chunk->data));
  }
}

bool ChunkWriter::is_forked() const { return getpid() != owner_; }

// The most chunks bound the memory of a run; a producer that is faster than the
// disk waits here. A forked child must not write, and fills one chunk over and
// over.
ChunkWriter::Chunk* ChunkWriter::Acquire(GrowingFile* file) {
  if (is_forked()) {
    failed_ = true;
    if (forgotten_.data == nullptr) {
      forgotten_.data.reset(new char[kChunkBytes]);
    }
    return &forgotten_;
  }
  std::unique_lock lock(shared_->mutex);
  Chunk* chunk = nullptr;
  if (shared_->free.empty() && chunks_.size() < kMaxChunks) {
    chunk = chunks_.emplace_back(std::make_unique<Chunk>()).get();
  } else {
    shared_->changed.wait(lock, [this] { return !shared_->free.empty(); });
    chunk = shared_->free.back();
    shared_->free.pop_back();
  }
  if (chunk->data == nullptr) chunk->data = pool_->Acquire();
  chunk->size = 0;
  chunk->file = file;
  chunk->written = 0;
  chunk->borrowed = nullptr;
  shared_->open.push_back(chunk);
  return chunk;
}

// Borrowed chunks are not limited in number, because they take no memory of
// their own.
void ChunkWriter::SubmitBorrowed(std::string_view bytes, GrowingFile* file) {
  if (is_forked()) return;
  Chunk* const chunk = chunks_.emplace_back(std::make_unique<Chunk>()).get();
  chunk->borrowed = bytes.data();
  chunk->size = bytes.size();
  chunk->file = file;
  Submit(chunk);
}

void ChunkWriter::Submit(Chunk* chunk) {
  if (is_forked()) {
    failed_ = true;
    return;
  }
  if (thread_ == nullptr && !is_finished_) {
    thread_ = StartQuietThread([this] { WriteChunks(); });
    is_finished_ = thread_ == nullptr;  // The system has none.
  }
  {
    const std::lock_guard lock(shared_->mutex);
    std::erase(shared_->open, chunk);
    if (!is_finished_) shared_->queue.push_back(chunk);
  }
  if (is_finished_) return WriteChunk(chunk);
  shared_->changed.notify_all();
}

void ChunkWriter::WriteChunks() {
  while (true) {
    Chunk* chunk = nullptr;
    {
      std::unique_lock lock(shared_->mutex);
      shared_->changed.wait(lock, [this] {
        return !shared_->queue.empty() || shared_->is_stopping;
      });
      if (shared_->queue.empty()) return;
      chunk = shared_->queue.front();
      shared_->queue.pop_front();
      shared_->is_writing = true;
    }
    WriteChunk(chunk);
  }
}

// The producer may be appending at this moment. It raises the size only after
// the bytes are there, so everything below the size read here is complete.
absl::Status ChunkWriter::WriteRest(Chunk* chunk) {
  if (has_failed()) return absl::OkStatus();
  const size_t size = chunk->size.load(std::memory_order_acquire);
  if (size == chunk->written) return absl::OkStatus();
  const char* const bytes =
      chunk->borrowed != nullptr ? chunk->borrowed : chunk->data.get();
  absl::Status status =
      chunk->file->Write(bytes + chunk->written, size - chunk->written);
  chunk->written = size;
  return status;
}

void ChunkWriter::WriteChunk(Chunk* chunk) {
  absl::Status status = WriteRest(chunk);
  {
    const std::lock_guard lock(shared_->mutex);
    Fail(std::move(status));
    shared_->free.push_back(chunk);
    shared_->is_writing = false;
  }
  shared_->changed.notify_all();
}

// The open chunks must not overtake what is queued, or the bytes of a file
// would be out of order.
void ChunkWriter::FlushOpen() {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->queue.empty() || shared_->is_writing) return;  // Those first.
  for (Chunk* const chunk : shared_->open) Fail(WriteRest(chunk));
}

// Keeps the first error. The caller holds the mutex.
void ChunkWriter::Fail(absl::Status status) {
  if (status.ok() || has_failed()) return;
  shared_->status = std::move(status);
  failed_ = true;
}

// All that is submitted from now on is written in the caller's thread.
absl::Status ChunkWriter::Finish() {
  is_finished_ = true;
  if (thread_ != nullptr) {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->is_stopping = true;
    }
    shared_->changed.notify_all();
    thread_->join();
    thread_.reset();
  }
  const std::lock_guard lock(shared_->mutex);
  return shared_->status;
}

void DumpStream::SubmitChunk() {
  if (chunk_ == nullptr) return;
  writer_->Submit(std::exchange(chunk_, nullptr));
  next_ = end_ = nullptr;
}

// Takes a chunk only when there are bytes for it, so that a stream without any
// takes none.
void DumpStream::AppendPieces(const char* data, size_t size) {
  while (size > 0) {
    if (next_ == end_) {
      SubmitChunk();
      chunk_ = writer_->Acquire(file_);
      next_ = chunk_->data.get();
      end_ = next_ + kChunkBytes;
    }
    const size_t piece = std::min(size, static_cast<size_t>(end_ - next_));
    std::memcpy(next_, data, piece);
    next_ += piece;
    data += piece;
    size -= piece;
    Publish();
  }
}

}  // namespace nodewise
