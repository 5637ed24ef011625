#include "nodewise/report/archive.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using Json = nlohmann::json;

// A document of a thousand nodes has 5 MB. Parsed, a text of many short members
// takes twenty times its own memory.
constexpr size_t kMostBytes = size_t{64} << 20;
// What tables may take when they are laid out: a long cell makes every row of
// its column as long.
constexpr uint64_t kMostLaidOut = uint64_t{64} << 20;
constexpr size_t kMostColumns = 64;
constexpr std::string_view kFamily = "nodewise/";

// How long a table gets if every cell is as wide as the widest of its column.
uint64_t BytesLaidOut(const TextTable& table) {
  std::array<uint64_t, kMostColumns> widest{};
  for (const std::vector<std::string>& row : table.rows()) {
    for (size_t c = 0; c < row.size(); ++c) {
      widest[c] = std::max<uint64_t>(widest[c], row[c].size());
    }
  }
  return table.rows().size() *
         std::accumulate(widest.begin(), widest.end(), uint64_t{1});
}

// Reads members of one document; an error says which one is wrong.
class ArchiveReader {
 public:
  explicit ArchiveReader(const std::string& name) : name_(name) {}

  absl::StatusOr<Archive> Read(const Json& document) {
    NODEWISE_RETURN_IF_ERROR(CheckSchema(document));
    Archive archive;
    NODEWISE_ASSIGN_OR_RETURN(archive.verb, TextIn(document, "verb"));
    NODEWISE_ASSIGN_OR_RETURN(archive.version, TextIn(document, "version"));
    NODEWISE_ASSIGN_OR_RETURN(archive.status, TextIn(document, "status"));
    NODEWISE_ASSIGN_OR_RETURN(archive.command, TextsIn(document, "command"));
    NODEWISE_ASSIGN_OR_RETURN(archive.notes, TextsIn(document, "notes"));
    NODEWISE_RETURN_IF_ERROR(ReadErrors(document, &archive));
    NODEWISE_RETURN_IF_ERROR(ReadText(document, &archive));
    NODEWISE_RETURN_IF_ERROR(ReadGraph(document, &archive));
    NODEWISE_RETURN_IF_ERROR(ReadVerdicts(document, &archive));
    return archive;
  }

 private:
  absl::Status Wrong(std::string_view member, std::string_view expected) const {
    return absl::DataLossError(
        fmt::format("{}: /{}: expected {}", name_, member, expected));
  }

  absl::Status CheckSchema(const Json& document) const {
    const auto schema = document.find("schema");
    if (schema == document.end() || !schema->is_string()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: has no schema, expected a document of nodewise ({})",
                      name_, kDocumentSchema));
    }
    const auto& name = schema->get_ref<const std::string&>();
    if (name == kDocumentSchema) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "{}: is of the schema {}, expected {}{}", name_, Printable(name),
        kDocumentSchema,
        name.starts_with(kFamily) ? " (a newer nodewise wrote it)" : ""));
  }

  // A missing text is empty: a shorter document has less to show.
  absl::StatusOr<std::string> TextIn(const Json& object,
                                     const char* key) const {
    const auto member = object.find(key);
    if (member == object.end()) return std::string();
    if (!member->is_string()) return Wrong(key, "a text");
    return member->get<std::string>();
  }

  // Returns the items of an array, all of one type; none if there is no such
  // member.
  absl::StatusOr<std::vector<const Json*>> ItemsIn(
      const Json& object, const char* key,
      bool (Json::*is_right)() const noexcept,
      std::string_view expected) const {
    std::vector<const Json*> items;
    const auto member = object.find(key);
    if (member == object.end()) return items;
    if (!member->is_array()) return Wrong(key, expected);
    for (const Json& item : *member) {
      if (!(item.*is_right)()) return Wrong(key, expected);
      items.push_back(&item);
    }
    return items;
  }

  absl::StatusOr<std::vector<std::string>> TextsIn(const Json& object,
                                                   const char* key) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto items,
        ItemsIn(object, key, &Json::is_string, "an array of texts"));
    std::vector<std::string> texts;
    for (const Json* item : items) texts.push_back(item->get<std::string>());
    return texts;
  }

  absl::StatusOr<std::vector<const Json*>> ObjectsIn(const Json& object,
                                                     const char* key) const {
    return ItemsIn(object, key, &Json::is_object, "an array of objects");
  }

  absl::Status ReadErrors(const Json& document, Archive* archive) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto errors, ObjectsIn(document, "errors"));
    for (const Json* error : errors) {
      NODEWISE_ASSIGN_OR_RETURN(std::string text, TextIn(*error, "text"));
      archive->errors.push_back(std::move(text));
    }
    return absl::OkStatus();
  }

  absl::Status ReadText(const Json& document, Archive* archive) {
    const auto blocks = document.find("report");
    if (blocks == document.end()) return absl::OkStatus();
    if (!blocks->is_array()) return Wrong("report", "an array");
    for (const Json& block : *blocks) {
      if (block.is_string()) {
        archive->text += block.get_ref<const std::string&>();
        continue;
      }
      NODEWISE_RETURN_IF_ERROR(ReadTable(block, archive));
    }
    return absl::OkStatus();
  }

  absl::Status ReadTable(const Json& block, Archive* archive) {
    constexpr uint64_t kMostIndent = 40;
    if (!block.is_object()) return Wrong("report", "texts and tables");
    NODEWISE_ASSIGN_OR_RETURN(const uint64_t indent, NumberIn(block, "indent"));
    NODEWISE_ASSIGN_OR_RETURN(const auto most, NumberIn(block, "most_rows"));
    const auto rows = block.find("rows");
    if (rows == block.end() || !rows->is_array()) {
      return Wrong("report/rows", "an array");
    }
    TextTable table;
    for (const Json& row : *rows) {
      if (!row.is_array()) return Wrong("report/rows", "arrays of texts");
      if (row.size() > kMostColumns) {
        return Wrong("report/rows",
                     fmt::format("at most {}", CountOf(kMostColumns, "cell")));
      }
      std::vector<std::string> cells;
      for (const Json& cell : row) {
        if (!cell.is_string()) return Wrong("report/rows", "arrays of texts");
        cells.push_back(cell.get<std::string>());
      }
      table.AddRow(cells);
    }
    laid_out_ += BytesLaidOut(table);
    if (laid_out_ > kMostLaidOut) {
      return Wrong("report/rows",
                   fmt::format("tables that take at most {} when all rows are "
                               "as long as the longest",
                               CountOf(kMostLaidOut, "byte")));
    }
    archive->text.Add(std::move(table), std::min(indent, kMostIndent), most);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> NumberIn(const Json& object, const char* key) const {
    const auto member = object.find(key);
    if (member == object.end()) return 0;
    if (!member->is_number_unsigned()) return Wrong(key, "a whole number");
    return member->get<uint64_t>();
  }

  absl::Status ReadGraph(const Json& document, Archive* archive) const {
    const auto graph = document.find("graph");
    if (graph == document.end()) return absl::OkStatus();
    if (!graph->is_object()) return Wrong("graph", "an object");
    NODEWISE_ASSIGN_OR_RETURN(const auto nodes, ObjectsIn(*graph, "nodes"));
    for (const Json* node : nodes) {
      Archive::Node read;
      NODEWISE_ASSIGN_OR_RETURN(read.key, TextIn(*node, "node"));
      NODEWISE_ASSIGN_OR_RETURN(read.function, TextIn(*node, "function"));
      const auto reads = node->find("reads");
      if (reads == node->end() || !reads->is_array()) {
        return Wrong("graph/nodes/reads", "an array");
      }
      for (const Json& number : *reads) {
        // A node reads what stands before it, so that there cannot be a circle.
        if (!number.is_number_unsigned() ||
            number.get<uint64_t>() >= archive->nodes.size()) {
          return Wrong("graph/nodes/reads", "numbers of nodes before it");
        }
        read.reads.push_back(number.get<uint32_t>());
      }
      archive->nodes.push_back(std::move(read));
    }
    return absl::OkStatus();
  }

  absl::Status ReadVerdicts(const Json& document, Archive* archive) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto verdicts,
                              ObjectsIn(document, "verdicts"));
    for (const Json* verdict : verdicts) {
      NODEWISE_ASSIGN_OR_RETURN(Archive::Node * node,
                                NodeOf(*verdict, archive));
      if (node == nullptr) continue;
      NODEWISE_ASSIGN_OR_RETURN(node->kind, TextIn(*verdict, "kind"));
      NODEWISE_ASSIGN_OR_RETURN(node->reason, TextIn(*verdict, "reason"));
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto culprits,
                              ObjectsIn(document, "culprits"));
    for (const Json* culprit : culprits) {
      NODEWISE_ASSIGN_OR_RETURN(Archive::Node * node,
                                NodeOf(*culprit, archive));
      if (node == nullptr) continue;
      node->is_culprit = true;
      NODEWISE_ASSIGN_OR_RETURN(node->kind, TextIn(*culprit, "kind"));
      NODEWISE_RETURN_IF_ERROR(ReadExplanation(*culprit, node));
    }
    return absl::OkStatus();
  }

  absl::Status ReadExplanation(const Json& culprit, Archive::Node* node) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto explanations,
                              ObjectsIn(culprit, "explanations"));
    if (!explanations.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(node->explanation,
                                TextIn(*explanations[0], "what"));
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<std::string> operations,
                              TextsIn(culprit, "source_nodes"));
    node->explanation = ListOf(operations, 3);
    return absl::OkStatus();
  }

  // Returns the node that an object is about; null if there is no graph.
  absl::StatusOr<Archive::Node*> NodeOf(const Json& object,
                                        Archive* archive) const {
    if (archive->nodes.empty()) return nullptr;
    NODEWISE_ASSIGN_OR_RETURN(const uint64_t number,
                              NumberIn(object, "node_index"));
    if (number >= archive->nodes.size()) {
      return Wrong("node_index", "the number of a node of the graph");
    }
    return &archive->nodes[number];
  }

  const std::string& name_;
  uint64_t laid_out_ = 0;  // By all tables so far.
};

}  // namespace

void AddGraph(const GraphIndex& index, JsonWriter* json) {
  const Graph& graph = index.graph();
  json->BeginObject("graph");
  uint32_t number = 0;
  AddObjects(json, "nodes", graph.nodes, [&](const GraphNode& node) {
    const bool is_input = node.kind == GraphNode::Kind::kInput;
    std::vector<int64_t> reads;
    for (const EntryRef& ref : node.inputs) reads.push_back(ref.node);
    AddMembers(json, "node", index.KeyOf(NodeId{number++}), "function",
               is_input ? "" : node.function, "reads", reads);
  });
  json->EndObject();
}

absl::StatusOr<Archive> ParseArchive(std::string text,
                                     const std::string& name) {
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: has {}, expected at most {}", name,
                    CountOf(text.size(), "byte"), CountOf(kMostBytes, "byte")));
  }
  const Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is not a JSON document, expected one of nodewise ({})",
                    name, kDocumentSchema));
  }
  NODEWISE_ASSIGN_OR_RETURN(auto archive, ArchiveReader(name).Read(document));
  archive.document = std::move(text);
  return archive;
}

absl::StatusOr<Archive> ReadArchive(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseArchive(std::string(file.text()), path);
}

Report ReportOf(const Archive& archive) {
  Report report;
  report.text = archive.text;
  report.notes = archive.notes;
  // With any other status the text has the errors already.
  if (archive.status == NameOf(Report::Status::kError)) {
    for (const std::string& error : archive.errors) {
      AddText(&report, "error: {}\n", Printable(error));
    }
  }
  report.json.AddRaw("archive", archive.document);
  return report;
}

}  // namespace nodewise
