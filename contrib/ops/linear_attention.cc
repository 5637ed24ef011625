#include "nodewise/ops/linear_attention.h"

#include <algorithm>
#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"

namespace nodewise {

using ops::UpdateRule;
template <>
struct Words<UpdateRule> {
  static constexpr std::pair<UpdateRule, std::string_view> kAll[] = {
      {UpdateRule::kLinear, "linear"},
      {UpdateRule::kGated, "gated"},
      {UpdateRule::kDelta, "delta"},
      {UpdateRule::kGatedDelta, "gated_delta"}};
};

namespace {

// A layer that keeps a state of fixed size in place of all keys: an attention
// that writes each step into a matrix. It begins with the state of an earlier
// call and hands on the one at its end. Steps follow from each other, so that
// only batches and heads can be split among threads.

// Roundings of the exponential and the multiplication by it.
constexpr double kDecayRoundings = 5;
// Covers products of rounding errors, which the sums leave out.
constexpr double kSlack = 1.01;

double NormOfList(const double* list, int64_t n, int64_t step = 1) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += list[i * step] * list[i * step];
  return std::sqrt(squares);
}

// How far the state of one head may be off in a kernel that goes step by step,
// as the standard writes it down, and adds in any order. The error is kept for
// each column of the state as the 2-norm of the errors of its elements. The
// error before a step is multiplied by (I - beta k k^T) diag(decay), whose norm
// is at most that of the decay where beta |k|^2 is 0 to 2, so the errors of
// normalized keys add up, but do not grow. `expected` takes the rounding errors
// of different steps for independent.
class StateError {
 public:
  struct Setting {
    int64_t key_size;
    int64_t value_size;
    bool decays;
    DLDataType dtype;
    DLDataType state_dtype;
    Bounds* output;
    Bounds* state;
  };
  explicit StateError(const Setting& setting)
      : setting_(setting),
        dtype_(UnitRoundoff(setting.dtype) > UnitRoundoff(setting.state_dtype)
                   ? setting.dtype
                   : setting.state_dtype),
        u_(UnitRoundoff(dtype_)),
        columns_(static_cast<size_t>(setting.value_size)) {}

  // Called in this order in each step: BeginStep after the state has been
  // multiplied by factors, the largest of which is `largest`; AddCorrection if
  // element m of what is written is beta * difference instead of the value
  // itself; EndStep after `written` times k has been added to the state. The
  // pointers are kept until the step ends: what AddCorrection() needs of the
  // state is its content before this step writes to it.
  void BeginStep(const double* state, const double* k, double largest) {
    state_ = state;
    k_ = k;
    key_norm_ = NormOfList(k, setting_.key_size);
    for (size_t m = 0; m < columns_.size(); ++m) {
      columns_[m].norm = setting_.decays ? NormOf(state, m) : 0;
      columns_[m].growth = largest * (1 + u_ * (kDecayRoundings + 2));
      columns_[m].written = {0, 0};
    }
  }
  void AddCorrection(size_t m, double beta, double difference) {
    Column& column = columns_[m];
    const SumBound sum = BoundSum(dtype_, SumOf(state_, k_, m));
    const double size = std::fabs(beta);
    const double roundings =
        u_ * std::fabs(difference) + HalfUlp(dtype_, difference);
    column.written.proved = size * (sum.proved + roundings);
    column.written.expected = size * (sum.expected + roundings);
    // The update multiplies the error by I - beta k k^T, whose norm is |1 -
    // beta |k|^2| along k and 1 across it; forming it rounds n + 4 times.
    const double square = key_norm_ * key_norm_;
    const auto n = static_cast<double>(setting_.key_size);
    column.growth *= std::max(1.0, std::fabs(1 - beta * square)) +
                     u_ * (n + 4) * size * square;
  }
  void EndStep(const double* state, const double* written) {
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
  // BoundRead() fills in the bounds of what q reads, from element `to` of the
  // output on, BoundState() those of the state. What is expected is no more
  // than what is proved, but NaN stays NaN.
  void BoundRead(const double* state, const double* q, double scale,
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
      // Errors of the columns come in by the norm of q (Cauchy and Schwarz).
      // `roundings` are those of the factor, and of multiplying by it.
      const double roundings = 4 * u_ * std::fabs(sum.result) +
                               2 * HalfUlp(setting_.dtype, sum.result);
      const double inherited = kSlack * size * norm;
      const size_t i = static_cast<size_t>(to) + m;
      const double proved =
          fresh.proved + inherited * columns_[m].proved + roundings;
      const double expected =
          fresh.expected + inherited * kExpectedFactor * columns_[m].expected +
          roundings;
      SumBound{proved, std::min(expected, proved)}.SetAt(i, setting_.output);
    }
  }
  void BoundState(const double* state, int64_t to) const {
    const int64_t count = setting_.key_size * setting_.value_size;
    for (int64_t i = 0; i < count; ++i) {
      const Column& column =
          columns_[static_cast<size_t>(i % setting_.value_size)];
      const double rounding = HalfUlp(setting_.state_dtype, state[i]);
      const double proved = column.proved + rounding;
      const double expected = kExpectedFactor * column.expected + rounding;
      SumBound{proved, std::min(expected, proved)}.SetAt(
          static_cast<size_t>(to + i), setting_.state);
    }
  }

 private:
  // The state's error in one column, and what this step adds to it.
  struct Column {
    double proved = 0;
    double expected = 0;
    double growth = 1;
    SumBound written{0, 0};
    double norm = 0;  // The norm of the state before it is written to.
  };
  SumOfTerms SumOf(const double* state, const double* weights, size_t m) const {
    SumOfTerms sum{static_cast<double>(setting_.key_size)};
    for (int64_t d = 0; d < setting_.key_size; ++d) {
      sum.Add(weights[d] *
              state[static_cast<size_t>(d * setting_.value_size) + m]);
    }
    return sum;
  }
  double NormOf(const double* state, size_t m) const {
    return NormOfList(state + m, setting_.key_size, setting_.value_size);
  }

  const Setting& setting_;
  const DLDataType dtype_;  // The coarser one: kernels may calculate in it.
  const double u_;
  const double* state_ = nullptr;
  const double* k_ = nullptr;
  double key_norm_ = 0;
  std::vector<Column> columns_;
};

constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kPast = 3, kDecay = 4,
                 kBeta = 5;

struct Sides {
  int64_t batch;
  int64_t steps;
  int64_t heads;     // The queries' heads.
  int64_t kv_heads;  // Each has a state, which `group` query heads read.
  int64_t key_size;
  int64_t value_size;

  int64_t group() const { return heads / kv_heads; }
  int64_t state_size() const { return key_size * value_size; }
};

// Heads lie side by side in one vector. That they divide it evenly is checked
// in CheckHeads().
Dim PartOf(const Dim& side, int64_t parts) {
  return side.is_known() ? Dim(side.size() / parts) : Dim();
}

struct AttentionTensors {
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<double> decay = {};
  std::vector<double> beta = {};
  std::vector<double> states = {};  // By batch and head of the keys.
  std::vector<double> y = {};
};

// Runs the steps of one head of the keys in order. The state of a head is a
// matrix of key size by value size, row by row, so that all inner loops run
// along the values. It lives in the list of all states, where it is the output
// at the end.
struct HeadRunner {
  const bool decays;
  const bool corrects;
  const Sides& s;
  const double scale;
  AttentionTensors& all;
  // What this step writes, and a sum for each of its elements.
  std::vector<double> write =
      std::vector<double>(static_cast<size_t>(s.value_size));
  std::vector<double> sums = write;

  // With `error`, its bounds are filled in too.
  void Run(int64_t batch, int64_t head, StateError* error) {
    double* const state =
        all.states.data() + (batch * s.kv_heads + head) * s.state_size();
    for (int64_t t = 0; t < s.steps; ++t) {
      const int64_t row = batch * s.steps + t;
      const double* const k =
          all.k.data() + (row * s.kv_heads + head) * s.key_size;
      const double largest = Decay(row, head, state);
      if (error != nullptr) error->BeginStep(state, k, largest);
      std::copy_n(all.v.data() + (row * s.kv_heads + head) * s.value_size,
                  s.value_size, write.data());
      if (corrects) Correct(row, head, k, state, error);
      AddOuter(k, state);
      if (error != nullptr) error->EndStep(state, write.data());
      for (int64_t i = 0; i < s.group(); ++i) {
        Read(row, head * s.group() + i, state, error);
      }
    }
    if (error == nullptr) return;
    error->BoundState(state, (batch * s.kv_heads + head) * s.state_size());
  }

 private:
  // Returns the largest factor that an element of the state was multiplied by.
  double Decay(int64_t row, int64_t head, double* state) {
    if (!decays) return 1;
    const auto heads = static_cast<size_t>(s.batch * s.steps * s.kv_heads);
    // There is one decay for a head, or one for each element of its key. With
    // keys of one element both are the same list.
    const bool by_key = all.decay.size() != heads;
    const int64_t at = row * s.kv_heads + head;
    double largest = 0;
    for (int64_t d = 0; d < s.key_size; ++d) {
      const int64_t i = by_key ? at * s.key_size + d : at;
      const double factor = std::exp(all.decay[static_cast<size_t>(i)]);
      if (!(factor <= largest)) largest = factor;  // True for NaN too.
      for (int64_t m = 0; m < s.value_size; ++m) {
        state[d * s.value_size + m] *= factor;
      }
    }
    return largest;
  }
  // What is written is how far the state is from giving v for k.
  void Correct(int64_t row, int64_t head, const double* k, const double* state,
               StateError* error) {
    const auto rows = static_cast<size_t>(s.batch * s.steps);
    const int64_t i = all.beta.size() == rows * static_cast<size_t>(s.kv_heads)
                          ? row * s.kv_heads + head
                          : row;
    const double beta = all.beta[static_cast<size_t>(i)];
    AddUp(k, state);
    for (size_t m = 0; m < write.size(); ++m) {
      const double difference = write[m] - sums[m];
      write[m] = beta * difference;
      if (error != nullptr) error->AddCorrection(m, beta, difference);
    }
  }
  void AddOuter(const double* k, double* state) {
    for (int64_t d = 0; d < s.key_size; ++d, state += s.value_size) {
      for (size_t m = 0; m < write.size(); ++m) state[m] += k[d] * write[m];
    }
  }
  void Read(int64_t row, int64_t head, const double* state, StateError* error) {
    const double* const q = all.q.data() + (row * s.heads + head) * s.key_size;
    const int64_t to = (row * s.heads + head) * s.value_size;
    AddUp(q, state);
    for (size_t m = 0; m < sums.size(); ++m) {
      all.y[static_cast<size_t>(to) + m] = scale * sums[m];
    }
    if (error != nullptr) error->BoundRead(state, q, scale, to);
  }
  // Multiplies the transposed state by `weights`. Rows are added up as they lie
  // in memory; `sums` is one list for all steps, so that none takes memory.
  void AddUp(const double* weights, const double* state) {
    std::fill(sums.begin(), sums.end(), 0);
    for (int64_t d = 0; d < s.key_size; ++d, state += s.value_size) {
      for (size_t m = 0; m < sums.size(); ++m) {
        sums[m] += weights[d] * state[m];
      }
    }
  }
};

struct LinearAttention : ops::LinearAttention {
  static constexpr auto Fields() {
    return FieldList(
        Field<&LinearAttention::chunk_size>("chunk_size"),
        RequiredField<&LinearAttention::kv_num_heads>("kv_num_heads"),
        RequiredField<&LinearAttention::q_num_heads>("q_num_heads"),
        Field<&LinearAttention::scale>("scale"),
        Field<&LinearAttention::update_rule>("update_rule"));
  }
  bool decays() const {
    return update_rule == UpdateRule::kGated ||
           update_rule == UpdateRule::kGatedDelta;
  }
  bool corrects() const {
    return update_rule == UpdateRule::kDelta ||
           update_rule == UpdateRule::kGatedDelta;
  }
  absl::Status Check(const Inputs& in) const {
    if (q_num_heads < 1 || kv_num_heads < 1 ||
        q_num_heads % kv_num_heads != 0) {
      return WrongAttribute(
          "q_num_heads",
          "is {}, expected a multiple of kv_num_heads ({}), both 1 or more",
          q_num_heads.get(), kv_num_heads.get());
    }
    NODEWISE_RETURN_IF_ERROR(
        All(RequireFloat(in, kQuery), RequireFloat(in, kPast)));
    for (const size_t i : {kKey, kValue, kDecay, kBeta}) {
      if (!in.type(kQuery).has_dtype()) break;
      NODEWISE_RETURN_IF_ERROR(RequireType(in, i, in.type(kQuery).dtype));
    }
    return All(CheckHeads(in), CheckGates(in));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in,
                                    size_t num_outputs) const {
    const Dim batch = SideOf(in, kQuery, 0);
    const Dim value_size = ValueSize(in);
    OutputInfos out;
    out.push_back(TensorType(
        in.type(kQuery).dtype,
        {batch, SideOf(in, kQuery, 1), Times(value_size, q_num_heads.get())}));
    if (num_outputs < 2) return out;
    out.push_back(
        TensorType(in.type(in.has(kPast) ? kPast : kQuery).dtype,
                   {batch, kv_num_heads.get(), KeySize(in), value_size}));
    return Countable(std::move(out));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const auto q = args.shape(kQuery);
    const Sides s{q[0],
                  q[1],
                  q_num_heads,
                  kv_num_heads,
                  q[2] / q_num_heads,
                  args.shape(kValue)[2] / kv_num_heads};
    const DLDataType state_type = args.dtype(args.has(kPast) ? kPast : kQuery);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NDArray present;
    if (args.wants(1)) {
      NODEWISE_ASSIGN_OR_RETURN(present, args.MakeOutput(1));
    }
    AttentionTensors all{ToDoubles(args.in(kQuery)), ToDoubles(args.in(kKey)),
                         ToDoubles(args.in(kValue))};
    if (decays()) all.decay = ToDoubles(args.in(kDecay));
    if (corrects()) all.beta = ToDoubles(args.in(kBeta));
    if (args.has(kPast)) all.states = ToDoubles(args.in(kPast));
    all.states.resize(
        static_cast<size_t>(s.batch * s.kv_heads * s.state_size()));
    all.y.resize(static_cast<size_t>(CountOf(y)));
    Bounds* const bounds = SizedBounds(args, 0, CountOf(y));
    // The state gets its bounds whether it is an output or not.
    Bounds of_state;
    const StateError::Setting setting{s.key_size, s.value_size, decays(),
                                      y.dtype(),  state_type,   bounds,
                                      &of_state};
    if (bounds != nullptr) {
      ResizeBounds(static_cast<int64_t>(all.states.size()), &of_state);
    }
    const double factor =
        scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(s.key_size));
    const double work = static_cast<double>(s.steps * (3 + s.group())) *
                        static_cast<double>(s.state_size());
    ParallelFor(s.batch * s.kv_heads, work, [&](int64_t begin, int64_t end) {
      HeadRunner runner{decays(), corrects(), s, factor, all};
      for (int64_t i = begin; i < end; ++i) {
        std::optional<StateError> error;
        if (bounds != nullptr) error.emplace(setting);
        runner.Run(i / s.kv_heads, i % s.kv_heads, error ? &*error : nullptr);
      }
    });
    StoreDoubles(all.y.data(), 0, CountOf(y), y);
    if (!args.wants(1)) return absl::OkStatus();
    StoreDoubles(all.states.data(), 0, CountOf(present), present);
    if (bounds != nullptr) *args.bounds(1) = std::move(of_state);
    return absl::OkStatus();
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    const Dim rows = Times(SideOf(in, kQuery, 0), SideOf(in, kQuery, 1));
    const Dim state = Times(KeySize(in), ValueSize(in));
    if (!rows.is_known() || !state.is_known()) return 0;
    // For each element of the state: the outer product takes 2 operations, a
    // decay 1, and finding what the state gives for the key 2 more. Each head
    // of the queries then reads all of it.
    const int64_t of_state = 2 + (decays() ? 1 : 0) + (corrects() ? 2 : 0);
    return static_cast<double>(rows.size()) *
           static_cast<double>(state.size()) *
           static_cast<double>(kv_num_heads * of_state + 2 * q_num_heads);
  }

 private:
  // Queries, keys and values have their heads side by side. Sides that follow
  // from different inputs are compared where both are known.
  absl::Status CheckHeads(const Inputs& in) const {
    const std::pair<size_t, int64_t> packed[] = {
        {kQuery, q_num_heads}, {kKey, kv_num_heads}, {kValue, kv_num_heads}};
    for (const auto& [i, heads] : packed) {
      NODEWISE_RETURN_IF_ERROR(RequireRank(in, i, 3));
      const Dim side = SideOf(in, i, 2);
      if (!side.is_known() || side.size() % heads == 0) continue;
      return WrongInput(
          i, "has vectors of {}, expected a multiple of the {} heads",
          side.size(), heads);
    }
    const Dim batch = SideOf(in, kQuery, 0);
    const Dim steps = SideOf(in, kQuery, 1);
    const Dim key_size = KeySize(in);
    return All(
        RequireShape(in, kKey,
                     {batch, steps, Times(key_size, kv_num_heads.get())}),
        RequireShape(in, kValue, {batch, steps, Dim()}),
        RequireShape(in, kPast,
                     {batch, kv_num_heads.get(), key_size, ValueSize(in)}));
  }
  absl::Status CheckGates(const Inputs& in) const {
    // An input that the rule does not read is refused rather than ignored: most
    // likely the wrong rule was chosen.
    const auto check_given = [&](size_t i, const char* name, bool is_read) {
      if (in.has(i) == is_read) return absl::OkStatus();
      return WrongInput(
          i, "({}) is {}, since update_rule is {}", name,
          is_read ? "not given, expected it" : "given, expected none",
          std::get<std::string>(
              *op_row::Transport<UpdateRule>::Get(update_rule)));
    };
    NODEWISE_RETURN_IF_ERROR(All(check_given(kDecay, "decay", decays()),
                                 check_given(kBeta, "beta", corrects())));
    const Dim batch = SideOf(in, kQuery, 0);
    const Dim steps = SideOf(in, kQuery, 1);
    NODEWISE_RETURN_IF_ERROR(
        All(RequireShape(in, kDecay, {batch, steps, Dim()}),
            RequireShape(in, kBeta, {batch, steps, Dim()})));
    const Dim decay = SideOf(in, kDecay, 2);
    const Dim by_key = Times(KeySize(in), kv_num_heads.get());
    if (decay.is_known() && by_key.is_known() && decay != by_key &&
        decay != Dim(kv_num_heads.get())) {
      return WrongInput(kDecay, "has vectors of {}, expected {} or {}",
                        decay.size(), by_key.size(), kv_num_heads.get());
    }
    const Dim beta = SideOf(in, kBeta, 2);
    if (!beta.is_known() || beta == Dim(1) || beta == Dim(kv_num_heads.get())) {
      return absl::OkStatus();
    }
    return WrongInput(kBeta, "has vectors of {}, expected {} or 1", beta.size(),
                      kv_num_heads.get());
  }
  Dim KeySize(const Inputs& in) const {
    Dim size = PartOf(SideOf(in, kQuery, 2), q_num_heads);
    if (size.is_known()) return size;
    Dim of_key = PartOf(SideOf(in, kKey, 2), kv_num_heads);
    return of_key.is_known() ? of_key : SideOf(in, kPast, 2);
  }
  Dim ValueSize(const Inputs& in) const {
    Dim size = PartOf(SideOf(in, kValue, 2), kv_num_heads);
    return size.is_known() ? size : SideOf(in, kPast, 3);
  }
};

constexpr OperatorDef kLinearAttentions[] = {
    Row<ops::LinearAttention, LinearAttention>(
        "LinearAttention", 27,
        {"query", "key", "value", Optional("past_state"), Optional("decay"),
         Optional("beta")},
        {"output", "present_state"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> LinearAttentionOperators() {
  return kLinearAttentions;
}

}  // namespace nodewise
