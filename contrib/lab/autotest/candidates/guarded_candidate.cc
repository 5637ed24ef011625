#include <algorithm>
#include <cstring>
#include <utility>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "nodewise/process/piped_child.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Answers travel through a pipe: for each job the number of bytes, then each
// set behind a head, and each of its tensors behind a head and its sides. Both
// ends are the same program, so the bytes are as they are in memory.
struct SetHead {
  uint32_t code = 0;   // An absl::StatusCode.
  uint32_t count = 0;  // Tensors, or characters of the message.
};
struct TensorHead {
  DLDataType dtype{};
  uint32_t rank = 0;
};

// No candidate makes larger ones out of what is drawn: more comes from a child
// that has written over its own memory, and must not be believed.
constexpr uint32_t kMostOutputs = 1 << 16;
constexpr uint32_t kMostSentRank = 64;
constexpr int64_t kMostSentElements = int64_t{1} << 28;
constexpr uint64_t kMostSentBytes = uint64_t{1} << 30;

// Writes the answer to one job as bytes: a system call for each
// number would take longer than the job.
class Writer {
 public:
  void Add(const void* data, size_t bytes) {
    bytes_.append(static_cast<const char*>(data), bytes);
  }
  void Add(const CandidateOutputs& outputs) {
    if (!outputs.ok()) {
      const std::string message(outputs.status().message());
      const SetHead head{static_cast<uint32_t>(outputs.status().code()),
                         static_cast<uint32_t>(message.size())};
      Add(&head, sizeof head);
      return Add(message.data(), message.size());
    }
    const SetHead head{0, static_cast<uint32_t>(outputs->size())};
    Add(&head, sizeof head);
    for (const NDArray& tensor : *outputs) {
      const TensorHead of{tensor.dtype(),
                          static_cast<uint32_t>(tensor.shape().size())};
      Add(&of, sizeof of);
      Add(tensor.shape().data(), of.rank * sizeof(int64_t));
      Add(tensor.data(), tensor.bytes());
    }
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Takes apart what a Writer has written, in a child that may have gone wild.
// Counts and sides are bounded before memory is taken for them.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  absl::Status ReadBytes(void* to, size_t bytes) {
    if (bytes > bytes_.size()) return DataLoss("cut short");
    if (bytes > 0) std::memcpy(to, bytes_.data(), bytes);
    bytes_.remove_prefix(bytes);
    return absl::OkStatus();
  }
  absl::Status ReadBytes(CandidateOutputs* outputs) {
    SetHead head;
    NODEWISE_RETURN_IF_ERROR(ReadBytes(&head, sizeof head));
    if (head.count > kMostOutputs) return DataLoss("no outputs");
    if (head.code != 0) {
      std::string text(head.count, '\0');
      NODEWISE_RETURN_IF_ERROR(ReadBytes(text.data(), text.size()));
      *outputs = absl::Status(static_cast<absl::StatusCode>(head.code), text);
      return absl::OkStatus();
    }
    std::vector<NDArray> tensors;
    for (uint32_t i = 0; i < head.count; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(tensors.emplace_back(), TakeTensor());
    }
    *outputs = std::move(tensors);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<NDArray> TakeTensor() {
    TensorHead head;
    NODEWISE_RETURN_IF_ERROR(ReadBytes(&head, sizeof head));
    if (head.rank > kMostSentRank) return DataLoss("no tensor");
    std::vector<int64_t> shape(head.rank);
    NODEWISE_RETURN_IF_ERROR(
        ReadBytes(shape.data(), head.rank * sizeof(int64_t)));
    int64_t count = 1;
    for (const int64_t side : shape) {
      if (side < 0 || side > kMostSentElements / std::max<int64_t>(count, 1)) {
        return DataLoss("no tensor");
      }
      count *= side;
    }
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                              NDArray::Empty(shape, head.dtype, kCpu));
    NODEWISE_RETURN_IF_ERROR(ReadBytes(tensor.data(), tensor.bytes()));
    return tensor;
  }

  std::string_view bytes_;
};

class GuardedNetworks : public OuterCandidate {
 public:
  GuardedNetworks(std::unique_ptr<Candidate> inner, int64_t limit_ms)
      : OuterCandidate(std::move(inner)), limit_ms_(limit_ms) {}

  size_t jobs_at_once() const override {
    // Starting a child for each job would take longer than the job.
    return std::max(inner().jobs_at_once(), Candidate::jobs_at_once());
  }

  // Answers are handed out when all jobs are done, since a child may be in the
  // middle of the next one when something is wrong with it.
  void Run(CandidateJobs jobs, Take take) override {
    std::vector<CandidateAnswer> answers;
    for (const CandidateJob& job : jobs) {
      answers.push_back(AllFail(job, Unknown("not run")));
    }
    RunAll(jobs, &answers);
    for (CandidateAnswer& answer : answers) take(std::move(answer));
  }

 private:
  // Runs the jobs in one child; where that dies, the job that it was at runs by
  // itself, set by set, and the rest in another child.
  void RunAll(CandidateJobs jobs, std::vector<CandidateAnswer>* answers) {
    size_t begin = 0;
    while (begin < jobs.size()) {
      size_t done = 0;
      const absl::Status status =
          RunChild(jobs.subspan(begin), answers->data() + begin, &done);
      begin += done;
      if (status.ok() || begin >= jobs.size()) return;
      RunAlone(jobs[begin], &(*answers)[begin]);
      ++begin;
    }
  }

  void RunAlone(const CandidateJob& job, CandidateAnswer* answer) {
    for (size_t set = 0; set < job.sets.size(); ++set) {
      const CandidateJob alone{job.network, job.sets.subspan(set, 1),
                               job.backward};
      // How the child ends is the answer, unless it has given one before.
      CandidateAnswer one = AllFail(alone, Unknown("not run"));
      size_t done = 0;
      const absl::Status status = RunChild({&alone, 1}, &one, &done);
      answer->sets[set] =
          done == 1 ? std::move(one.sets[0]) : CandidateOutputs(status);
    }
  }

  // Counts in `done` how many jobs the child has answered. A crash is kAborted,
  // a child that has to be ended for its time kDeadlineExceeded: verdicts tell
  // these from what a candidate refuses, which travels as an answer.
  absl::Status RunChild(CandidateJobs jobs, CandidateAnswer* answers,
                        size_t* done) {
    const auto work = [&](PipeWriter& to) -> absl::Status {
      absl::Status status;
      inner().Run(jobs, [&](const CandidateAnswer& answer) {
        Writer writer;
        for (const CandidateOutputs& set : answer.sets) writer.Add(set);
        const uint64_t size = writer.bytes().size();
        status.Update(to.Write(&size, sizeof size));
        if (status.ok()) status = to.Write(writer.bytes().data(), size);
      });
      return status;
    };
    const auto take = [&](PipeReader& from) -> absl::Status {
      while (*done < jobs.size()) {
        uint64_t size = 0;
        NODEWISE_RETURN_IF_ERROR(from.Read(&size, sizeof size));
        if (size > kMostSentBytes) return DataLoss("too much");
        std::string bytes(size, '\0');
        NODEWISE_RETURN_IF_ERROR(from.Read(bytes.data(), size));
        Reader reader(bytes);
        for (CandidateOutputs& set : answers[*done].sets) {
          NODEWISE_RETURN_IF_ERROR(reader.ReadBytes(&set));
        }
        ++*done;
      }
      return absl::OkStatus();
    };
    NODEWISE_ASSIGN_OR_RETURN(const auto end, RunPiped(work, take, limit_ms_));
    if (end.kind == ChildEnd::Kind::kReturned && end.status.ok()) {
      return absl::OkStatus();
    }
    const std::string words = end.ToString(limit_ms_);
    return end.kind == ChildEnd::Kind::kTimeout
               ? absl::DeadlineExceededError(words)
               : absl::AbortedError(words);
  }

  const int64_t limit_ms_;
};

}  // namespace

std::unique_ptr<Candidate> GuardedCandidate(std::unique_ptr<Candidate> inner,
                                            int64_t limit_ms) {
  return std::make_unique<GuardedNetworks>(std::move(inner), limit_ms);
}

}  // namespace nodewise
