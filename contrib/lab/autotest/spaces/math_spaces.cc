// Signals, sums of products that an equation names, squares, n-grams.

#include <algorithm>

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {
namespace {

// Most lengths are not powers of two, and a fast transform takes another way
// for these.
constexpr int64_t kMostSignal = 33;

// The last side holds the parts of a number: one if it is real, two if not. One
// half of a spectrum is enough for real signals alone, so that a transform that
// is one-sided reads one part, and its inverse two.
void DrawDft(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(1, 3, false);
  const auto rank = std::ssize(shape) + 1;
  const bool is_inverse = draw.Chance(30);
  const bool is_onesided = draw.Chance(30);
  draw.AttrUnless("inverse", is_inverse, 0, 20);
  draw.AttrUnless("onesided", is_onesided, 0, 20);
  int64_t parts = draw.Chance() ? 2 : 1;
  if (is_onesided) parts = is_inverse ? 2 : 1;
  int64_t axis = draw.Between(0, rank - 2);
  for (int64_t& side : shape) side = std::min(side, kMostSignal);
  const int64_t side = shape[static_cast<size_t>(axis)];
  shape.push_back(parts);
  // The default axis is the last side but one where the axis is an input, and
  // the second side where it is an attribute.
  const bool is_input = draw.def().since >= 20;
  const bool is_usual = axis == (is_input ? rank - 2 : 1) && draw.Chance();
  if (draw.Chance(20)) axis -= rank;
  if (!is_input && !is_usual) draw.Attr("axis", axis);
  // The results of infinities depend on the algorithm.
  draw.Input(draw.Float(), shape, InputDomain::Within(-4, 4));
  const DLDataType of_length = draw.One({kInt64, kInt32});
  if (draw.Chance(40)) {
    // The signal is cut to the length, or filled up with zeros.
    draw.Scalar(of_length, std::max<int64_t>(side + draw.Between(0, 6) - 2, 1));
  } else {
    draw.NoInput();
  }
  if (is_input && !is_usual) draw.Scalar(kInt64, axis);
}

// The length of a frame is that of the window, or told; a signal has at least
// one frame.
void DrawStft(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const int64_t frame = draw.Side(kMostSignal);
  const bool is_onesided = draw.Chance(70);
  draw.AttrUnless("onesided", is_onesided, 1);
  const int64_t parts = !is_onesided && draw.Chance() ? 2 : 1;
  draw.Input(dtype, {draw.Between(1, 2), frame + draw.Between(0, 40), parts},
             InputDomain::Within(-4, 4));
  draw.Numbers(draw.One({kInt64, kInt32}), {},
               {static_cast<double>(draw.Between(1, 9))});
  const bool has_window = draw.Chance();
  draw.WeightIf(has_window, dtype, {frame}, InputDomain::Within(-1, 1));
  if (!has_window || draw.Chance()) {
    draw.Scalar(draw.One({kInt64, kInt32}), frame);
  }
}

// Letters go with sides that all terms agree on. A letter may come twice in one
// term, which then reads a diagonal, and may be missing on the right, which
// sums it. Without an arrow the result has the letters that come once, in
// order.
void DrawEinsum(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Chance(15) ? draw.Number() : draw.Float();
  const int64_t letters = draw.Between(1, 5);
  Ints sides;
  for (int64_t i = 0; i < letters; ++i) {
    sides.push_back(draw.Chance(20) ? draw.Side(9) : draw.Between(1, 4));
  }
  const bool has_ellipsis = draw.Chance(20);
  const Ints more = has_ellipsis ? draw.Sides(0, 2, false) : Ints{};
  std::string equation;
  std::vector<bool> is_used(sides.size());
  const int64_t count = draw.Between(1, 3);
  for (int64_t term = count; term > 0; --term) {
    const Choices::Group group(draw.choices());
    if (!equation.empty()) equation += draw.Chance(20) ? ", " : ",";
    Ints shape;
    if (has_ellipsis) {
      equation += "...";
      for (const int64_t side : more)
        shape.push_back(std::min<int64_t>(side, 4));
    }
    for (int64_t i = draw.Between(1, 3); i > 0; --i) {
      const auto letter = static_cast<size_t>(draw.Between(0, letters - 1));
      equation += static_cast<char>('a' + letter);
      shape.push_back(sides[letter]);
      is_used[letter] = true;
    }
    // With three terms, any two may be multiplied first.
    draw.Input(dtype, shape,
               count > 2 ? InputDomain::Within(-4, 4) : InputDomain());
  }
  if (draw.Chance(75)) {
    equation += "->";
    if (has_ellipsis) equation += "...";
    for (const int64_t letter : draw.Order(sides.size())) {
      const auto at = static_cast<size_t>(letter);
      if (is_used[at] && draw.Chance(60)) {
        equation += static_cast<char>('a' + letter);
      }
    }
  }
  draw.Attr("equation", equation);
}

// Batches of small matrices: errors of a determinant grow with the size.
void DrawSquare(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  Ints shape = draw.Sides(0, 2);
  for (int64_t& side : shape) side = std::min<int64_t>(side, 4);
  const int64_t side = draw.Between(1, 6);
  shape.insert(shape.end(), {side, side});
  draw.Input(dtype, shape, InputDomain::Within(-4, 4));
}

// Pools of n-grams of lengths 1, 2 and 3, over few words, so that inputs
// contain many of them. An n-gram is drawn as a number with a digit for each
// word, since all have to be different.
void DrawNgrams(ConfigurationDraw& draw) {
  constexpr int64_t kWords = 4;
  Ints pool;
  Ints begins;
  int64_t ngrams = 0;
  for (int64_t length = 1; length <= 3; ++length) {
    begins.push_back(std::ssize(pool));
    const int64_t most = length == 1 ? kWords : 2 * kWords;
    const int64_t count = draw.Between(length == 1 ? 1 : 0, 3);
    ngrams += count;
    for (int64_t number : draw.Distinct(most, count)) {
      for (int64_t i = 0; i < length; ++i, number /= kWords) {
        pool.push_back(number % kWords);
      }
    }
  }
  const int64_t least = draw.Between(1, 3);
  draw.Attr("min_gram_length", least);
  draw.Attr("max_gram_length", draw.Between(least, 3));
  draw.Attr("max_skip_count", draw.Between(0, 3));
  draw.Attr("mode", draw.One<std::string>({"TF", "IDF", "TFIDF"}));
  draw.Attr("ngram_counts", begins);
  draw.Attr("ngram_indexes", draw.Order(static_cast<size_t>(ngrams)));
  draw.Attr("pool_int64s", pool);
  if (draw.Chance()) {
    std::vector<float> weights;
    for (int64_t i = 0; i < ngrams; ++i) {
      weights.push_back(draw.One<float>({1, 0.5F, 2, 0.25F}));
    }
    draw.Attr("weights", weights);
  }
  const int64_t length = draw.Between(1, 12);
  draw.Input(draw.One({kInt64, kInt32}),
             draw.Chance() ? Ints{draw.Between(1, 3), length} : Ints{length},
             InputDomain::Whole(0, kWords));
}

constexpr OperatorSpace kMathSpaces[] = {{&DrawDft, "DFT"},
                                         {&DrawSquare, "Det Inverse"},
                                         {&DrawEinsum, "Einsum"},
                                         {&DrawStft, "STFT"},
                                         {&DrawNgrams, "TfIdfVectorizer"}};

}  // namespace

absl::Span<const OperatorSpace> MathSpaces() { return kMathSpaces; }

}  // namespace nodewise
