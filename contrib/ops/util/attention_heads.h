#pragma once

// What Attention calculates for each head: scores, masks and weighted values.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/ops/attention.h"

namespace nodewise {

// The optional inputs.
struct AttentionInputs {
  static constexpr size_t kMask = 3, kPastKey = 4, kPastValue = 5, kLengths = 6;
};

// Sides of one evaluation.
struct AttentionSides {
  int64_t batch = 0;
  int64_t heads = 0;     // The queries' heads.
  int64_t kv_heads = 0;  // Each serves the same number of query heads.
  int64_t queries = 0;
  int64_t keys = 0;  // New ones.
  int64_t past = 0;
  int64_t head_size = 0;
  int64_t value_size = 0;
  bool is_flat = false;  // Rank 3: the heads stand side by side.

  int64_t total() const { return past + keys; }
};

// How far from its own place a query sees keys; below 0: without a limit.
struct AttentionWindow {
  int64_t left = -1;
  int64_t right = -1;
};

// The numbers added to the scores: 0 or -infinity for masks that are bool.
class AttentionMask {
 public:
  // Fails with kInvalidArgument if the mask does not fit the sides.
  static absl::StatusOr<AttentionMask> Make(const EvalArgs& args,
                                            const AttentionSides& s);

  double at(int64_t batch, int64_t head, int64_t query, int64_t key) const;

 private:
  std::vector<double> values_;
  int64_t given_ = 0;  // Keys; the others are masked.
  int64_t strides_[4] = {};
};

// Which keys a query may see, before the mask hides more of them.
class VisibleKeys {
 public:
  // `lengths` are the valid keys by batch, or empty.
  VisibleKeys(bool is_causal, bool has_past, AttentionWindow window,
              const AttentionSides& s, std::vector<int64_t> lengths)
      : is_causal_(is_causal),
        has_past_(has_past),
        window_(window),
        queries_(s.queries),
        past_(s.past),
        total_(s.total()),
        lengths_(std::move(lengths)) {}

  // [first, last) of the keys that this query sees; empty if it sees none.
  struct Range {
    int64_t first;
    int64_t last;

    bool has(int64_t key) const { return key >= first && key < last; }
  };
  Range Of(int64_t batch, int64_t query) const;

 private:
  const bool is_causal_;
  const bool has_past_;
  const AttentionWindow window_;
  const int64_t queries_;
  const int64_t past_;
  const int64_t total_;
  const std::vector<int64_t> lengths_;
};

// Calculates the queries of one head after the other.
class AttentionHeads {
 public:
  // `op` and `s` must outlive the object.
  AttentionHeads(const ops::Attention23& op, const AttentionSides& s,
                 const EvalArgs& args, AttentionMask mask, VisibleKeys visible);

  const std::vector<double>& keys() const { return k_; }
  const std::vector<double>& values() const { return v_; }

  struct Results {
    double* y;
    double* scores = nullptr;  // Which ones: see qk_matmul_output_mode.
    double* proved = nullptr;
    double* expected = nullptr;
  };
  void Run(int64_t head, const Results& results) const;

 private:
  // One query's scores, and how far each may be off in a kernel.
  struct Row {
    std::vector<double> scores;
    SumBound error{0, 0};
    // The mask lets it see a key.
    bool sees_any = false;
  };
  void Score(int64_t head, int64_t query, const double* q, bool with_bounds,
             double* kept, Row* row) const;
  void Soften(Row* row) const;
  void Weigh(int64_t head, const Row& row, int64_t at,
             const Results& results) const;
  int64_t KvHead(int64_t head) const {
    const int64_t group = s_.heads / s_.kv_heads;
    return head / s_.heads * s_.kv_heads + head % s_.heads / group;
  }

  const ops::Attention23& op_;
  const AttentionSides& s_;
  const std::vector<double> q_;
  const std::vector<double> k_;
  const std::vector<double> v_;
  const AttentionMask mask_;
  const VisibleKeys visible_;
  const DLDataType dtype_;
  const double scale_;
};

}  // namespace nodewise
