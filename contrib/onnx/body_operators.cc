#include "contrib/onnx/body_operators.h"

#include <algorithm>

#include "contrib/onnx/attributes.h"
#include "contrib/onnx/body_condition.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

absl::Status SetPermutation(const BodyStatement& statement,
                            const ContribCall& call, proto::Node* node) {
  const std::string& like = statement.inputs.back();
  const TensorType& type = InfoOf(like, call).type;
  if (!type.has_rank()) {
    return absl::InvalidArgumentError(fmt::format(
        "input {}: has no known rank, expected one, since its sides are "
        "exchanged",
        like));
  }
  std::vector<int64_t> order;
  for (int i = 0; i < type.rank(); ++i) order.push_back(i);
  if (order.size() < 2) {
    // There is nothing to exchange.
  } else if (statement.op == "SwapLast") {
    std::swap(order.end()[-1], order.end()[-2]);
  } else if (statement.op == "BatchToSecondLast") {
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  } else if (statement.op == "ChannelsFirst") {
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  } else {
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  }
  while (node->input_size() > 1) node->mutable_input()->RemoveLast();
  node->set_op_type("Transpose");
  proto::Attribute& perm = *node->add_attribute();
  perm.set_name("perm");
  perm.set_type(static_cast<int>(AttributeType::kInts));
  for (const int64_t side : order) perm.add_ints(side);
  return absl::OkStatus();
}

void SetZero(const BodyStatement& statement, const ContribCall& call,
             proto::Node* node) {
  const DLDataType dtype = InfoOf(statement.inputs[0], call).type.dtype;
  node->set_op_type("Constant");
  node->clear_input();
  proto::Attribute& value = *node->add_attribute();
  value.set_name("value");
  value.set_type(static_cast<int>(AttributeType::kTensor));
  value.mutable_t()->set_data_type(
      static_cast<int32_t>(OnnxNumberOf(dtype).value_or(0)));
  // Not raw: such data would be read where it is, which is gone after the call.
  value.mutable_t()->add_int32_data(0);
}

absl::Status SetCast(const BodyStatement& statement, const ContribCall& call,
                     proto::Node* node) {
  const std::string& like = statement.inputs[1];
  const auto number = OnnxNumberOf(InfoOf(like, call).type.dtype);
  if (!number.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("input {}: has no known type, expected one", like));
  }
  node->set_op_type("Cast");
  node->mutable_input()->RemoveLast();
  proto::Attribute& to = *node->add_attribute();
  to.set_name("to");
  to.set_type(static_cast<int>(AttributeType::kInt));
  to.set_i(*number);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReplaceOwn(const BodyStatement& statement, const ContribCall& call,
                        proto::Node* node) {
  if (!statement.domain.empty()) return absl::OkStatus();
  if (statement.op == "ZeroOf") SetZero(statement, call, node);
  if (statement.op == "CastAs") return SetCast(statement, call, node);
  for (const std::string_view op :
       {"SwapLast", "BatchToSecondLast", "ChannelsFirst", "ChannelsLast"}) {
    if (statement.op == op) return SetPermutation(statement, call, node);
  }
  return absl::OkStatus();
}

}  // namespace nodewise
