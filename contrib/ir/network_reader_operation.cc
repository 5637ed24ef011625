#include "contrib/ir/network_editor.h"
#include "contrib/ir/network_reader.h"
#include "contrib/ir/tensor_text.h"
#include "contrib/ir/type_text.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Bodies within bodies; each is a call of the reader within another.
constexpr int kMostDepth = 32;

// "[a, b]", each taken by `take`.
template <typename T, typename Take>
absl::StatusOr<std::vector<T>> TakeList(std::string_view* text, Take take) {
  std::vector<T> items;
  if (!TakeChar(text, '[')) return Expected("[", *text);
  if (TakeChar(text, ']')) return items;
  do {
    NODEWISE_ASSIGN_OR_RETURN(T item, take(text));
    items.push_back(std::move(item));
  } while (TakeChar(text, ','));
  if (!TakeChar(text, ']')) return Expected(", or ]", *text);
  return items;
}

// A word, or anything in quotes.
absl::StatusOr<std::string> TakeName(std::string_view* text) {
  const std::string_view word = TakeWord(text);
  if (!word.empty()) return std::string(word);
  return TakeQuoted(text);
}

}  // namespace

absl::Status NetworkReader::ReadOperation() {
  const std::string_view start = text_;
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t number, ReadNumber('#'));
  const OperationId id{number};
  Operation operation;
  operation.id = id;
  NODEWISE_ASSIGN_OR_RETURN(operation.name, TakeQuoted(&text_));
  NODEWISE_RETURN_IF_ERROR(Need('='));
  SkipBlanks(&text_);
  const std::string_view kind = text_;
  NODEWISE_ASSIGN_OR_RETURN(const OperatorDef* def, ReadKind());
  NODEWISE_RETURN_IF_ERROR(Need('('));
  if (!TakeChar(&text_, ')')) {
    NODEWISE_ASSIGN_OR_RETURN(operation.inputs, ReadValueIds());
    NODEWISE_RETURN_IF_ERROR(Need(')'));
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedAttr> attrs, ReadAttrs());
  if (def != nullptr) {
    auto made = MakeAttrs(*def, attrs);
    if (!made.ok()) {
      text_ = kind;
      return made.status();
    }
    operation.attrs = *std::move(made);
  }
  NODEWISE_RETURN_IF_ERROR(ReadOutputsOf(id, &operation));
  NODEWISE_RETURN_IF_ERROR(ReadBarriersOf(id, &operation));
  if (TakeKeyword("id")) {
    NODEWISE_ASSIGN_OR_RETURN(operation.id, ReadOperationId());
  }
  NODEWISE_RETURN_IF_ERROR(MakeRoom(start, 0, size_t{number} + 1));
  if (data_.operations[number].has_value()) {
    text_ = start;
    return Expected("a number that no operation has yet", start);
  }
  data_.operations[number] = std::move(operation);
  as_written_.push_back(id);
  return absl::OkStatus();
}

// Null for "none", an operation without an operator.
absl::StatusOr<const OperatorDef*> NetworkReader::ReadKind() {
  if (TakeKeyword("none")) return nullptr;
  const std::string_view start = text_;
  NODEWISE_ASSIGN_OR_RETURN(const std::string name, TakeName(&text_));
  NODEWISE_RETURN_IF_ERROR(Need('@'));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t version, TakeInteger(&text_));
  std::string domain;
  if (TakeKeyword("of")) {
    NODEWISE_ASSIGN_OR_RETURN(domain, TakeQuoted(&text_));
  }
  const OperatorDef* const def =
      version < 1 || version > INT32_MAX
          ? nullptr
          : ops_.Find(domain, name, static_cast<int>(version));
  if (def != nullptr) return def;
  text_ = start;
  return absl::InvalidArgumentError(fmt::format(
      "there is no operator {}@{} of domain \"{}\"{}", Shortened(name), version,
      Shortened(domain), DidYouMean(name, ops_.Names())));
}

absl::StatusOr<std::vector<NamedAttr>> NetworkReader::ReadAttrs() {
  std::vector<NamedAttr> attrs;
  if (!TakeChar(&text_, '{') || TakeChar(&text_, '}')) return attrs;
  do {
    NamedAttr attr;
    NODEWISE_ASSIGN_OR_RETURN(attr.name, TakeName(&text_));
    NODEWISE_RETURN_IF_ERROR(Need(':'));
    NODEWISE_ASSIGN_OR_RETURN(attr.value, ReadAttrValue());
    attrs.push_back(std::move(attr));
  } while (TakeChar(&text_, ','));
  NODEWISE_RETURN_IF_ERROR(Need('}'));
  return attrs;
}

absl::StatusOr<AttrValue> NetworkReader::ReadAttrValue() {
  SkipBlanks(&text_);
  const std::string_view start = text_;
  const std::string_view kind = TakeWord(&text_);
  if (kind == "int") return TakeInteger(&text_);
  if (kind == "float") return TakeFloat(&text_);
  if (kind == "string") return TakeQuoted(&text_);
  if (kind == "ints") return TakeList<int64_t>(&text_, &TakeInteger);
  if (kind == "floats") return TakeList<float>(&text_, &TakeFloat);
  if (kind == "strings") return TakeList<std::string>(&text_, &TakeQuoted);
  if (kind == "tensor") return TakeTensor(&text_);
  if (kind == "graph") return ReadGraph();
  text_ = start;
  return Expected("int, float, string, ints, floats, strings, tensor or graph",
                  start);
}

absl::StatusOr<AttrValue> NetworkReader::ReadGraph() {
  SkipBlanks(&text_);
  const std::string_view start = text_;
  NODEWISE_ASSIGN_OR_RETURN(const int64_t captures, TakeInteger(&text_));
  if (captures < 0 || captures >= UINT32_MAX) {
    text_ = start;
    return Expected("a number of captured values", start);
  }
  Subgraph graph;
  graph.captures = static_cast<uint32_t>(captures);
  if (TakeKeyword("none")) return graph;
  if (budget_.depth >= kMostDepth) {
    return Expected("bodies that are not nested as deep", text_);
  }
  ++budget_.depth;
  NODEWISE_ASSIGN_OR_RETURN(NetworkData data,
                            NetworkReader(&text_, ops_, &budget_).Read());
  --budget_.depth;
  auto valid = Network::FromData(data);
  if (valid.ok()) {
    graph.body = ShareNetwork(*std::move(valid));
  } else {
    graph.body = NetworkEditor::Unverified(std::move(data));
    budget_.damaged.insert(graph.body.get());
  }
  return graph;
}

absl::Status NetworkReader::ReadOutputsOf(OperationId id,
                                          Operation* operation) {
  if (!TakeChar(&text_, '-') || !TakeChar(&text_, '>')) {
    return Expected("-> and the outputs", text_);
  }
  if (TakeKeyword("none")) return absl::OkStatus();
  do {
    NODEWISE_RETURN_IF_ERROR(ReadOutput(id, operation));
  } while (TakeChar(&text_, ','));
  return absl::OkStatus();
}

// A number with a name is a value that is made here; without, one that is
// written elsewhere.
absl::Status NetworkReader::ReadOutput(OperationId id, Operation* operation) {
  SkipBlanks(&text_);
  const std::string_view start = text_;
  NODEWISE_ASSIGN_OR_RETURN(const ValueId output, ReadValueId());
  const auto slot = static_cast<uint32_t>(operation->outputs.size());
  operation->outputs.push_back(output);
  SkipBlanks(&text_);
  if (output == kNoValue || text_.substr(0, 1) != "\"") return absl::OkStatus();
  NetworkValue value;
  value.id = output;
  value.kind = NetworkValue::Kind::kOutput;
  value.producer = id;
  value.slot = slot;
  NODEWISE_ASSIGN_OR_RETURN(const bool has_type, ReadNameAndType(&value));
  if (has_type) {
    NODEWISE_RETURN_IF_ERROR(ReadFoundAndElements(&value));
  }
  NODEWISE_RETURN_IF_ERROR(Define(start, Index(output), std::move(value)));
  if (!has_type) untyped_.push_back(output);
  return absl::OkStatus();
}

absl::Status NetworkReader::ReadBarriersOf(OperationId id,
                                           Operation* operation) {
  if (!TakeKeyword("barrier")) return Expected("barrier", text_);
  const bool is_reference = TakeKeyword("ref");
  SkipBlanks(&text_);
  const std::string_view start = text_;
  NODEWISE_ASSIGN_OR_RETURN(operation->barrier, ReadValueId());
  if (!is_reference && operation->barrier != kNoValue) {
    NetworkValue barrier;
    barrier.id = operation->barrier;
    barrier.kind = NetworkValue::Kind::kBarrier;
    barrier.producer = id;
    NODEWISE_RETURN_IF_ERROR(
        Define(start, Index(operation->barrier), std::move(barrier)));
  }
  if (!TakeKeyword("after")) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(operation->after, ReadValueIds());
  return absl::OkStatus();
}

}  // namespace nodewise
