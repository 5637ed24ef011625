#include "nodewise/ops/linear_attention.h"

#include <cmath>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/linear_attention_error.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

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

constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kPast = 3, kDecay = 4,
                 kBeta = 5;

// Sides of one evaluation.
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
  absl::Status Check(const Inputs& in) const;
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t num_outputs) const;
  absl::Status Evaluate(EvalArgs& args) const;
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const;

 private:
  absl::Status CheckHeads(const Inputs& in) const;
  absl::Status CheckGates(const Inputs& in) const;
  Dim KeySize(const Inputs& in) const;
  Dim ValueSize(const Inputs& in) const;
};

// Returns one of `parts` equal parts; unknown if the side is.
Dim PartOf(const Dim& side, int64_t parts) {
  return side.is_known() ? Dim(side.size() / parts) : Dim();
}

Dim LinearAttention::KeySize(const Inputs& in) const {
  Dim size = PartOf(SideOf(in, kQuery, 2), q_num_heads.get());
  if (size.is_known()) return size;
  Dim of_key = PartOf(SideOf(in, kKey, 2), kv_num_heads.get());
  return of_key.is_known() ? of_key : SideOf(in, kPast, 2);
}
Dim LinearAttention::ValueSize(const Inputs& in) const {
  Dim size = PartOf(SideOf(in, kValue, 2), kv_num_heads.get());
  return size.is_known() ? size : SideOf(in, kPast, 3);
}

absl::Status LinearAttention::Check(const Inputs& in) const {
  if (q_num_heads.get() < 1 || kv_num_heads.get() < 1 ||
      q_num_heads.get() % kv_num_heads.get() != 0) {
    return AttributeError(
        "q_num_heads",
        fmt::format("is {}, expected a multiple of kv_num_heads ({}), both "
                    "1 or more",
                    q_num_heads.get(), kv_num_heads.get()));
  }
  NODEWISE_RETURN_IF_ERROR(
      All(RequireFloat(in, kQuery), RequireFloat(in, kPast)));
  for (const size_t i : {kKey, kValue, kDecay, kBeta}) {
    if (!in.type(kQuery).has_dtype()) continue;
    NODEWISE_RETURN_IF_ERROR(RequireType(in, i, in.type(kQuery).dtype));
  }
  return All(CheckHeads(in), CheckGates(in));
}

absl::Status LinearAttention::CheckHeads(const Inputs& in) const {
  const std::pair<size_t, int64_t> packed[] = {{kQuery, q_num_heads.get()},
                                               {kKey, kv_num_heads.get()},
                                               {kValue, kv_num_heads.get()}};
  for (const auto& [i, heads] : packed) {
    NODEWISE_RETURN_IF_ERROR(RequireRank(in, i, 3));
    const Dim side = SideOf(in, i, 2);
    if (!side.is_known() || side.size() % heads == 0) continue;
    return InputError(i, fmt::format("has vectors of {}, expected a "
                                     "multiple of the {} heads",
                                     side.size(), heads));
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

absl::Status LinearAttention::CheckGates(const Inputs& in) const {
  const auto check_given = [&](size_t i, const char* name, bool is_read) {
    if (in.has(i) == is_read) return absl::OkStatus();
    return InputError(
        i,
        fmt::format("({}) is {}, since update_rule is {}", name,
                    is_read ? "not given, expected it" : "given, expected none",
                    std::get<std::string>(
                        *op_row::Transport<UpdateRule>::Get(update_rule))));
  };
  NODEWISE_RETURN_IF_ERROR(All(check_given(kDecay, "decay", decays()),
                               check_given(kBeta, "beta", corrects())));
  const Dim batch = SideOf(in, kQuery, 0);
  const Dim steps = SideOf(in, kQuery, 1);
  NODEWISE_RETURN_IF_ERROR(All(RequireShape(in, kDecay, {batch, steps, Dim()}),
                               RequireShape(in, kBeta, {batch, steps, Dim()})));
  const Dim decay = SideOf(in, kDecay, 2);
  const Dim by_key = Times(KeySize(in), kv_num_heads.get());
  if (decay.is_known() && by_key.is_known() && decay != by_key &&
      decay != Dim(kv_num_heads.get())) {
    return InputError(
        kDecay, fmt::format("has vectors of {}, expected {} "
                            "or {}",
                            decay.size(), by_key.size(), kv_num_heads.get()));
  }
  const Dim beta = SideOf(in, kBeta, 2);
  if (!beta.is_known() || beta == Dim(1) || beta == Dim(kv_num_heads.get())) {
    return absl::OkStatus();
  }
  return InputError(kBeta, fmt::format("has vectors of {}, expected {} or "
                                       "1",
                                       beta.size(), kv_num_heads.get()));
}

absl::StatusOr<OutputInfos> LinearAttention::Infer(const Inputs& in,
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

double LinearAttention::Flops(const Inputs& in,
                              absl::Span<const OutputInfo>) const {
  const Dim rows = Times(SideOf(in, kQuery, 0), SideOf(in, kQuery, 1));
  const Dim state = Times(KeySize(in), ValueSize(in));
  if (!rows.is_known() || !state.is_known()) return 0;
  const int64_t of_state = 2 + (decays() ? 1 : 0) + (corrects() ? 2 : 0);
  return static_cast<double>(rows.size()) * static_cast<double>(state.size()) *
         static_cast<double>(kv_num_heads.get() * of_state +
                             2 * q_num_heads.get());
}

// All tensors as doubles.
struct Tensors {
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<double> decay = {};
  std::vector<double> beta = {};
  std::vector<double> states = {};  // By batch and head of the keys.
  std::vector<double> y = {};
};

// Runs the steps of one head of the keys in order.
class HeadRunner {
 public:
  HeadRunner(const LinearAttention& op, const Sides& sides, double scale,
             Tensors* tensors)
      : op_(op),
        s_(sides),
        scale_(scale),
        all_(*tensors),
        write_(static_cast<size_t>(sides.value_size)),
        sums_(write_.size()) {}

  // With `error`, its bounds are filled in too.
  void Run(int64_t batch, int64_t head, StateError* error) {
    double* const state =
        all_.states.data() + (batch * s_.kv_heads + head) * s_.state_size();
    for (int64_t t = 0; t < s_.steps; ++t) {
      const int64_t row = batch * s_.steps + t;
      const double* const k =
          all_.k.data() + (row * s_.kv_heads + head) * s_.key_size;
      const double largest = Decay(row, head, state);
      if (error != nullptr) error->BeginStep(state, k, largest);
      std::copy_n(all_.v.data() + (row * s_.kv_heads + head) * s_.value_size,
                  s_.value_size, write_.data());
      if (op_.corrects()) Correct(row, head, k, state, error);
      AddOuter(k, state);
      if (error != nullptr) error->EndStep(state, write_.data());
      for (int64_t i = 0; i < s_.group(); ++i) {
        Read(row, head * s_.group() + i, state, error);
      }
    }
    if (error == nullptr) return;
    error->BoundState(state, (batch * s_.kv_heads + head) * s_.state_size());
  }

 private:
  // The largest factor that an element of the state was multiplied by.
  double Decay(int64_t row, int64_t head, double* state) {
    if (!op_.decays()) return 1;
    const auto heads = static_cast<size_t>(s_.batch * s_.steps * s_.kv_heads);
    const bool by_key = all_.decay.size() != heads;
    const int64_t at = row * s_.kv_heads + head;
    double largest = 0;
    for (int64_t d = 0; d < s_.key_size; ++d) {
      const int64_t i = by_key ? at * s_.key_size + d : at;
      const double factor = std::exp(all_.decay[static_cast<size_t>(i)]);
      if (!(factor <= largest)) largest = factor;  // True for NaN too.
      for (int64_t m = 0; m < s_.value_size; ++m) {
        state[d * s_.value_size + m] *= factor;
      }
    }
    return largest;
  }
  // What is written is how far the state is from giving v for k.
  void Correct(int64_t row, int64_t head, const double* k, const double* state,
               StateError* error) {
    const auto rows = static_cast<size_t>(s_.batch * s_.steps);
    const int64_t i =
        all_.beta.size() == rows * static_cast<size_t>(s_.kv_heads)
            ? row * s_.kv_heads + head
            : row;
    const double beta = all_.beta[static_cast<size_t>(i)];
    AddUp(k, state);
    for (size_t m = 0; m < write_.size(); ++m) {
      const double difference = write_[m] - sums_[m];
      write_[m] = beta * difference;
      if (error != nullptr) error->AddCorrection(m, beta, difference);
    }
  }
  void AddOuter(const double* k, double* state) {
    for (int64_t d = 0; d < s_.key_size; ++d, state += s_.value_size) {
      for (size_t m = 0; m < write_.size(); ++m) state[m] += k[d] * write_[m];
    }
  }
  void Read(int64_t row, int64_t head, const double* state, StateError* error) {
    const double* const q =
        all_.q.data() + (row * s_.heads + head) * s_.key_size;
    const int64_t to = (row * s_.heads + head) * s_.value_size;
    AddUp(q, state);
    for (size_t m = 0; m < sums_.size(); ++m) {
      all_.y[static_cast<size_t>(to) + m] = scale_ * sums_[m];
    }
    if (error != nullptr) error->BoundRead(state, q, scale_, to);
  }
  // sums_[m] = the sum of weights[d] * state[d][m].
  void AddUp(const double* weights, const double* state) {
    std::fill(sums_.begin(), sums_.end(), 0);
    for (int64_t d = 0; d < s_.key_size; ++d, state += s_.value_size) {
      for (size_t m = 0; m < sums_.size(); ++m) {
        sums_[m] += weights[d] * state[m];
      }
    }
  }

  const LinearAttention& op_;
  const Sides& s_;
  const double scale_;
  Tensors& all_;
  std::vector<double> write_;
  std::vector<double> sums_;
};

absl::Status LinearAttention::Evaluate(EvalArgs& args) const {
  const auto q = args.shape(kQuery);
  const Sides s{q[0],
                q[1],
                q_num_heads.get(),
                kv_num_heads.get(),
                q[2] / q_num_heads.get(),
                args.shape(kValue)[2] / kv_num_heads.get()};
  const DLDataType state_type = args.dtype(args.has(kPast) ? kPast : kQuery);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  NDArray present;
  if (args.wants(1)) {
    NODEWISE_ASSIGN_OR_RETURN(present, args.MakeOutput(1));
  }
  Tensors all{ToDoubles(args.in(kQuery)), ToDoubles(args.in(kKey)),
              ToDoubles(args.in(kValue))};
  if (decays()) all.decay = ToDoubles(args.in(kDecay));
  if (corrects()) all.beta = ToDoubles(args.in(kBeta));
  if (args.has(kPast)) all.states = ToDoubles(args.in(kPast));
  all.states.resize(static_cast<size_t>(s.batch * s.kv_heads * s.state_size()));
  all.y.resize(static_cast<size_t>(CountOf(y)));
  Bounds of_state;
  const StateError::Setting setting{s.key_size, s.value_size, decays(),
                                    y.dtype(),  state_type,   args.bounds(0),
                                    &of_state};
  if (args.bounds(0) != nullptr)
    setting.Resize(all.y.size(), all.states.size());
  const double factor =
      scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(s.key_size));
  const double work = static_cast<double>(s.steps * (3 + s.group())) *
                      static_cast<double>(s.state_size());
  ParallelFor(s.batch * s.kv_heads, work, [&](int64_t begin, int64_t end) {
    HeadRunner runner(*this, s, factor, &all);
    for (int64_t i = begin; i < end; ++i) {
      std::optional<StateError> error;
      if (args.bounds(0) != nullptr) error.emplace(setting);
      runner.Run(i / s.kv_heads, i % s.kv_heads, error ? &*error : nullptr);
    }
  });
  StoreDoubles(all.y.data(), 0, CountOf(y), y);
  if (!args.wants(1)) return absl::OkStatus();
  StoreDoubles(all.states.data(), 0, CountOf(present), present);
  if (args.bounds(1) != nullptr) *args.bounds(1) = std::move(of_state);
  return absl::OkStatus();
}

constexpr OperatorDef kLinearAttentions[] = {
    Row<ops::LinearAttention, LinearAttention>(
        {.name = "LinearAttention",
         .since = 27,
         .inputs = {"query", "key", "value", Optional("past_state"),
                    Optional("decay"), Optional("beta")},
         .outputs = {"output", "present_state"},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> LinearAttentionOperators() {
  return kLinearAttentions;
}

}  // namespace nodewise
