// What computed the nodes of a graph, as reports show it.

#include <map>
#include <utility>

#include "fmt/format.h"
#include "nodewise/report/target_report.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// More lines would hide what was asked for.
constexpr size_t kMostReasons = 8;

class KernelReport {
 public:
  explicit KernelReport(const std::vector<KernelChoice>& choices) {
    for (const KernelChoice& choice : choices) Add(choice);
  }

  bool empty() const { return nodes_.empty(); }

  // "computed 2 nodes by oneDNN, 1 node by the reference", and how many
  // operations that is.
  std::string Summary() const {
    std::string text;
    for (const auto& [kernel, count] : nodes_) {
      text += fmt::format("{}{} by {}{}", text.empty() ? "computed " : ", ",
                          CountOf(count, "node"),
                          kernel == "reference" ? "the " : "", kernel);
    }
    std::string parts;
    for (const auto& [kernel, count] : operations_) {
      parts += fmt::format("{}{} in {}{}", parts.empty() ? "" : ", ", count,
                           kernel == "reference" ? "the " : "", kernel);
    }
    if (operations_.size() == 1 && nodes_.size() == 1) return text + '\n';
    return fmt::format("{}; operations: {}\n", text, parts);
  }

  // One line for each reason.
  std::string Reasons() const {
    std::string text;
    size_t shown = 0;
    for (const auto& [reason, places] : reasons_) {
      if (shown++ == kMostReasons) break;
      text += fmt::format(
          "  {} ({}{})\n", Printable(reason), Printable(places[0]),
          places.size() == 1 ? ""
                             : fmt::format(" and {} more", places.size() - 1));
    }
    if (reasons_.size() <= kMostReasons) return text;
    return text + fmt::format("  and {} more reasons ({} lists all)\n",
                              reasons_.size() - kMostReasons,
                              NameOf(Way::kWholeDocument));
  }

  void AddTo(JsonWriter* json) const {
    AddCounts("kernels", nodes_, json);
    AddCounts("operations", operations_, json);
    json->Add("refusals", refusals_);
    json->Add("remarks", remarks_);
  }

 private:
  using Counts = std::map<std::string, uint64_t>;  // By kernel.

  void Add(const KernelChoice& choice) {
    ++nodes_[KernelOf(choice)];
    for (const std::string& refusal : choice.refusals) {
      refusals_.push_back(fmt::format("node {}: {}", choice.node, refusal));
      reasons_[refusal].push_back("node " + choice.node);
    }
    for (const OperationChoice& operation : choice.operations) {
      ++operations_[operation.kernel];
      const std::string place = fmt::format("node {}, operation {}",
                                            choice.node, operation.operation);
      if (!operation.why_not.empty()) {
        const std::string reason =
            fmt::format("{}: {}", choice.kernel, operation.why_not);
        refusals_.push_back(fmt::format("{}: {}", place, reason));
        reasons_[reason].push_back(place);
      }
      if (operation.remark.empty()) continue;
      remarks_.push_back(fmt::format("{}: {}", place, operation.remark));
      reasons_[operation.remark].push_back(place);
    }
  }

  // What computes a node: its kernel, unless that leaves all operations to
  // another.
  static const std::string& KernelOf(const KernelChoice& choice) {
    for (const OperationChoice& operation : choice.operations) {
      if (operation.kernel == choice.kernel) return choice.kernel;
    }
    return choice.operations.empty() ? choice.kernel
                                     : choice.operations[0].kernel;
  }

  static void AddCounts(const char* name, const Counts& counts,
                        JsonWriter* json) {
    json->BeginObject(name);
    for (const auto& [kernel, count] : counts) json->Add(kernel, count);
    json->EndObject();
  }

  Counts nodes_;
  Counts operations_;
  std::map<std::string, std::vector<std::string>> reasons_;  // With places.
  std::vector<std::string> refusals_;
  std::vector<std::string> remarks_;
};

}  // namespace

void ShowKernels(const Session& loaded, Report* report) {
  if (!loaded.built_ins) return;
  const KernelReport kernels(loaded.built_ins->choices());
  if (kernels.empty()) return;
  report->text += kernels.Summary() + kernels.Reasons();
  kernels.AddTo(&report->json);
}

}  // namespace nodewise
