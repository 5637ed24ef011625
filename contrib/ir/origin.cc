// Reads what exporters say of where an operation is from: the notes that they
// leave beside a node, in which stack traces and lists of modules are written
// as each exporter likes.

#include "nodewise/ir/origin.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/ir/network.h"

namespace nodewise {
namespace {

using Path = std::vector<std::string>;

constexpr std::string_view kScopesKey = "pkg.torch.onnx.name_scopes";
constexpr std::string_view kClassesKey = "pkg.torch.onnx.class_hierarchy";
constexpr std::string_view kNamespaceKey = "namespace";

template <typename List>
bool IsAmong(const List& list, std::string_view item) {
  return std::ranges::find(list, item) != list.end();
}

std::string_view FirstPart(std::string_view text, std::string_view separator) {
  return text.substr(0, std::min(text.find(separator), text.size()));
}

std::string_view LastPart(std::string_view text, char separator) {
  return text.substr(text.rfind(separator) + 1);  // npos + 1 is 0.
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

bool Consume(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// Lines are counted from 1.
bool ReadLineNumber(std::string_view text, uint32_t* line) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, *line);
  return read.ec == std::errc() && read.ptr == end && *line > 0;
}

// `File "net.py", line 41, in forward`, as Python writes it.
std::optional<SourceLine> ReadPythonFrame(std::string_view text) {
  if (!Consume("File \"", &text)) return std::nullopt;
  SourceLine frame;
  frame.file = std::string(FirstPart(text, "\", line "));
  text.remove_prefix(frame.file.size());
  if (!Consume("\", line ", &text)) return std::nullopt;
  const std::string_view number = FirstPart(text, ",");
  if (!ReadLineNumber(number, &frame.line)) return std::nullopt;
  text.remove_prefix(number.size());
  if (Consume(", in ", &text)) frame.function = std::string(text);
  return frame;
}

// "net.py(41): forward", as TorchScript writes it.
std::optional<SourceLine> ReadTorchScriptFrame(std::string_view text) {
  const size_t end = text.rfind("): ");
  if (end == std::string_view::npos) return std::nullopt;
  const size_t begin = text.rfind('(', end);
  if (begin == std::string_view::npos || begin == 0) return std::nullopt;
  SourceLine frame;
  const std::string_view number = text.substr(begin + 1, end - begin - 1);
  if (!ReadLineNumber(number, &frame.line)) return std::nullopt;
  frame.file = std::string(text.substr(0, begin));
  frame.function = std::string(text.substr(end + 3));
  return frame;
}

// "net.py:41 (forward)" or "net.py:41:8 (forward)", as jax writes it.
std::optional<SourceLine> ReadJaxFrame(std::string_view text) {
  const size_t begin = text.rfind(" (");
  if (!text.ends_with(')') || begin == std::string_view::npos) {
    return std::nullopt;
  }
  SourceLine frame;
  frame.function = std::string(text.substr(begin + 2));
  frame.function.pop_back();
  text = text.substr(0, begin);
  // The last number is the column, if there are two.
  uint32_t number = 0;
  for (size_t colon = text.rfind(':');
       colon != std::string_view::npos && colon > 0 &&
       ReadLineNumber(text.substr(colon + 1), &number);
       colon = text.rfind(':')) {
    frame.line = number;
    text = text.substr(0, colon);
  }
  if (frame.line == 0) return std::nullopt;
  frame.file = std::string(text);
  return frame;
}

// Whether a frame is of what runs models and not of what defines one. Models
// are installed packages, too (transformers, timm): their lines say more than
// that of the script that calls the model.
bool IsFrameworkFrame(const SourceLine& frame) {
  if (frame.file.starts_with('<')) return true;  // "<eval_with_key>.24"
  std::string file = frame.file;
  std::ranges::replace(file, '\\', '/');
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const size_t at = file.rfind(folder);
    if (at == std::string::npos) continue;
    constexpr std::array<std::string_view, 12> kFrameworks = {
        "torch",   "functorch", "torch_xla", "onnxscript",
        "onnx_ir", "jax",       "jaxlib",    "jax2onnx",
        "flax",    "equinox",   "keras",     "tensorflow"};
    const auto inside = std::string_view(file).substr(at + folder.size());
    return IsAmong(kFrameworks, FirstPart(inside, "/"));
  }
  // A framework that runs from its own sources, and Python's own modules.
  constexpr std::array<std::string_view, 9> kFolders = {
      "/torch/nn/",     "/torch/_",    "/torch/fx/",    "/torch/onnx/",
      "/torch/export/", "/torch/jit/", "/torch/utils/", "/torch/functional.py",
      "/lib/python3"};
  return std::ranges::any_of(kFolders, [&](std::string_view folder) {
    return file.find(folder) != std::string::npos;
  });
}

// Python's traces have the innermost frame last, and the code below each.
std::optional<SourceLine> FindInPythonTrace(
    const std::vector<std::string_view>& lines) {
  std::optional<SourceLine> found;
  for (size_t i = 0; i < lines.size(); ++i) {
    auto frame = ReadPythonFrame(lines[i]);
    if (!frame.has_value() || IsFrameworkFrame(*frame)) continue;
    const bool has_code =
        i + 1 < lines.size() && !ReadPythonFrame(lines[i + 1]).has_value();
    if (has_code) frame->code = std::string(lines[i + 1]);
    found = std::move(frame);
  }
  return found;
}

// Exporters put their own prefix before the last dot.
bool IsTraceKey(std::string_view key) {
  constexpr std::array<std::string_view, 5> kNames = {
      "stack_trace", "stacktrace", "traceback", "jax_traceback",
      kDescriptionKey};
  return IsAmong(kNames, LastPart(key, '.'));
}

// jax2onnx's short form of a trace: "function:line".
bool IsCallKey(std::string_view key) {
  return LastPart(key, '.') == "callsite";
}

const std::string* FindNote(const Origin& origin, std::string_view key) {
  for (const auto& [name, value] : origin.notes) {
    if (name == key) return value.get();
  }
  return nullptr;
}

// A list of strings as Python prints it: ['', 'layers', "layer's"].
Path ReadPythonList(std::string_view text) {
  Path items;
  size_t i = 0;
  while (i < text.size()) {
    const char quote = text[i++];
    if (quote != '\'' && quote != '"') continue;
    std::string item;
    while (i < text.size() && text[i] != quote) {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      item += text[i++];
    }
    ++i;
    items.push_back(std::move(item));
  }
  return items;
}

Path PartsOf(std::string_view text, char separator) {
  Path parts;
  for (const std::string_view part : Split(text, separator)) {
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

// The scopes are the names of the modules around a node, each with those around
// it, and then the node's own: the last but one has the whole path.
// "layers.0.conv@1" -> layers, 0, conv. Torch counts the calls of a module
// after the @.
Path PathOfScopes(const Path& scopes) {
  if (scopes.size() < 2) return {};
  return PartsOf(FirstPart(scopes[scopes.size() - 2], "@"), '.');
}

// torch's items have a class: ": Net/stem: torch.nn.Conv2d/conv2d:
// aten.conv2d". Others, as Model Explorer reads them, have only names:
// "encoder/attention".
Path PathOfNamespace(std::string_view text) {
  if (text.find(": ") == std::string_view::npos) return PartsOf(text, '/');
  Path scopes;
  for (const std::string_view item : Split(text, '/')) {
    scopes.emplace_back(FirstPart(item, ": "));
  }
  return PathOfScopes(scopes);
}

// "['net.Net', 'torch.nn.modules.conv.Conv2d', 'aten.conv2d']" -> Net, Conv2d.
Path PathOfClasses(const Path& classes) {
  Path path;
  for (size_t i = 0; i + 1 < classes.size(); ++i) {
    path.emplace_back(LastPart(classes[i], '.'));
  }
  return path;
}

}  // namespace

std::string SourceLine::ToString() const {
  // Models are exported on Windows, too.
  const std::string_view name = LastPart(LastPart(file, '/'), '\\');
  std::string text = name.empty() ? fmt::format("line {}", line)
                                  : fmt::format("{}:{}", name, line);
  if (!function.empty()) text += " in " + function;
  if (!code.empty()) text += ": " + code;
  return text;
}

std::optional<SourceLine> FindSourceLine(std::string_view trace) {
  std::vector<std::string_view> lines = Split(trace, '\n');
  for (std::string_view& line : lines) line = Trimmed(line);
  auto found = FindInPythonTrace(lines);
  if (found.has_value()) return found;
  // Traces of TorchScript and jax have the innermost frame first.
  for (const std::string_view line : lines) {
    for (const auto read : {&ReadTorchScriptFrame, &ReadJaxFrame}) {
      auto frame = read(line);
      if (frame.has_value() && !IsFrameworkFrame(*frame)) return frame;
    }
  }
  return std::nullopt;
}

bool IsOriginKey(std::string_view key) {
  return key == kScopesKey || key == kClassesKey || key == kNamespaceKey ||
         IsTraceKey(key) || IsCallKey(key);
}

// A trace says more than a call site, wherever it stands among the notes.
std::optional<SourceLine> SourceLineOf(const Origin& origin) {
  for (const auto& [key, value] : origin.notes) {
    if (!IsTraceKey(key)) continue;
    auto found = FindSourceLine(*value);
    if (found.has_value()) return found;
  }
  for (const auto& [key, value] : origin.notes) {
    const size_t colon = value->rfind(':');
    if (!IsCallKey(key) || colon == std::string::npos) continue;
    SourceLine call;
    call.function = value->substr(0, colon);
    if (ReadLineNumber(value->substr(colon + 1), &call.line)) return call;
  }
  return std::nullopt;
}

std::optional<Path> ModulePathOf(const Origin& origin) {
  if (const std::string* const scopes = FindNote(origin, kScopesKey)) {
    return PathOfScopes(ReadPythonList(*scopes));
  }
  if (const std::string* const text = FindNote(origin, kNamespaceKey)) {
    return PathOfNamespace(*text);
  }
  if (const std::string* const classes = FindNote(origin, kClassesKey)) {
    return PathOfClasses(ReadPythonList(*classes));
  }
  return std::nullopt;
}

std::string OperationSource::ToString() const {
  if (!line.has_value()) return module;
  return module.empty() ? line->ToString()
                        : fmt::format("{}, {}", module, line->ToString());
}

std::optional<OperationSource> SourceOf(const Operation& operation) {
  if (operation.origin == nullptr) return std::nullopt;
  OperationSource source;
  source.operation = operation.name;
  source.line = SourceLineOf(*operation.origin);
  if (const auto path = ModulePathOf(*operation.origin)) {
    source.module = fmt::format("{}", fmt::join(*path, "/"));
  }
  if (source.module.empty() && !source.line.has_value()) return std::nullopt;
  return source;
}

std::vector<OperationSource> SourcesOf(
    absl::Span<const std::string> operations,
    absl::Span<const std::shared_ptr<const Network>> networks) {
  std::vector<OperationSource> sources;
  for (const std::string& name : operations) {
    for (const auto& network : networks) {
      if (network == nullptr || !network->HasOperation(name)) continue;
      auto source = SourceOf(network->operation(*network->FindOperation(name)));
      if (!source.has_value()) continue;
      sources.push_back(*std::move(source));
      break;
    }
  }
  return sources;
}

// Operations of one line of a program have one text; the first of them gives
// it its place.
std::vector<std::string> TextsOf(absl::Span<const OperationSource> sources) {
  std::vector<std::string> texts;
  for (const OperationSource& source : sources) {
    std::string text = source.ToString();
    if (!IsAmong(texts, text)) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace nodewise
