#include <cstring>
#include <utility>

#include "contrib/autotest/run_executor.h"
#include "fmt/format.h"
#include "nodewise/process/piped_child.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// What goes before each set, and before each of its tensors.
struct SetHead {
  uint32_t code = 0;  // An absl::StatusCode.
  uint32_t count = 0;  // Tensors, or characters of the message.
};
struct TensorHead {
  DLDataType dtype{};
  uint32_t rank = 0;
};

// No candidate makes larger ones out of what is drawn.
constexpr uint32_t kMostOutputs = 1 << 16;
constexpr uint32_t kMostSentRank = 64;
constexpr int64_t kMostSentElements = int64_t{1} << 28;

absl::Status Send(const CandidateOutputs& outputs, PipeWriter& to) {
  if (!outputs.ok()) {
    const std::string message(outputs.status().message());
    const SetHead head{static_cast<uint32_t>(outputs.status().code()),
                       static_cast<uint32_t>(message.size())};
    NODEWISE_RETURN_IF_ERROR(to.Write(&head, sizeof head));
    return to.Write(message.data(), message.size());
  }
  const SetHead head{0, static_cast<uint32_t>(outputs->size())};
  NODEWISE_RETURN_IF_ERROR(to.Write(&head, sizeof head));
  for (const NDArray& tensor : *outputs) {
    const TensorHead of{tensor.dtype(),
                        static_cast<uint32_t>(tensor.shape().size())};
    NODEWISE_RETURN_IF_ERROR(to.Write(&of, sizeof of));
    NODEWISE_RETURN_IF_ERROR(
        to.Write(tensor.shape().data(), of.rank * sizeof(int64_t)));
    NODEWISE_RETURN_IF_ERROR(to.Write(tensor.data(), tensor.bytes()));
  }
  return absl::OkStatus();
}

absl::StatusOr<NDArray> ReceiveTensor(PipeReader& from) {
  TensorHead head;
  NODEWISE_RETURN_IF_ERROR(from.Read(&head, sizeof head));
  if (head.rank > kMostSentRank) return absl::DataLossError("no tensor");
  std::vector<int64_t> shape(head.rank);
  NODEWISE_RETURN_IF_ERROR(
      from.Read(shape.data(), shape.size() * sizeof(int64_t)));
  int64_t count = 1;
  for (const int64_t side : shape) {
    if (side < 0 || side > kMostSentElements / std::max<int64_t>(count, 1)) {
      return absl::DataLossError("no tensor");
    }
    count *= side;
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                            NDArray::Empty(shape, head.dtype, kCpu));
  NODEWISE_RETURN_IF_ERROR(from.Read(tensor.data(), tensor.bytes()));
  return tensor;
}

// Takes what Send() has sent. Fails if the child ends before all is there.
absl::Status Receive(PipeReader& from, CandidateOutputs* outputs) {
  SetHead head;
  NODEWISE_RETURN_IF_ERROR(from.Read(&head, sizeof head));
  if (head.count > kMostOutputs) return absl::DataLossError("no outputs");
  if (head.code != 0) {
    std::string message(head.count, '\0');
    NODEWISE_RETURN_IF_ERROR(from.Read(message.data(), message.size()));
    *outputs = absl::Status(static_cast<absl::StatusCode>(head.code), message);
    return absl::OkStatus();
  }
  std::vector<NDArray> tensors;
  for (uint32_t i = 0; i < head.count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(tensors.emplace_back(), ReceiveTensor(from));
  }
  *outputs = std::move(tensors);
  return absl::OkStatus();
}

class GuardedNetworks : public Candidate {
 public:
  GuardedNetworks(std::unique_ptr<Candidate> inner, int64_t limit_ms)
      : inner_(std::move(inner)), limit_ms_(limit_ms) {}

  const std::string& name() const override { return inner_->name(); }
  size_t jobs_at_once() const override { return inner_->jobs_at_once(); }

  void Run(absl::Span<const CandidateJob> jobs, Take take) override {
    std::vector<CandidateAnswer> answers;
    for (const CandidateJob& job : jobs) {
      answers.push_back(AllFail(job, absl::UnknownError("not run")));
    }
    RunAll(jobs, &answers);
    for (CandidateAnswer& answer : answers) take(std::move(answer));
  }

 private:
  // Runs the jobs in one child; where that dies, the job that it was at runs by
  // itself, set by set, and the rest in another child.
  void RunAll(absl::Span<const CandidateJob> jobs,
              std::vector<CandidateAnswer>* answers) {
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

  // Runs one job with a child for each set.
  void RunAlone(const CandidateJob& job, CandidateAnswer* answer) {
    for (size_t set = 0; set < job.sets.size(); ++set) {
      const CandidateJob alone{job.network, job.sets.subspan(set, 1)};
      CandidateAnswer one = AllFail(alone, absl::UnknownError("not run"));
      size_t done = 0;
      const absl::Status status = RunChild({&alone, 1}, &one, &done);
      answer->sets[set] = done == 1 ? std::move(one.sets[0])
                                    : CandidateOutputs(status);
    }
  }

  absl::Status RunChild(absl::Span<const CandidateJob> jobs,
                        CandidateAnswer* answers, size_t* done) {
    const auto work = [&](PipeWriter& to) -> absl::Status {
      absl::Status status;
      inner_->Run(jobs, [&](const CandidateAnswer& answer) {
        for (const CandidateOutputs& set : answer.sets) {
          if (status.ok()) status = Send(set, to);
        }
      });
      return status;
    };
    const auto take = [&](PipeReader& from) -> absl::Status {
      while (*done < jobs.size()) {
        for (CandidateOutputs& set : answers[*done].sets) {
          NODEWISE_RETURN_IF_ERROR(Receive(from, &set));
        }
        ++*done;
      }
      return absl::OkStatus();
    };
    NODEWISE_ASSIGN_OR_RETURN(const ChildEnd end,
                              RunPiped(work, take, limit_ms_));
    if (end.kind == ChildEnd::Kind::kReturned && end.status.ok()) {
      return absl::OkStatus();
    }
    const std::string words = end.ToString(limit_ms_);
    return end.kind == ChildEnd::Kind::kTimeout
               ? absl::DeadlineExceededError(words)
               : absl::AbortedError(words);
  }

  const std::unique_ptr<Candidate> inner_;
  const int64_t limit_ms_;
};

}  // namespace

std::unique_ptr<Candidate> GuardedCandidate(std::unique_ptr<Candidate> inner,
                                            int64_t limit_ms) {
  return std::make_unique<GuardedNetworks>(std::move(inner), limit_ms);
}

}  // namespace nodewise
