// Reads what exporters say of where an operation is from.

#include "nodewise/ir/origin.h"

#include <algorithm>
#include <array>

#include "contrib/ir/text_parts.h"

namespace nodewise {
namespace {

using Path = std::vector<std::string>;

constexpr std::string_view kScopesKey = "pkg.torch.onnx.name_scopes";
constexpr std::string_view kClassesKey = "pkg.torch.onnx.class_hierarchy";
constexpr std::string_view kNamespaceKey = "namespace";

bool IsTraceKey(std::string_view key) {
  constexpr std::array<std::string_view, 5> kNames = {
      "stack_trace", "stacktrace", "traceback", "jax_traceback",
      kDescriptionKey};
  return std::find(kNames.begin(), kNames.end(), LastPart(key, '.')) !=
         kNames.end();
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

// "layers.0.conv@1" -> layers, 0, conv. Torch counts the calls of a module
// after the @.
Path PathOfModule(std::string_view name) {
  name = name.substr(0, std::min(name.find('@'), name.size()));
  return PartsOf(name, '.');
}

// The names of the modules around a node, each with those around it, and then
// the node's own.
Path PathOfScopes(Path scopes) {
  if (scopes.size() < 2) return {};
  return PathOfModule(scopes[scopes.size() - 2]);
}

// torch's items have a class: ": Net/stem: torch.nn.Conv2d/conv2d:
// aten.conv2d". Others, as Model Explorer reads them, have only names:
// "encoder/attention".
Path PathOfNamespace(std::string_view text) {
  if (!Contains(text, ": ")) return PartsOf(text, '/');
  Path scopes;
  for (const std::string_view item : Split(text, '/')) {
    scopes.emplace_back(item.substr(0, std::min(item.find(": "), item.size())));
  }
  return PathOfScopes(std::move(scopes));
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

bool IsOriginKey(std::string_view key) {
  return key == kScopesKey || key == kClassesKey || key == kNamespaceKey ||
         IsTraceKey(key) || IsCallKey(key);
}

std::optional<SourceLine> SourceLineOf(const Origin& origin) {
  for (const auto& [key, value] : origin.notes) {
    if (!IsTraceKey(key)) continue;
    auto found = FindSourceLine(*value);
    if (found.has_value()) return found;
  }
  for (const auto& [key, value] : origin.notes) {
    if (!IsCallKey(key)) continue;
    SourceLine call;
    const size_t colon = value->rfind(':');
    if (colon == std::string::npos) continue;
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

}  // namespace nodewise
