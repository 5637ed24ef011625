#include "nodewise/autotest/candidate_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/ops/ops.h"
#include "nodewise/passes/quantization.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using Made = absl::StatusOr<std::unique_ptr<Candidate>>;

constexpr const char* kWithout = "--without";  // An option of the adapter.
constexpr const char* kOptimised = "-O2";
constexpr const char* kNotOptimised = "-O0";
// Time that a candidate gets for compiling, beside that for running.
constexpr int64_t kCompileMs = 600'000;

// onnxruntime's names of what it does to graphs: each can be switched off
// alone.
constexpr const char* kOptimizers =
    "AttentionFusion BiasDropoutFusion BiasGeluFusion BiasSoftmaxFusion "
    "CastElimination ClipQuantRewrite CommonSubexpressionElimination "
    "ConcatSliceElimination ConstantFolding ConstantSharing "
    "ConvActivationFusion ConvAddActivationFusion ConvAddFusion ConvBNFusion "
    "ConvMulFusion DivMulFusion DoubleQDQPairsRemover "
    "DynamicQuantizeMatMulFusion EliminateDropout EliminateIdentity "
    "EliminateSlice EnsureUniqueDQForNodeUnit ExpandElimination "
    "FastGeluFusion FuseReluClip GeluFusionL1 GeluFusionL2 "
    "GemmActivationFusion GemmSumFusion GemmTransposeFusion LayerNormFusionL1 "
    "LayerNormFusionL2 MatMulAddFusion MatMulScaleFusion "
    "MatMul_BatchNormalization_Fusion MatmulTransposeFusion NchwcTransformer "
    "NoopElimination NotWhereFusion PadFusion PreShapeNodeElimination "
    "QDQPropagationTransformer QDQS8ToU8Transformer "
    "QDQSelectorActionTransformer QuickGeluFusion ReluQuantRewrite "
    "ReshapeFusion SimplifiedLayerNormFusion SkipLayerNormFusion "
    "TransposeOptimizer UnsqueezeElimination";
// onnxruntime's names of its levels, from the highest to the lowest.
constexpr const char* kLevels[] = {"all", "extended", "basic", "disabled"};

// Whole networks have operators that oneDNN has no kernel for, which run on the
// reference's kernels; tested one by one, these would only compare the
// reference with itself.
Made OneDnn(const CandidateOptions& options, LowerOptions lowering) {
  auto forward = LoweredCandidate(
      "onednn", std::move(lowering), [has_others = options.networks] {
        return has_others ? BuiltInFunctions(AllOperators())
                          : MakeRef<LoweredLibrary>(
                                AllOperators(), std::vector{OneDnnKernels()});
      });
  return GuardedCandidate(
      BackwardCandidate(std::move(forward), OneDnnBackward()),
      options.limit_ms);
}

LowerOptions ReferenceLowering() {
  return LoweringFor(AllOperators(), Backend::kReference);
}

Made ReferenceGraph(const CandidateOptions& options, LowerOptions lowering) {
  auto graph = LoweredCandidate("graph", std::move(lowering), [] {
    return BuiltInFunctions(AllOperators(), Backend::kReference);
  });
  return GuardedCandidate(std::move(graph), options.limit_ms);
}

// Guarded as well: the compiled code runs in this process otherwise.
Made Emitted(const CandidateOptions& options, LowerOptions lowering,
             const char* optimisation) {
  return GuardedCandidate(EmittedCandidate(AllOperators(), options.compiler,
                                           optimisation, std::move(lowering)),
                          options.limit_ms + kCompileMs);
}

Made OptimisedC(const CandidateOptions& options, LowerOptions lowering) {
  return Emitted(options, std::move(lowering), kOptimised);
}

// The program is made for parts of networks: with its own model file it would
// run another network than the case.
Made Program(const CandidateOptions& options,
             const std::vector<std::string>& arguments = {}) {
  ProgramSpec spec = options.program;
  spec.text = options.name;
  spec.model.clear();
  NODEWISE_ASSIGN_OR_RETURN(ForeignTarget program, ProgramForParts(spec));
  std::vector<std::string>& all = program.command.arguments;
  all.insert(all.end(), arguments.begin(), arguments.end());
  return ForeignCandidate(options.name, std::move(program.command),
                          program.limits);
}

std::vector<CandidateVariant> LoweringVariants(
    const CandidateOptions& options, const LowerOptions& usual,
    Made (*make)(const CandidateOptions& options, LowerOptions lowering)) {
  std::vector<CandidateVariant> variants;
  const auto add = [&](const char* without, const LowerOptions& lowering) {
    variants.push_back({without, [=] { return make(options, lowering); }});
  };
  LowerOptions plain = usual;
  plain.fuse = false;
  add("fusing", plain);
  plain = usual;
  plain.reuse_storage = false;
  add("tensors that share memory", plain);
  if (usual.preference_of != nullptr) {
    plain = usual;
    plain.preference_of = nullptr;
    add("channels last", plain);
  }
  return variants;
}

// Lower levels first, since one of these may name a whole class of optimisers.
// Without any level there is nothing to switch off.
std::vector<CandidateVariant> OrtVariants(const CandidateOptions& options) {
  std::vector<CandidateVariant> variants;
  const std::string level =
      options.program.level.empty() ? "disabled" : options.program.level;
  const auto* const own = std::ranges::find(kLevels, level);
  if (own == std::end(kLevels) || level == "disabled") return variants;
  for (const auto* lower = own + 1; lower != std::end(kLevels); ++lower) {
    variants.push_back(
        {fmt::format("more than level {}", *lower), [options, lower] {
           CandidateOptions less = options;
           less.program.level = *lower;
           return Program(less);
         }});
  }
  for (const absl::string_view one : absl::StrSplit(kOptimizers, ' ')) {
    const std::string name(one);
    variants.push_back({name, [options, name] {
                          return Program(options, {kWithout, name});
                        }});
  }
  return variants;
}

bool IsOneDnn(const CandidateOptions& options) {
  return options.name.empty() || options.name == "onednn";
}

Made MakePlain(const CandidateOptions& options) {
  if (IsOneDnn(options)) return OneDnn(options, LoweringFor(AllOperators()));
  if (options.name == "graph") {
    return ReferenceGraph(options, ReferenceLowering());
  }
  if (options.name == "c") return OptimisedC(options, {});
  const std::vector<std::string> known = KnownPrograms();
  if (std::ranges::count(known, options.name) == 0 && options.name != "onnx" &&
      !options.name.starts_with("exec:")) {
    return InvalidArgument(
        "found \"{}\", expected onednn, c, graph, {}, onnx or exec:COMMAND",
        Printable(options.name), fmt::join(known, ", "));
  }
  return Program(options);
}

// The last variant exchanges the kernels, or what makes them fast; the variants
// before it leave the kernels and change what goes on around them.
std::vector<CandidateVariant> PlainVariantsOf(const CandidateOptions& options) {
  if (options.name == "ort") return OrtVariants(options);
  if (options.name == "graph") {
    return LoweringVariants(options, ReferenceLowering(), &ReferenceGraph);
  }
  std::vector<CandidateVariant> variants;
  if (options.name == "c") {
    variants = LoweringVariants(options, {}, &OptimisedC);
    variants.push_back({"what the C compiler optimises", [options] {
                          return Emitted(options, {}, kNotOptimised);
                        }});
  } else if (IsOneDnn(options)) {
    variants = LoweringVariants(options, LoweringFor(AllOperators()), &OneDnn);
    variants.push_back({"oneDNN's kernels", [options] {
                          return ReferenceGraph(options, ReferenceLowering());
                        }});
  }
  return variants;
}

}  // namespace

// Names of passes are checked before the candidate is made, which may start
// programs.
Made MakeAutotestCandidate(const CandidateOptions& options) {
  if (options.passes.empty()) return MakePlain(options);
  std::vector<Pass> passes;
  for (const std::string& name : options.passes) {
    if (name != "merge" && name != "split") {
      return InvalidArgument("pass: found \"{}\", expected merge or split",
                             Printable(name));
    }
    passes.push_back(name == "merge" ? MergeQuantizationPass()
                                     : SplitQuantizationPass());
  }
  NODEWISE_ASSIGN_OR_RETURN(auto inner, MakePlain(options));
  return RewrittenCandidate(std::move(inner), std::move(passes));
}

// Passes come first: they are what the user has added to the candidate.
std::vector<CandidateVariant> VariantsOf(const CandidateOptions& options) {
  std::vector<CandidateVariant> variants;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    CandidateOptions less = options;
    less.passes.erase(less.passes.begin() + static_cast<ptrdiff_t>(i));
    variants.push_back({fmt::format("pass {}", options.passes[i]),
                        [less] { return MakeAutotestCandidate(less); }});
  }
  std::ranges::move(PlainVariantsOf(options), std::back_inserter(variants));
  return variants;
}

}  // namespace nodewise
