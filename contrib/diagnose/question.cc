#include "nodewise/diagnose/question.h"

#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr Method kMethods[] = {Method::kAuto, Method::kIntermediate,
                               Method::kBisect, Method::kRecursive,
                               Method::kReplay};

}  // namespace

Reference ModelReference(std::string path) {
  Reference reference;
  reference.kind = Reference::Kind::kModel;
  reference.spec.path = std::move(path);
  return reference;
}

Reference BuildReference(TargetSpec spec) {
  Reference reference;
  reference.kind = Reference::Kind::kBuild;
  reference.spec = std::move(spec);
  return reference;
}

std::string_view NameOf(Method method) {
  switch (method) {
    case Method::kAuto:
      return "auto";
    case Method::kIntermediate:
      return "intermediate";
    case Method::kBisect:
      return "bisect";
    case Method::kRecursive:
      return "recursive";
    case Method::kReplay:
      return "replay";
  }
  return "";
}

absl::StatusOr<Method> ParseMethod(const std::string& name) {
  std::vector<std::string> names;
  for (const Method method : kMethods) {
    if (name == NameOf(method)) return method;
    names.emplace_back(NameOf(method));
  }
  return absl::InvalidArgumentError(
      fmt::format("found \"{}\", expected one of {}{}", Printable(name),
                  ListOf(names), DidYouMean(name, names)));
}

}  // namespace nodewise
