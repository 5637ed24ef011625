#include <algorithm>
#include <array>
#include <memory>

#include "contrib/onednn/omp_team.h"
#include "contrib/onednn/onednn_api.h"
#include "contrib/onednn/rows.h"
#include "fmt/format.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/resize.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/ops/unary.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace onednn {
namespace {

struct Row {
  std::string_view name;
  // OperatorDef::type of the versions that it is for; null behind the last.
  std::array<const void*, 4> types;
  // Adds the steps of the builder's call, or refuses it.
  absl::Status (*build)(ProgramBuilder& program);
};

template <typename... Versions>
constexpr Row RowOf(std::string_view name,
                    absl::Status (*build)(ProgramBuilder& program)) {
  return {name, {&kTypeTag<Versions>...}, build};
}

// Operators that are not here are refused: InstanceNormalization, for example,
// has no primitive, and oneDNN's logarithm is off by more than the bound of Log
// (docs/onednn.md).
constexpr Row kRows[] = {
    RowOf<ops::Conv>("Conv", &BuildConv),
    RowOf<ops::ConvTranspose>("ConvTranspose", &BuildConvTranspose),
    RowOf<ops::MatMul>("MatMul", &BuildMatMul),
    RowOf<ops::Gemm>("Gemm", &BuildGemm),
    RowOf<ops::MaxPool>("MaxPool", &BuildMaxPool),
    RowOf<ops::AveragePool>("AveragePool", &BuildAveragePool),
    RowOf<ops::GlobalMaxPool>("GlobalMaxPool", &BuildGlobalPool),
    RowOf<ops::GlobalAveragePool>("GlobalAveragePool", &BuildGlobalPool),
    RowOf<ops::BatchNormalization, ops::BatchNormalization9,
          ops::BatchNormalization7, ops::BatchNormalization1>(
        "BatchNormalization", &BuildBatchNorm),
    RowOf<ops::LayerNormalization>("LayerNormalization", &BuildLayerNorm),
    RowOf<ops::LRN>("LRN", &BuildLrn),
    RowOf<ops::Softmax, ops::Softmax1>("Softmax", &BuildSoftmax),
    RowOf<ops::ReduceSum>("ReduceSum", &BuildReduction),
    RowOf<ops::ReduceMean>("ReduceMean", &BuildReduction),
    RowOf<ops::ReduceMax>("ReduceMax", &BuildReduction),
    RowOf<ops::ReduceMin>("ReduceMin", &BuildReduction),
    RowOf<ops::ReduceL1>("ReduceL1", &BuildReduction),
    RowOf<ops::ReduceL2>("ReduceL2", &BuildReduction),
    RowOf<ops::ReduceSumSquare>("ReduceSumSquare", &BuildReduction),
    RowOf<ops::Concat>("Concat", &BuildConcat),
    RowOf<ops::Transpose>("Transpose", &BuildTranspose),
    RowOf<ops::Reshape>("Reshape", &BuildReshape),
    RowOf<ops::Flatten>("Flatten", &BuildReshape),
    RowOf<ops::Squeeze>("Squeeze", &BuildReshape),
    RowOf<ops::Unsqueeze>("Unsqueeze", &BuildReshape),
    RowOf<ops::Identity>("Identity", &BuildIdentity),
    RowOf<ops::Cast>("Cast", &BuildCast),
    RowOf<ops::QuantizeLinear>("QuantizeLinear", &BuildQuantize),
    RowOf<ops::DequantizeLinear>("DequantizeLinear", &BuildDequantize),
    RowOf<ops::ConvInteger>("ConvInteger", &BuildConvInteger),
    RowOf<ops::QLinearConv>("QLinearConv", &BuildQLinearConv),
    RowOf<ops::MatMulInteger>("MatMulInteger", &BuildMatMulInteger),
    RowOf<ops::QLinearMatMul>("QLinearMatMul", &BuildQLinearMatMul),
    RowOf<ops::Upsample>("Upsample", &BuildResize),
    RowOf<ops::Resize, ops::Resize10>("Resize", &BuildResize),
    RowOf<ops::Relu>("Relu", &BuildActivation),
    RowOf<ops::LeakyRelu>("LeakyRelu", &BuildActivation),
    RowOf<ops::Elu>("Elu", &BuildActivation),
    RowOf<ops::Sigmoid>("Sigmoid", &BuildActivation),
    RowOf<ops::HardSigmoid>("HardSigmoid", &BuildActivation),
    RowOf<ops::HardSwish>("HardSwish", &BuildActivation),
    RowOf<ops::Gelu>("Gelu", &BuildActivation),
    RowOf<ops::Swish>("Swish", &BuildActivation),
    RowOf<ops::Tanh>("Tanh", &BuildActivation),
    RowOf<ops::Clip>("Clip", &BuildActivation),
    RowOf<ops::Abs>("Abs", &BuildActivation),
    RowOf<ops::Neg>("Neg", &BuildActivation),
    RowOf<ops::Sqrt>("Sqrt", &BuildActivation),
    RowOf<ops::Exp>("Exp", &BuildActivation),
    RowOf<ops::Add>("Add", &BuildBinary),
    RowOf<ops::Sum>("Sum", &BuildBinary),
    RowOf<ops::Sub>("Sub", &BuildBinary),
    RowOf<ops::Mul>("Mul", &BuildBinary),
    RowOf<ops::Div>("Div", &BuildBinary),
    RowOf<ops::Max>("Max", &BuildBinary),
    RowOf<ops::Min>("Min", &BuildBinary),
};

// Returns what is behind the kernel: nothing, if it is dry.
// Exceptions of oneDNN end here: rows and the builder let those through that
// the calls in onednn_api.cc have not turned into a status already.
absl::StatusOr<std::unique_ptr<OneDnnKernel>> Build(const OneDnnCall& call,
                                                    bool is_dry,
                                                    std::string* slow_code) {
  NODEWISE_ASSIGN_OR_RETURN(const Call read, Call::Read(call));
  const void* const type = call.op.def().type;
  for (const Row& row : kRows) {
    if (std::count(row.types.begin(), row.types.end(), type) == 0) continue;
    // A primitive is made for as many threads as OpenMP has at that time.
    const OmpThreads threads(OneDnnThreads::Count());
    std::unique_ptr<ProgramBuilder> builder;
    NODEWISE_RETURN_IF_ERROR(Caught([&] {
      builder = std::make_unique<ProgramBuilder>(read, is_dry);
      return row.build(*builder);
    }));
    if (slow_code != nullptr) *slow_code = builder->SlowCode();
    if (is_dry) return nullptr;
    return builder->Finish();
  }
  return Refuse("oneDNN has no such operator");
}

}  // namespace

const dnnl::engine& Engine() {
  // It is never destroyed: kernels in static objects may outlive it.
  static const auto* const engine =
      new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

// Codes say what a caller can do: choose another way, have more memory, or
// report a fault.
absl::Status StatusOf(const dnnl::error& error) {
  switch (error.status) {
    case dnnl_unimplemented:
      return Refuse("oneDNN has no kernel for this case");
    case dnnl_out_of_memory:
      return Shortage("oneDNN found no memory");
    default:
      return Internal("oneDNN: {}", error.what());
  }
}

}  // namespace onednn

// A dry builder asks oneDNN for descriptions of primitives, which takes
// microseconds; making one generates code.
Support OneDnnSupports(const OneDnnCall& call) {
  std::string slow_code;
  const auto built = onednn::Build(call, /*is_dry=*/true, &slow_code);
  Support support;
  if (!built.ok()) {
    support.can = false;
    support.why_not = std::string(MessageOf(built.status()));
  } else if (!slow_code.empty()) {
    support.penalties.push_back(
        fmt::format("oneDNN has only its slow code for it ({})", slow_code));
  }
  return support;
}

// Errors name the operator, but for those of a call without one.
absl::StatusOr<std::unique_ptr<OneDnnKernel>> MakeOneDnnKernel(
    const OneDnnCall& call) {
  auto made = onednn::Build(call, /*is_dry=*/false, nullptr);
  if (made.ok() || !call.op.defined()) return made;
  return At(call.op.def().name, made.status());
}

std::vector<std::string_view> OneDnnOperators() {
  std::vector<std::string_view> names;
  for (const onednn::Row& row : onednn::kRows) names.push_back(row.name);
  return names;
}

std::string OneDnnVersion() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor,
                     version->patch);
}

}  // namespace nodewise
