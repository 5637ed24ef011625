// Documents that are read back. They come from anywhere: reading one takes no
// more time and memory than a document of its size may.

#include "nodewise/report/archive.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using Json = nlohmann::json;

// A document of a thousand nodes has 5 MB. Parsed, a text of many short members
// takes twenty times its own memory.
constexpr size_t kMostBytes = size_t{64} << 20;
// Tables may take as much when they are laid out: a long cell makes every row
// of its column as long.
constexpr uint64_t kMostLaidOut = uint64_t{64} << 20;
constexpr size_t kMostColumns = 64;
// Documents of all versions have a schema that begins so.
constexpr std::string_view kFamily = "nodewise/";
// As many operations fit the box that a picture has for a node.
constexpr size_t kMostOperations = 3;

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

// Reads members of one document. The first one that is not what it should be is
// remembered, and members that are read after it count for nothing: so the
// functions can return what they read, and one place asks how it went.
class ArchiveReader {
 public:
  explicit ArchiveReader(const std::string& name) : name_(name) {}

  absl::StatusOr<Archive> Read(const Json& document) {
    NODEWISE_RETURN_IF_ERROR(CheckSchema(document));
    Archive archive;
    archive.verb = TextIn(document, "verb");
    archive.version = TextIn(document, "version");
    archive.status = TextIn(document, "status");
    archive.command = TextsIn(document, "command");
    archive.notes = TextsIn(document, "notes");
    for (const Json* error : ObjectsIn(document, "errors")) {
      archive.errors.push_back(TextIn(*error, "text"));
    }
    ReadText(document, &archive);
    ReadGraph(document, &archive);
    ReadVerdicts(document, &archive);
    NODEWISE_RETURN_IF_ERROR(status_);
    return archive;
  }

 private:
  // A fault may entail others, so the first one is the one to tell.
  void Fail(std::string_view member, std::string_view expected) {
    if (!status_.ok()) return;
    status_ = DataLoss("{}: /{}: expected {}", name_, member, expected);
  }
  bool Require(bool holds, std::string_view member, std::string_view expected) {
    if (!holds) Fail(member, expected);
    return holds;
  }

  // Documents are recognised by their schema alone. A newer one could mean
  // something else by the same members, so it is refused and not guessed at.
  absl::Status CheckSchema(const Json& document) const {
    const auto schema = document.find("schema");
    if (schema == document.end() || !schema->is_string()) {
      return InvalidArgument(
          "{}: has no schema, expected a document of nodewise ({})", name_,
          kDocumentSchema);
    }
    const auto& name = schema->get_ref<const std::string&>();
    if (name == kDocumentSchema) return absl::OkStatus();
    return InvalidArgument(
        "{}: is of the schema {}, expected {}{}", name_, Printable(name),
        kDocumentSchema,
        name.starts_with(kFamily) ? " (a newer nodewise wrote it)" : "");
  }

  // A missing text is empty: a shorter document has less to show.
  std::string TextIn(const Json& object, const char* key) {
    const auto member = object.find(key);
    const bool is_there =
        member != object.end() && Require(member->is_string(), key, "a text");
    return is_there ? member->get<std::string>() : "";
  }

  uint64_t NumberIn(const Json& object, const char* key) {
    const auto member = object.find(key);
    const bool is_there =
        member != object.end() &&
        Require(member->is_number_unsigned(), key, "a whole number");
    return is_there ? member->get<uint64_t>() : 0;
  }

  // Returns the items of an array, all of one type; none if there is no such
  // member.
  std::vector<const Json*> ItemsIn(const Json& object, const char* key,
                                   bool (Json::*is_right)() const noexcept,
                                   std::string_view expected) {
    std::vector<const Json*> items;
    const auto member = object.find(key);
    if (member == object.end() || !Require(member->is_array(), key, expected)) {
      return items;
    }
    for (const Json& item : *member) {
      if (!Require((item.*is_right)(), key, expected)) break;
      items.push_back(&item);
    }
    return items;
  }

  std::vector<std::string> TextsIn(const Json& object, const char* key) {
    std::vector<std::string> texts;
    for (const Json* item :
         ItemsIn(object, key, &Json::is_string, "an array of texts")) {
      texts.push_back(item->get<std::string>());
    }
    return texts;
  }

  std::vector<const Json*> ObjectsIn(const Json& object, const char* key) {
    return ItemsIn(object, key, &Json::is_object, "an array of objects");
  }

  // Lines and tables stand in the order in which they are shown, so that a
  // report looks as it did when it was made.
  void ReadText(const Json& document, Archive* archive) {
    const auto blocks = document.find("report");
    if (blocks == document.end() ||
        !Require(blocks->is_array(), "report", "an array")) {
      return;
    }
    for (const Json& block : *blocks) {
      if (!status_.ok()) return;
      if (block.is_string()) {
        archive->text += block.get_ref<const std::string&>();
      } else if (Require(block.is_object(), "report", "texts and tables")) {
        ReadTable(block, archive);
      }
    }
  }

  // Each table is measured before it is kept, and nothing is kept of one that
  // would make the text too long, nor of what comes after it.
  void ReadTable(const Json& block, Archive* archive) {
    constexpr uint64_t kMostIndent = 40;
    const uint64_t indent = NumberIn(block, "indent");
    const uint64_t most = NumberIn(block, "most_rows");
    const auto rows = block.find("rows");
    if (!Require(rows != block.end() && rows->is_array(), "report/rows",
                 "an array")) {
      return;
    }
    TextTable table;
    for (const Json& row : *rows) {
      if (!Require(row.is_array(), "report/rows", "arrays of texts")) return;
      if (row.size() > kMostColumns) {
        return Fail("report/rows",
                    fmt::format("at most {}", CountOf(kMostColumns, "cell")));
      }
      std::vector<std::string> cells;
      for (const Json& cell : row) {
        if (!Require(cell.is_string(), "report/rows", "arrays of texts"))
          return;
        cells.push_back(cell.get<std::string>());
      }
      table.AddRow(cells);
    }
    laid_out_ += BytesLaidOut(table);
    if (laid_out_ > kMostLaidOut) {
      return Fail("report/rows",
                  fmt::format("tables that take at most {} when all rows are "
                              "as long as the longest",
                              CountOf(kMostLaidOut, "byte")));
    }
    archive->text.Add(std::move(table), std::min(indent, kMostIndent), most);
  }

  // The graph comes before the verdicts, which are about its nodes by number.
  void ReadGraph(const Json& document, Archive* archive) {
    const auto graph = document.find("graph");
    if (graph == document.end() ||
        !Require(graph->is_object(), "graph", "an object")) {
      return;
    }
    for (const Json* node : ObjectsIn(*graph, "nodes")) {
      Archive::Node read;
      read.key = TextIn(*node, "node");
      read.function = TextIn(*node, "function");
      const auto reads = node->find("reads");
      if (!Require(reads != node->end() && reads->is_array(),
                   "graph/nodes/reads", "an array")) {
        return;
      }
      for (const Json& number : *reads) {
        // A node reads what stands before it, so that there cannot be a circle.
        if (!Require(number.is_number_unsigned() &&
                         number.get<uint64_t>() < archive->nodes.size(),
                     "graph/nodes/reads", "numbers of nodes before it")) {
          return;
        }
        read.reads.push_back(number.get<uint32_t>());
      }
      archive->nodes.push_back(std::move(read));
    }
  }

  // Culprits come second: what is known of a node as a culprit replaces what
  // its verdict says.
  void ReadVerdicts(const Json& document, Archive* archive) {
    for (const Json* verdict : ObjectsIn(document, "verdicts")) {
      Archive::Node* const node = NodeOf(*verdict, archive);
      if (node == nullptr) continue;
      node->kind = TextIn(*verdict, "kind");
      node->reason = TextIn(*verdict, "reason");
    }
    for (const Json* culprit : ObjectsIn(document, "culprits")) {
      Archive::Node* const node = NodeOf(*culprit, archive);
      if (node == nullptr) continue;
      node->is_culprit = true;
      node->kind = TextIn(*culprit, "kind");
      const auto explanations = ObjectsIn(*culprit, "explanations");
      node->explanation =
          explanations.empty()
              ? ListOf(TextsIn(*culprit, "source_nodes"), kMostOperations)
              : TextIn(*explanations[0], "what");
    }
  }

  // Returns the node that an object is about; null if there is no graph, or no
  // such node in it.
  Archive::Node* NodeOf(const Json& object, Archive* archive) {
    if (archive->nodes.empty()) return nullptr;
    const uint64_t number = NumberIn(object, "node_index");
    const bool is_there = Require(number < archive->nodes.size(), "node_index",
                                  "the number of a node of the graph");
    return is_there ? &archive->nodes[number] : nullptr;
  }

  const std::string& name_;
  absl::Status status_;
  uint64_t laid_out_ = 0;  // By all tables so far.
};

}  // namespace

// A node is known by its number here, and by its key everywhere else in a
// document: the numbers are what a picture follows its edges by.
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

// The size is bounded before anything is parsed, since parsing multiplies it.
absl::StatusOr<Archive> ParseArchive(std::string text,
                                     const std::string& name) {
  if (text.size() > kMostBytes) {
    return InvalidArgument("{}: has {}, expected at most {}", name,
                           CountOf(text.size(), "byte"),
                           CountOf(kMostBytes, "byte"));
  }
  const Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) {
    return InvalidArgument(
        "{}: is not a JSON document, expected one of nodewise ({})", name,
        kDocumentSchema);
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
