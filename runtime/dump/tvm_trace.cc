#include "nodewise/dump/tvm_trace.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace nodewise {
namespace {

// Returns whether a text is printable ASCII that JSON takes as it is, like most
// names.
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
  });
}

}  // namespace

std::string TraceString(std::string_view text) {
  using Json = nlohmann::json;
  if (IsPlain(text)) return '"' + std::string(text) + '"';
  return Json(std::string(text))
      .dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string TraceMicroseconds(int64_t ns) {
  char text[24];
  char* end = std::to_chars(text, text + sizeof(text), ns / 1000).ptr;
  *end++ = '.';
  int64_t rest = ns % 1000;
  do {
    *end++ = static_cast<char>('0' + rest / 100);
    rest = rest % 100 * 10;
  } while (rest > 0);
  return std::string(text, end);
}

void WriteTvmTrace(const Graph& graph, absl::Span<const NodeTime> times,
                   absl::FunctionRef<void(std::string_view)> write) {
  constexpr size_t kPieceBytes = 4096;
  std::string text = R"({"displayTimeUnit": "ns", "traceEvents": [)";
  std::string now = TraceMicroseconds(0);
  int64_t now_ns = 0;
  std::string node;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    node.assign(R"(, "tid": 1, "pid": 1, "name": )")
        .append(TraceString(graph.nodes[n].name))
        .append(R"(, "ph": ")");
    text.append(n == 0 ? R"({"ts": )" : R"(, {"ts": )").append(now);
    text.append(node).append(R"(B"}, {"ts": )");
    if (n < times.size() && times[n].Duration() > 0) {
      now_ns += times[n].Duration();
      now = TraceMicroseconds(now_ns);
    }
    text.append(now).append(node).append(R"(E"})");
    if (text.size() < kPieceBytes) continue;
    write(text);
    text.clear();
  }
  write(text.append("]}"));
}

}  // namespace nodewise
