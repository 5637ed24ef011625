#include "contrib/onnx/function_body.h"

#include <algorithm>
#include <utility>

#include "nodewise/support/check.h"

namespace nodewise {
namespace {

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

// The parts between the commas that stand in no brackets.
std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> parts;
  if (Stripped(text).empty()) return parts;
  int depth = 0;
  size_t first = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) {
      depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
      if (text[i] != ',' || depth > 0) continue;
    }
    parts.emplace_back(Stripped(text.substr(first, i - first)));
    first = i + 1;
  }
  return parts;
}

// Takes what stands between the two marks off the front, which must begin with
// the first of them.
std::string_view TakeBetween(char begin, char end, std::string_view* text) {
  NODEWISE_CHECK(!text->empty() && text->front() == begin);
  const size_t last = text->find(end);
  NODEWISE_CHECK(last != std::string_view::npos);
  const std::string_view inside = text->substr(1, last - 1);
  text->remove_prefix(last + 1);
  return inside;
}

BodyStatement ParseLine(std::string_view line) {
  BodyStatement statement;
  const size_t equals = line.find(" = ");
  NODEWISE_CHECK(equals != std::string_view::npos);
  statement.outputs = SplitList(line.substr(0, equals));
  line.remove_prefix(equals + 3);
  const size_t op_end = line.find_first_of("<(");
  NODEWISE_CHECK(op_end != std::string_view::npos);
  statement.op = std::string(line.substr(0, op_end));
  const size_t dot = statement.op.rfind('.');
  if (dot != std::string::npos) {
    statement.domain = statement.op.substr(0, dot);
    statement.op.erase(0, dot + 1);
  }
  line.remove_prefix(op_end);
  if (line.front() == '<') {
    for (const std::string& part : SplitList(TakeBetween('<', '>', &line))) {
      if (part == "*") {
        statement.attributes.emplace_back(part, "");
        continue;
      }
      const size_t split = part.find('=');
      NODEWISE_CHECK(split != std::string::npos);
      statement.attributes.emplace_back(part.substr(0, split),
                                        part.substr(split + 1));
    }
  }
  statement.inputs = SplitList(TakeBetween('(', ')', &line));
  line = Stripped(line);
  if (line.empty()) return statement;
  constexpr std::string_view kIf = "if ";
  NODEWISE_CHECK(line.starts_with(kIf));
  statement.condition = std::string(line.substr(kIf.size()));
  return statement;
}

}  // namespace

std::vector<BodyStatement> ParseBody(std::string_view body) {
  std::vector<BodyStatement> statements;
  std::string line;
  while (!body.empty()) {
    const size_t end = std::min(body.find('\n'), body.size());
    if (!line.empty()) line += ' ';
    line += Stripped(body.substr(0, end));
    body.remove_prefix(std::min(end + 1, body.size()));
    // A statement goes on as long as its inputs are not closed.
    if (line.find(')') == std::string::npos || line.ends_with(" and") ||
        line.ends_with(" if")) {
      continue;
    }
    statements.push_back(ParseLine(std::exchange(line, "")));
  }
  NODEWISE_CHECK(line.empty());
  return statements;
}

}  // namespace nodewise
