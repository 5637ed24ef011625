#include "contrib/locate/part_search.h"

#include <algorithm>
#include <utility>

#include "contrib/locate/output_error.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Each value is a run of the candidate. Fewer at a time would take more turns,
// and what is left in the end is judged together.
constexpr size_t kMostTogether = 24;

class KeepingSink : public TensorSink {
 public:
  absl::Status Take(const TensorItem& item) override {
    if (item.tensor == nullptr) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(NDArray kept, item.Keep());
    tensors_[item.key.node] = std::move(kept);
    return absl::OkStatus();
  }
  const std::map<std::string, NDArray>& tensors() const { return tensors_; }

 private:
  std::map<std::string, NDArray> tensors_;
};

std::vector<std::string> EvenlyOf(const std::vector<std::string>& all) {
  std::vector<std::string> some;
  for (size_t i = 1; i <= kMostTogether; ++i) {
    some.push_back(all[i * all.size() / (kMostTogether + 1)]);
  }
  return some;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> PartSearch::Run() {
  left_ = request_.observable;
  while (left_.size() > kMostTogether) {
    const Names tried = EvenlyOf(left_);
    NODEWISE_ASSIGN_OR_RETURN(const auto are_wrong, AreWrong(tried));
    const size_t before = left_.size();
    Narrow(tried, are_wrong);
    if (left_.size() == before) break;
  }
  // More than can be run where none of the models that end earlier does.
  if (left_.size() > kMostTogether) left_ = EvenlyOf(left_);
  const Names chosen = WithWhatIsRead();
  runs_ += chosen.size();
  found_ = wrong_.empty()
               ? right_.empty() ? std::string("all values were looked at")
                                : fmt::format("all is right up to {}", right_)
               : fmt::format("{} is the first that is off{}", wrong_,
                             right_.empty()
                                 ? std::string()
                                 : fmt::format(", and {} is right", right_));
  return chosen;
}

// All values of a large model need not fit the memory: each turn keeps its own.
absl::Status PartSearch::Refer(const Names& values) {
  reference_.clear();
  const std::set<std::string> wanted(values.begin(), values.end());
  InterpretOptions options;
  options.observe = [&](const OperationRun& run) {
    for (size_t i = 0; i < run.operation.outputs.size(); ++i) {
      if (run.operation.outputs[i] == kNoValue) continue;
      const std::string& name =
          request_.network.value(run.operation.outputs[i]).name;
      if (wanted.contains(name)) reference_[name] = run.result.outputs[i];
    }
    return false;
  };
  return Interpret(request_.network, inputs_, options).status();
}

// Values that cannot be had are not among them.
absl::StatusOr<std::map<std::string, bool>> PartSearch::AreWrong(
    const Names& values) {
  NODEWISE_RETURN_IF_ERROR(Refer(values));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, request_.by_parts(values));
  KeepingSink sink;
  RunOptions run;
  run.sink = &sink;
  NODEWISE_RETURN_IF_ERROR(runner->Run(request_.inputs, run).status());
  runs_ += values.size();
  std::map<std::string, bool> are_wrong;
  for (const std::string& name : values) {
    const auto made = sink.tensors().find(name);
    if (made == sink.tensors().end()) continue;
    const NamedTensor found[] = {{name, made->second}};
    NODEWISE_ASSIGN_OR_RETURN(
        const auto compared,
        CompareNetworkOutputs({reference_[name]}, found, tolerance_));
    are_wrong[name] = compared[0].is_wrong();
  }
  return are_wrong;
}

// A wrong value may be hidden by what is made of it, so what a right one is
// made of need not all be right; it is what is likely, and the outputs are
// wrong.
void PartSearch::Narrow(const Names& tried,
                        const std::map<std::string, bool>& are_wrong) {
  const auto is = [&](const std::string& name, bool wrong) {
    const auto known = are_wrong.find(name);
    return known != are_wrong.end() && known->second == wrong;
  };
  std::set<ValueId> out;
  for (const std::string& name : tried) {
    if (is(name, true)) {
      wrong_ = name;
      const std::set<ValueId> before = BeforeAndAt(name);
      std::erase_if(left_, [&](const std::string& value) {
        return !before.contains(*request_.network.FindValue(value));
      });
      break;
    }
    if (!is(name, false)) continue;
    right_ = name;
    out.merge(BeforeAndAt(name));
  }
  std::erase_if(left_, [&](const std::string& value) {
    return out.contains(*request_.network.FindValue(value));
  });
}

// The value, and all that it is made of.
std::set<ValueId> PartSearch::BeforeAndAt(const std::string& value) const {
  std::vector<ValueId> waiting = {*request_.network.FindValue(value)};
  std::set<ValueId> found(waiting.begin(), waiting.end());
  while (!waiting.empty()) {
    const ValueId next = waiting.back();
    waiting.pop_back();
    for (const ValueId input : ReadFor(next)) {
      if (found.insert(input).second) waiting.push_back(input);
    }
  }
  return found;
}

std::vector<ValueId> PartSearch::ReadFor(ValueId id) const {
  const NetworkValue& value = request_.network.value(id);
  if (value.kind != NetworkValue::Kind::kOutput) return {};
  std::vector<ValueId> read = request_.network.operation(value.producer).inputs;
  std::erase(read, kNoValue);
  return read;
}

// The values that are left are to be judged on what was read for them, and must
// be apart from what comes before and after it: what these hand on to each
// other is wanted, too.
std::vector<std::string> PartSearch::WithWhatIsRead() const {
  const Network& network = request_.network;
  std::set<ValueId> wanted;
  std::set<ValueId> before;
  for (const std::string& name : left_) {
    const ValueId id = *network.FindValue(name);
    wanted.insert(id);
    before.merge(BeforeAndAt(name));
    for (const ValueId read : ReadFor(id)) wanted.insert(read);
  }
  for (const ValueId id : before) {
    for (const Use& use : network.value(id).uses) {
      const auto& made = network.operation(use.user).outputs;
      const bool is_before =
          std::any_of(made.begin(), made.end(),
                      [&](ValueId output) { return before.contains(output); });
      if (!is_before) wanted.insert(id);
    }
  }
  Names chosen;
  for (const std::string& name : request_.observable) {
    if (wanted.contains(*network.FindValue(name))) chosen.push_back(name);
  }
  return chosen;
}

}  // namespace nodewise
