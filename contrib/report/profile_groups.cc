#include "nodewise/report/profile_groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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

bool IsDigitOrBar(char c) { return (c >= '0' && c <= '9') || c == '_'; }

// "tvmgen_default_fused_nn_conv2d_add_1" -> "nn_conv2d_add".
std::string KindOfFunction(std::string_view function) {
  for (const std::string_view prefix : {"tvmgen_", "default_", "fused_"}) {
    if (function.starts_with(prefix)) function.remove_prefix(prefix.size());
  }
  std::string_view kind = function;
  while (!kind.empty() && IsDigitOrBar(kind.back())) kind.remove_suffix(1);
  return std::string(kind.empty() ? function : kind);
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

// The kinds of the operations in a node, each once.
std::string KindOfNode(const Session& session, const GraphNode& node) {
  std::vector<std::string> kinds;
  for (const Operation* const operation : FindOperationsIn(session, node)) {
    const std::string kind(operation->kind());
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
      kinds.push_back(kind);
    }
  }
  if (kinds.empty()) return KindOfFunction(node.function);
  return fmt::format("{}", fmt::join(kinds, "+"));
}

using Path = std::vector<std::string>;

// What stands before the last slash: "/layer1/conv/Conv" -> layer1, conv.
Path PathOf(std::string_view name) {
  Path path;
  size_t begin = 0;
  while (true) {
    const size_t slash = name.find('/', begin);
    if (slash == std::string_view::npos) return path;
    if (slash > begin) path.emplace_back(name.substr(begin, slash - begin));
    begin = slash + 1;
  }
}

void CutToCommon(const Path& other, Path* path) {
  const auto end =
      std::mismatch(path->begin(), path->end(), other.begin(), other.end());
  path->erase(end.first, path->end());
}

bool IsAround(const Path& outer, const Path& inner) {
  return outer.size() <= inner.size() &&
         std::equal(outer.begin(), outer.end(), inner.begin());
}

// What the exporter says; none if it says nothing. Fused into one node, an
// operation of a module's own and those of a module in it are of the latter:
// relu(self.conv(x)) is mostly the convolution.
std::optional<Path> NotedModuleOf(const Session& session,
                                  const GraphNode& node) {
  std::optional<Path> module;
  for (const Operation* const operation : FindOperationsIn(session, node)) {
    if (operation->origin == nullptr) continue;
    const auto path = ModulePathOf(*operation->origin);
    if (!path.has_value()) continue;
    if (!module.has_value() || IsAround(*module, *path)) {
      module = path;
    } else if (!IsAround(*path, *module)) {
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
      "{}", fmt::join(path.begin(),
                      path.begin() +
                          static_cast<ptrdiff_t>(std::min(depth, path.size())),
                      "/"));
}

// Models often lie in one module as a whole.
size_t DepthThatTellsApart(const std::vector<Path>& paths) {
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

std::vector<std::string> ModulesOf(const Session& session,
                                   const ProfileSummary& summary,
                                   size_t depth) {
  const Graph& graph = session.target->graph();
  std::vector<Path> paths;
  for (const NodeProfile& row : summary.nodes) {
    paths.push_back(ModuleOf(session, graph.node(row.node)));
  }
  if (depth == 0) depth = DepthThatTellsApart(paths);
  std::vector<std::string> names;
  for (const Path& path : paths) names.push_back(Joined(path, depth));
  return names;
}

std::vector<std::string> GroupsOf(const Session& session,
                                  const ProfileSummary& summary,
                                  ProfileGrouping grouping, size_t depth) {
  if (grouping == ProfileGrouping::kModule) {
    return ModulesOf(session, summary, depth);
  }
  const Graph& graph = session.target->graph();
  std::vector<std::string> names;
  for (const NodeProfile& row : summary.nodes) {
    names.push_back(KindOfNode(session, graph.node(row.node)));
  }
  return names;
}

std::string NameOfGroup(const ProfileGroup& group) {
  return group.name.empty() ? "(no module)" : group.name;
}

void AddGroups(const char* key, const std::vector<ProfileGroup>& groups,
               JsonWriter* json) {
  json->BeginArray(key);
  for (const ProfileGroup& group : groups) {
    json->BeginObject();
    json->Add("name", group.name);
    json->Add("nodes", static_cast<uint64_t>(group.nodes));
    json->Add("mean_us", group.mean_us);
    json->Add("percent", group.percent);
    json->EndObject();
  }
  json->EndArray();
}

TextTable TableOf(const std::vector<ProfileGroup>& groups,
                  ProfileGrouping grouping) {
  TextTable table;
  table.AddRow({grouping == ProfileGrouping::kKind ? "kind" : "module", "nodes",
                "time (us)", "share"});
  for (const ProfileGroup& group : groups) {
    table.AddRow({NameOfGroup(group), std::to_string(group.nodes),
                  fmt::format("{:.2f}", group.mean_us),
                  fmt::format("{:.1f} %", group.percent)});
  }
  return table;
}

}  // namespace

std::vector<ProfileGroup> GroupProfile(const Session& session,
                                       const ProfileSummary& summary,
                                       ProfileGrouping grouping, size_t depth) {
  const std::vector<std::string> names =
      GroupsOf(session, summary, grouping, depth);
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
  std::stable_sort(groups.begin(), groups.end(),
                   [](const ProfileGroup& a, const ProfileGroup& b) {
                     return a.mean_us > b.mean_us;
                   });
  return groups;
}

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
  report->text += fmt::format("by kind    {}\n", fmt::join(longest, ", "));
}

}  // namespace nodewise
