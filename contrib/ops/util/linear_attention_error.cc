#include "contrib/ops/util/linear_attention_error.h"

#include <cmath>

#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

// Roundings of the exponential and the multiplication by it.
constexpr double kDecayRoundings = 5;
// Covers products of rounding errors, which the sums leave out.
constexpr double kSlack = 1.01;

double NormOfList(const double* list, int64_t n) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += list[i] * list[i];
  return std::sqrt(squares);
}

// Returns the smaller of the two; NaN stays NaN.
double ExpectedOf(double proved, double expected) {
  return proved < expected ? proved : expected;
}

}  // namespace

void StateError::Setting::Resize(size_t outputs, size_t states) const {
  output->proved.resize(outputs);
  output->expected.resize(outputs);
  state->proved.resize(states);
  state->expected.resize(states);
}

StateError::StateError(const Setting& setting)
    : setting_(setting),
      dtype_(UnitRoundoff(setting.dtype) > UnitRoundoff(setting.state_dtype)
                 ? setting.dtype
                 : setting.state_dtype),
      u_(UnitRoundoff(dtype_)),
      columns_(static_cast<size_t>(setting.value_size)) {}

SumOfTerms StateError::SumOf(const double* state, const double* weights,
                             size_t m) const {
  SumOfTerms sum{static_cast<double>(setting_.key_size)};
  for (int64_t d = 0; d < setting_.key_size; ++d) {
    const double term =
        weights[d] * state[static_cast<size_t>(d * setting_.value_size) + m];
    sum.absolute += std::fabs(term);
    sum.squares += term * term;
    sum.result += term;
  }
  return sum;
}

double StateError::NormOf(const double* state, size_t m) const {
  double squares = 0;
  for (int64_t d = 0; d < setting_.key_size; ++d) {
    const double x = state[static_cast<size_t>(d * setting_.value_size) + m];
    squares += x * x;
  }
  return std::sqrt(squares);
}

void StateError::BeginStep(const double* state, const double* k,
                           double largest) {
  state_ = state;
  k_ = k;
  key_norm_ = NormOfList(k, setting_.key_size);
  for (size_t m = 0; m < columns_.size(); ++m) {
    columns_[m].norm = setting_.decays ? NormOf(state, m) : 0;
    columns_[m].growth = largest * (1 + u_ * (kDecayRoundings + 2));
    columns_[m].written = {0, 0};
  }
}

void StateError::AddCorrection(size_t m, double beta, double difference) {
  Column& column = columns_[m];
  const SumBound sum = BoundSum(dtype_, SumOf(state_, k_, m));
  const double size = std::fabs(beta);
  const double roundings =
      u_ * std::fabs(difference) + HalfUlp(dtype_, difference);
  column.written.proved = size * (sum.proved + roundings);
  column.written.expected = size * (sum.expected + roundings);
  const double square = key_norm_ * key_norm_;
  const auto n = static_cast<double>(setting_.key_size);
  column.growth *= std::max(1.0, std::fabs(1 - beta * square)) +
                   u_ * (n + 4) * size * square;
}

void StateError::EndStep(const double* state, const double* written) {
  const double tiny = 4 * HalfUlp(dtype_, 0) *
                      std::sqrt(static_cast<double>(setting_.key_size));
  for (size_t m = 0; m < columns_.size(); ++m) {
    Column& column = columns_[m];
    const double of_product = 2 * u_ * std::fabs(written[m]) * key_norm_;
    const double of_state =
        u_ * (kDecayRoundings * column.norm + NormOf(state, m));
    const double rest = of_product + of_state + tiny;
    column.proved = column.growth * column.proved +
                    kSlack * (key_norm_ * column.written.proved + rest);
    column.expected =
        std::hypot(column.growth * column.expected,
                   kSlack * (key_norm_ * column.written.expected + rest));
  }
}

void StateError::BoundRead(const double* state, const double* q, double scale,
                           int64_t to) const {
  const double norm = NormOfList(q, setting_.key_size);
  const double size = std::fabs(scale);
  for (size_t m = 0; m < columns_.size(); ++m) {
    SumOfTerms sum = SumOf(state, q, m);
    sum.terms += 2;  // The factor may be taken in first.
    sum.absolute *= size;
    sum.squares *= size * size;
    sum.result *= scale;
    const SumBound fresh = BoundSum(dtype_, sum);
    // The factor, and multiplying by it.
    const double roundings = 4 * u_ * std::fabs(sum.result) +
                             2 * HalfUlp(setting_.dtype, sum.result);
    const double inherited = kSlack * size * norm;
    const size_t i = static_cast<size_t>(to) + m;
    setting_.output->proved[i] =
        fresh.proved + inherited * columns_[m].proved + roundings;
    setting_.output->expected[i] = ExpectedOf(
        setting_.output->proved[i],
        fresh.expected + inherited * kExpectedFactor * columns_[m].expected +
            roundings);
  }
}

void StateError::BoundState(const double* state, int64_t to) const {
  const int64_t count = setting_.key_size * setting_.value_size;
  for (int64_t i = 0; i < count; ++i) {
    const Column& column =
        columns_[static_cast<size_t>(i % setting_.value_size)];
    const auto at = static_cast<size_t>(to + i);
    const double rounding = HalfUlp(setting_.state_dtype, state[i]);
    setting_.state->proved[at] = column.proved + rounding;
    setting_.state->expected[at] =
        ExpectedOf(setting_.state->proved[at],
                   kExpectedFactor * column.expected + rounding);
  }
}

}  // namespace nodewise
