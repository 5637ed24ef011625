// Where the time of a run went, and how that differs between two builds.
//
// Groups: a node counts for the kind, or for the module, of the operations in
// it, so that the table speaks of the model and not of what a compiler made of
// it.
//
// Changes: nodes of both builds that have an operation in common are one part,
// so that parts do the same work on both sides. Runs are made in turns, and
// pairs of runs are compared by the ranks of their differences, which no single
// slow run can decide. With many parts one is slower by chance, which is
// corrected for.

#include "nodewise/report/profile_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ir/origin.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kKindsInALine = 4;

std::vector<std::string> OperationsIn(const GraphNode& node) {
  const std::string* const text = FindAttribute(node.attrs, kCoversAttribute);
  if (text == nullptr) return {};
  return ParseListText(*text).value_or(std::vector<std::string>());
}

// "tvmgen_default_fused_nn_conv2d_add_1" -> "nn_conv2d_add".
std::string KindOfFunction(std::string_view function) {
  for (const std::string_view prefix : {"tvmgen_", "default_", "fused_"}) {
    if (function.starts_with(prefix)) function.remove_prefix(prefix.size());
  }
  const size_t last = function.find_last_not_of("0123456789_");
  return std::string(
      last == std::string_view::npos ? function : function.substr(0, last + 1));
}

// The operations in a node, as far as the model is at hand.
std::vector<const Operation*> FindOperationsIn(const Session& session,
                                               const GraphNode& node) {
  std::vector<const Operation*> found;
  if (session.network == nullptr) return found;
  for (const std::string& name : OperationsIn(node)) {
    if (!session.network->HasOperation(name)) continue;
    found.push_back(
        &session.network->operation(*session.network->FindOperation(name)));
  }
  return found;
}

std::string KindOfNode(const Session& session, const GraphNode& node) {
  std::vector<std::string> kinds;
  for (const Operation* const operation : FindOperationsIn(session, node)) {
    const std::string kind(operation->kind());
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  if (kinds.empty()) return KindOfFunction(node.function);
  return fmt::format("{}", fmt::join(kinds, "+"));
}

using Path = std::vector<std::string>;

// Returns the parts before the last slash: "/layer1/conv/Conv" -> layer1, conv.
Path PathOf(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return {};
  return absl::StrSplit(absl::string_view(name.data(), slash), '/',
                        absl::SkipEmpty());
}

// Operations of several modules in one node are of the module around all of
// them.
void CutToCommon(const Path& other, Path* path) {
  const auto end =
      std::mismatch(path->begin(), path->end(), other.begin(), other.end());
  path->erase(end.first, path->end());
}

bool Encloses(const Path& outer, const Path& inner) {
  return std::ranges::equal(
      outer, absl::MakeConstSpan(inner).subspan(0, outer.size()));
}

// Returns the module that the exporter notes; none if it notes nothing. Fused
// into one node, an operation of a module's own and those of a module in it are
// of the latter: relu(self.conv(x)) is mostly the convolution.
std::optional<Path> NotedModuleOf(const Session& session,
                                  const GraphNode& node) {
  std::optional<Path> module;
  for (const Operation* const operation : FindOperationsIn(session, node)) {
    if (operation->origin == nullptr) continue;
    const auto path = ModulePathOf(*operation->origin);
    if (!path.has_value()) continue;
    if (!module.has_value() || Encloses(*module, *path)) {
      module = path;
    } else if (!Encloses(*path, *module)) {
      CutToCommon(*path, &*module);
    }
  }
  return module;
}

Path ModuleOf(const Session& session, const GraphNode& node) {
  const auto noted = NotedModuleOf(session, node);
  if (noted.has_value()) return *noted;
  const std::vector<std::string> operations = OperationsIn(node);
  if (operations.empty()) return PathOf(node.name);
  Path common = PathOf(operations.front());
  for (const std::string& operation : operations) {
    CutToCommon(PathOf(operation), &common);
  }
  return common;
}

std::string Joined(const Path& path, size_t depth) {
  return fmt::format(
      "{}", fmt::join(absl::MakeConstSpan(path).subspan(0, depth), "/"));
}

// Models often lie in one module as a whole, which tells no groups apart.
size_t DistinguishingDepth(const std::vector<Path>& paths) {
  size_t deepest = 0;
  for (const Path& path : paths) deepest = std::max(deepest, path.size());
  for (size_t depth = 1; depth < deepest; ++depth) {
    std::set<std::string> names;
    for (const Path& path : paths) names.insert(Joined(path, depth));
    names.erase("");
    if (names.size() > 1) return depth;
  }
  return deepest;
}

// A kind is taken for a path of one part, so that kinds and modules are grouped
// in one way.
std::vector<std::string> GroupsOf(const Session& session,
                                  const ProfileSummary& summary,
                                  ProfileGrouping grouping, size_t depth) {
  const Graph& graph = session.target->graph();
  const bool by_kind = grouping == ProfileGrouping::kKind;
  std::vector<Path> paths;
  for (const NodeProfile& row : summary.nodes) {
    const GraphNode& node = graph.node(row.node);
    paths.push_back(by_kind ? Path{KindOfNode(session, node)}
                            : ModuleOf(session, node));
  }
  if (by_kind) depth = 1;
  if (depth == 0) depth = DistinguishingDepth(paths);
  std::vector<std::string> names;
  for (const Path& path : paths) names.push_back(Joined(path, depth));
  return names;
}

void AddGroups(const char* key, const std::vector<ProfileGroup>& groups,
               JsonWriter* json) {
  AddObjects(json, key, groups, [&](const auto& group) {
    AddMembers(json, "name", group.name, "nodes", group.nodes, "mean_us",
               group.mean_us, "percent", group.percent);
  });
}

TextTable TableOf(const std::vector<ProfileGroup>& groups,
                  ProfileGrouping grouping) {
  TextTable table;
  table.AddRow({grouping == ProfileGrouping::kKind ? "kind" : "module", "nodes",
                "time (us)", "share"});
  for (const ProfileGroup& group : groups) {
    table.AddRow({group.name.empty() ? "(no module)" : group.name,
                  std::to_string(group.nodes),
                  fmt::format("{:.2f}", group.mean_us),
                  fmt::format("{:.1f} %", group.percent)});
  }
  return table;
}

// A difference that chance makes more often than this is not shown as one, and
// neither is one that is smaller than this part of the time before, however
// certain it is.
constexpr double kSure = 0.05;
constexpr double kLeastChange = 0.02;
// With fewer pairs no ranks, however one-sided, are as rare as kSure.
constexpr double kFewestPairs = 6;

// Sets of nodes that share marks, so that where one build fuses and the other
// does not, all that does the same work is compared as one.
class Parts {
 public:
  struct Part {
    std::vector<NodeId> sides[2];
  };

  void Add(int side, NodeId node, const std::vector<std::string>& marks) {
    const size_t member = members_.size();
    members_.push_back({side, node});
    parents_.push_back(member);
    for (const std::string& mark : marks) {
      const auto [known, is_new] = by_mark_.emplace(mark, member);
      if (!is_new) parents_[RootOf(member)] = RootOf(known->second);
    }
  }

  std::vector<Part> TakeParts() {
    std::map<size_t, size_t> number;  // By root, in the order of the members.
    std::vector<Part> parts;
    for (size_t i = 0; i < members_.size(); ++i) {
      const auto [known, is_new] = number.emplace(RootOf(i), parts.size());
      if (is_new) parts.emplace_back();
      parts[known->second].sides[members_[i].first].push_back(
          members_[i].second);
    }
    return parts;
  }

 private:
  size_t RootOf(size_t member) {
    while (parents_[member] != member) {
      member = parents_[member] = parents_[parents_[member]];
    }
    return member;
  }

  std::vector<std::pair<int, NodeId>> members_;
  std::vector<size_t> parents_;
  std::map<std::string, size_t> by_mark_;
};

// Times of nodes are added up run by run, so that pairs of runs can still be
// compared.
std::vector<double> TimesOf(const Profile& profile,
                            const std::vector<NodeId>& nodes) {
  std::vector<double> times;
  for (const TimedRun& run : profile.runs) {
    double us = 0;
    for (const NodeId node : nodes) {
      us += static_cast<double>(run.nodes[Index(node)].Duration()) / 1e3;
    }
    times.push_back(us);
  }
  return times;
}

// Wilcoxon's test of signed ranks, two-sided, by the normal distribution, which
// is near enough from some ten pairs on. Equal pairs say nothing.
double SignedRanks(const std::vector<double>& before,
                   const std::vector<double>& after) {
  std::vector<double> differences;
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    if (after[i] != before[i]) differences.push_back(after[i] - before[i]);
  }
  const auto count = static_cast<double>(differences.size());
  if (count < kFewestPairs) return 1;
  std::ranges::sort(differences, {}, [](double d) { return std::abs(d); });
  double grown = 0;
  double ties = 0;
  for (size_t i = 0; i < differences.size();) {
    size_t end = i;
    while (end < differences.size() &&
           std::abs(differences[end]) == std::abs(differences[i])) {
      ++end;
    }
    const double rank = (static_cast<double>(i + end) + 1) / 2;
    const auto tied = static_cast<double>(end - i);
    ties += tied * tied * tied - tied;
    for (; i < end; ++i) {
      if (differences[i] > 0) grown += rank;
    }
  }
  const double mean = count * (count + 1) / 4;
  const double variance =
      count * (count + 1) * (2 * count + 1) / 24 - ties / 48;
  if (variance <= 0) return 1;
  const double beyond = std::max(std::abs(grown - mean) - 0.5, 0.0);
  return std::erfc(beyond / std::sqrt(2 * variance));
}

// Holm's correction: many rows make a rare chance likely.
void Correct(std::vector<ProfileChange>* changes) {
  std::vector<ProfileChange*> tested;
  for (ProfileChange& change : *changes) {
    if (change.is_paired()) tested.push_back(&change);
  }
  std::ranges::sort(tested, {}, &ProfileChange::p);
  double least = 0;
  for (size_t i = 0; i < tested.size(); ++i) {
    const double p = tested[i]->p * static_cast<double>(tested.size() - i);
    least = std::max(least, std::min(p, 1.0));
    tested[i]->p = least;
  }
}

double ChangeOf(const ProfileChange& change) {
  return change.after_us - change.before_us;
}

// A part that one build alone has is neither slower nor faster.
std::string VerdictOf(const ProfileChange& change) {
  if (change.before.empty()) return "new";
  if (change.after.empty()) return "gone";
  if (change.p > kSure ||
      std::abs(ChangeOf(change)) < kLeastChange * change.before_us) {
    return "same";
  }
  return ChangeOf(change) > 0 ? "slower" : "faster";
}

std::string NamesOf(const ProfileChange& change) {
  const std::string before = fmt::format("{}", fmt::join(change.before, " + "));
  const std::string after = fmt::format("{}", fmt::join(change.after, " + "));
  if (before == after || after.empty()) return before;
  if (before.empty()) return after;
  return before + " -> " + after;
}

std::string RatioOf(const ProfileChange& change) {
  if (!change.is_paired() || change.before_us <= 0) return "";
  return fmt::format("{:.2f}", change.after_us / change.before_us);
}

std::string PValueText(const ProfileChange& change) {
  if (!change.is_paired()) return "";
  return change.p < 0.001 ? "< 0.001" : fmt::format("{:.3f}", change.p);
}

}  // namespace

// Groups of equal time keep the order of their names.
std::vector<ProfileGroup> GroupProfile(const Session& session,
                                       const ProfileSummary& summary,
                                       ProfileGrouping grouping, size_t depth) {
  const auto names = GroupsOf(session, summary, grouping, depth);
  std::map<std::string, ProfileGroup> by_name;
  for (size_t i = 0; i < names.size(); ++i) {
    ProfileGroup& group = by_name[names[i]];
    group.name = names[i];
    ++group.nodes;
    group.mean_us += summary.nodes[i].mean_us;
    group.percent += summary.nodes[i].percent;
  }
  std::vector<ProfileGroup> groups;
  for (auto& [name, group] : by_name) groups.push_back(std::move(group));
  std::ranges::stable_sort(groups, std::greater<>(), &ProfileGroup::mean_us);
  return groups;
}

// The depth only matters for modules. Both groupings are in the document, since
// they cost nothing and a reader may want the other one.
void ShowProfileGroups(const Session& session, const ProfileSummary& summary,
                       std::optional<ProfileGrouping> asked, size_t depth,
                       Report* report) {
  const auto kinds =
      GroupProfile(session, summary, ProfileGrouping::kKind, depth);
  const auto modules =
      GroupProfile(session, summary, ProfileGrouping::kModule, depth);
  AddGroups("by_kind", kinds, &report->json);
  AddGroups("by_module", modules, &report->json);
  if (asked.has_value()) {
    const bool by_kind = *asked == ProfileGrouping::kKind;
    report->text += "\n";
    report->text.Add(TableOf(by_kind ? kinds : modules, *asked));
    report->text += "\n";
    return;
  }
  std::vector<std::string> longest;
  for (size_t i = 0; i < std::min(kinds.size(), kKindsInALine); ++i) {
    longest.push_back(
        fmt::format("{} {:.0f} %", kinds[i].name, kinds[i].percent));
  }
  if (kinds.size() > kKindsInALine) {
    longest.push_back(CountOf(kinds.size() - kKindsInALine, "other kind"));
  }
  AddText(report, "by kind    {}\n", fmt::join(longest, ", "));
}

// Parts are joined over both builds first and timed then: a part that is split
// differently on the two sides counts as a whole.
std::vector<ProfileChange> CompareProfiles(const GraphIndex& before,
                                           const Profile& profile_before,
                                           const GraphIndex& after,
                                           const Profile& profile_after) {
  Parts parts;
  const GraphIndex* const indices[] = {&before, &after};
  for (int side = 0; side < 2; ++side) {
    const Graph& graph = indices[side]->graph();
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      if (!graph.IsFunction(NodeId{n})) continue;
      // Compilers number nodes anew, so that the other build knows a node by
      // its operations.
      auto marks = OperationsIn(graph.nodes[n]);
      if (marks.empty()) marks = {indices[side]->KeyOf(NodeId{n})};
      parts.Add(side, NodeId{n}, marks);
    }
  }
  std::vector<ProfileChange> changes;
  for (const Parts::Part& part : parts.TakeParts()) {
    ProfileChange& change = changes.emplace_back();
    change.before = KeysOf(before, part.sides[0]);
    change.after = KeysOf(after, part.sides[1]);
    const auto times_before = TimesOf(profile_before, part.sides[0]);
    const auto times_after = TimesOf(profile_after, part.sides[1]);
    change.before_us = MedianOf(times_before);
    change.after_us = MedianOf(times_after);
    if (change.is_paired()) change.p = SignedRanks(times_before, times_after);
  }
  Correct(&changes);
  return changes;
}

void ShowProfileChanges(std::vector<ProfileChange> changes,
                        const std::string& before, const std::string& after,
                        size_t most, Report* report) {
  std::ranges::stable_sort(changes, {}, [&](const ProfileChange& change) {
    return std::pair(VerdictOf(change) == "same", -std::abs(ChangeOf(change)));
  });
  size_t slower = 0;
  size_t faster = 0;
  TextTable table;
  table.AddRow({"node", before + " (us)", after + " (us)", "ratio", "chance",
                "verdict"});
  AddObjects(report, "changes", changes, [&](const auto& change) {
    const std::string verdict = VerdictOf(change);
    if (verdict == "slower") ++slower;
    if (verdict == "faster") ++faster;
    table.AddRow({NamesOf(change), fmt::format("{:.2f}", change.before_us),
                  fmt::format("{:.2f}", change.after_us), RatioOf(change),
                  PValueText(change), verdict});
    report->json.AddTexts("before", change.before);
    report->json.AddTexts("after", change.after);
    AddMembers(report, "before_us", change.before_us, "after_us",
               change.after_us, "p", change.p, "verdict", verdict);
  });
  AddText(report, "{} of {} slower in {} than in {}, {} faster\n\n", slower,
          CountOf(changes.size(), "part"), after, before, faster);
  // The heading is a row, too.
  report->text.Add(std::move(table), 0, most == 0 ? 0 : most + 1);
  report->text +=
      "\nchance: how probable such a difference is where there is none, for as "
      "many rows\n";
}

}  // namespace nodewise
