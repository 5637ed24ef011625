#include "contrib/ops/op_families.h"
#include "nodewise/ops/ops.h"

namespace nodewise {

const OpSet& AllOperators() {
  static const OpSet* const all = [] {
    auto* const set = new OpSet;
    set->Add(ActivationOperators());
    set->Add(ElementaryOperators());
    set->Add(ArithmeticOperators());
    set->Add(VariadicOperators());
    set->Add(LogicOperators());
    set->Add(CastOperators());
    set->Add(MatmulOperators());
    set->Add(ConvOperators());
    set->Add(PoolOperators());
    set->Add(NormOperators());
    set->Add(BatchNormOperators());
    set->Add(LayerNormOperators());
    set->Add(SoftmaxOperators());
    set->Add(ReduceOperators());
    set->Add(AxisOperators());
    set->Add(ReshapeOperators());
    set->Add(SliceOperators());
    set->Add(PadOperators());
    set->Add(GatherOperators());
    set->Add(ScatterOperators());
    set->Add(ConstantOperators());
    set->Add(SortOperators());
    set->Add(SelectOperators());
    set->Add(ResizeOperators());
    set->Add(SamplingOperators());
    set->Add(Col2ImOperators());
    set->Add(QuantizeOperators());
    set->Add(QLinearOperators());
    set->Add(RecurrentOperators());
    set->Add(ControlFlowOperators());
    set->Add(ScanOperators());
    set->Add(AttentionOperators());
    set->Add(LinearAttentionOperators());
    set->Add(CausalConvOperators());
    set->Add(LossOperators());
    set->Add(SignalOperators());
    set->Add(WindowFunctionOperators());
    set->Add(NgramOperators());
    set->Add(RefusedOperators());
    return set;
  }();
  return *all;
}

}  // namespace nodewise
