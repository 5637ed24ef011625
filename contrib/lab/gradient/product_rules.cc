#include <algorithm>
#include <set>
#include <string>

#include "contrib/lab/gradient/rules.h"
#include "fmt/format.h"
#include "nodewise/ops/linear_algebra.h"
#include "nodewise/ops/matmul.h"

// Products of matrices.

namespace nodewise::gradient {
namespace {

using Sizes = std::vector<int64_t>;

Term Times(Term a, Term b) { return a.writer().Add(ops::MatMul{}, {a, b}); }

// A list on the left is a row, one on the right a column, and the result has no
// side for it.
void MatMulRule(Rule& r) {
  Sizes left = r.x().sizes();
  Sizes right = r.x(1).sizes();
  Sizes result = r.dy().sizes();
  if (left.empty() || right.empty()) return;
  const bool is_row = left.size() == 1;
  const bool is_column = right.size() == 1;
  if (is_row) {
    left.insert(left.begin(), 1);
    result.insert(result.end() - (is_column ? 0 : 1), 1);
  }
  if (is_column) {
    right.push_back(1);
    result.push_back(1);
  }
  const Term a = ReshapeTo(r.x(), left);
  const Term b = ReshapeTo(r.x(1), right);
  const Term dy = ReshapeTo(r.dy(), result);
  r.Give(0, ReshapeTo(SumTo(Times(dy, SwapLast(b)), left), r.x().sizes()));
  r.Give(1, ReshapeTo(SumTo(Times(SwapLast(a), dy), right), r.x(1).sizes()));
}

void GemmRule(Rule& r) {
  const auto& op = r.As<ops::Gemm>();
  const Term a = op.transA ? SwapLast(r.x()) : r.x();
  const Term b = op.transB ? SwapLast(r.x(1)) : r.x(1);
  const Term da = Times(r.dy(), SwapLast(b)) * double{op.alpha};
  const Term db = Times(SwapLast(a), r.dy()) * double{op.alpha};
  r.Give(0, op.transA ? SwapLast(da) : da);
  r.Give(1, op.transB ? SwapLast(db) : db);
  if (r.has(2)) r.Give(2, r.dy() * double{op.beta});
}

// The sides of an equation by operand, and those of the result.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

Equation ParseEquation(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  Equation equation;
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  if (arrow != std::string::npos) {
    equation.result = text.substr(arrow + 2);
  } else {
    // Without a result it has the letters that occur once, in their order.
    std::string letters = left;
    std::sort(letters.begin(), letters.end());
    for (const char each : letters) {
      if (each != ',' && std::count(left.begin(), left.end(), each) == 1) {
        equation.result += each;
      }
    }
  }
  for (size_t at = 0; at != std::string::npos;) {
    const size_t comma = left.find(',', at);
    equation.operands.push_back(left.substr(at, comma - at));
    at = comma == std::string::npos ? comma : comma + 1;
  }
  return equation;
}

bool HasRepeated(const std::string& letters) {
  return std::set<char>(letters.begin(), letters.end()).size() !=
         letters.size();
}

// Each operand's gradient is the sum of products of the cotangent and all other
// operands. Sides that are in this operand alone are repeated.
void EinsumRule(Rule& r) {
  const Equation equation = ParseEquation(r.As<ops::Einsum>().equation.get());
  if (equation.result.find('.') != std::string::npos ||
      equation.operands.size() != r.num_inputs()) {
    return r.Refuse("with \"...\" in its equation");
  }
  for (size_t i = 0; i < r.num_inputs(); ++i) {
    const std::string& wanted = equation.operands[i];
    if (HasRepeated(wanted) || wanted.find('.') != std::string::npos) {
      return r.Refuse("where a letter comes twice in an operand");
    }
    std::vector<Term> factors = {r.dy()};
    std::string sides = equation.result;
    for (size_t k = 0; k < r.num_inputs(); ++k) {
      if (k == i) continue;
      factors.push_back(r.x(k));
      sides += "," + equation.operands[k];
    }
    std::string made;
    Sizes kept;
    const Sizes sizes = r.x(i).sizes();
    for (size_t s = 0; s < sizes.size(); ++s) {
      const bool is_there = sides.find(wanted[s]) != std::string::npos;
      if (is_there) made += wanted[s];
      kept.push_back(is_there ? sizes[s] : 1);
    }
    const Term sum = r.writer().Add(
        ops::Einsum{fmt::format("{}->{}", sides, made)}, factors);
    // A side of 1 may have been repeated.
    Sizes found = sum.sizes();
    Sizes shape;
    for (size_t s = 0, at = 0; s < kept.size(); ++s) {
      const bool is_there = sides.find(wanted[s]) != std::string::npos;
      shape.push_back(is_there && at < found.size() ? found[at++] : 1);
    }
    r.Give(i, SumTo(ReshapeTo(sum, shape), sizes));
  }
}

void InverseRule(Rule& r) {
  const Term turned = SwapLast(r.y());
  r.Give(0, -Times(Times(turned, r.dy()), turned));
}

// The inverse is an operator of onnxruntime's. A matrix that has none has a
// gradient all the same, which is not found.
void DetRule(Rule& r) {
  const Term x = r.x();
  Sizes ones = x.sizes();
  if (ones.size() < 2) return;
  ones[ones.size() - 1] = ones[ones.size() - 2] = 1;
  const Term scale = ReshapeTo(r.dy() * r.y(), ones);
  Network& network = r.writer().network();
  const std::string_view domain =
      AllOperators().FindType(&kTypeTag<ops::Inverse>)->domain;
  if (network.opset(domain) == 0) {
    r.writer().Fail(network.SetOpset(domain, 1));
  }
  r.Give(0, SwapLast(r.writer().Add(ops::Inverse{}, {x})) * scale);
}

constexpr Row kProductRows[] = {
    RuleOf<ops::Det>(&DetRule),       RuleOf<ops::Einsum>(&EinsumRule),
    RuleOf<ops::Gemm>(&GemmRule),     RuleOf<ops::Inverse>(&InverseRule),
    RuleOf<ops::MatMul>(&MatMulRule),
};

}  // namespace

absl::Span<const Row> ProductRows() { return kProductRows; }

}  // namespace nodewise::gradient
