#pragma once

// Turns an operator's class and its rules into a row:
// Row<ops::LeakyRelu, LeakyRelu>({.name = ...}). Only for the files that define
// operators.

#include <type_traits>
#include <utility>

#include "nodewise/op/attribute_types.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// The words of an enum whose values are written as words:
//   template <> struct Words<Padding> {
//     static constexpr std::pair<Padding, std::string_view> kAll[] = {...};
//   };
template <typename Enum>
struct Words;

namespace op_row {

absl::Status WrongKind(std::string_view expected, const AttrValue& found);
// As above; expects the kind that has this place in AttrValue.
absl::Status WrongKind(size_t expected, const AttrValue& found);
absl::Status UnknownWord(std::string_view found,
                         absl::Span<const std::string_view> allowed);

// How a member of this type travels as an AttrValue: as it is, unless the
// specialisations below say otherwise.
template <typename Member>
struct Transport {
  static std::optional<AttrValue> Get(const Member& member) { return member; }
  static absl::Status Set(Member* member, AttrValue value) {
    Member* const given = std::get_if<Member>(&value);
    if (given == nullptr) {
      return WrongKind(AttrValue(Member()).index(), value);
    }
    *member = std::move(*given);
    return absl::OkStatus();
  }
};

template <>
struct Transport<bool> {
  static std::optional<AttrValue> Get(bool member) {
    return AttrValue(int64_t{member});
  }
  static absl::Status Set(bool* member, AttrValue value) {
    const int64_t* const given = std::get_if<int64_t>(&value);
    if (given == nullptr || (*given != 0 && *given != 1)) {
      return WrongKind("0 or 1", value);
    }
    *member = *given == 1;
    return absl::OkStatus();
  }
};

// An element type, with ONNX's numbers (op_def.cc).
template <>
struct Transport<DLDataType> {
  static std::optional<AttrValue> Get(DLDataType member);
  static absl::Status Set(DLDataType* member, AttrValue value);
};

// Types of tensors, each as ToString() writes it.
template <>
struct Transport<std::vector<TensorType>> {
  static std::optional<AttrValue> Get(const std::vector<TensorType>& member);
  static absl::Status Set(std::vector<TensorType>* member, AttrValue value);
};

// A member that may have no value: Wrapper is std::optional<T> or Required<T>.
template <typename Wrapper, typename T>
struct WrappedTransport {
  static std::optional<AttrValue> Get(const Wrapper& member) {
    if (!member.has_value()) return std::nullopt;
    return Transport<T>::Get(*member);
  }
  static absl::Status Set(Wrapper* member, AttrValue value) {
    T given{};
    absl::Status status = Transport<T>::Set(&given, std::move(value));
    if (status.ok()) *member = std::move(given);
    return status;
  }
};
template <typename T>
struct Transport<std::optional<T>> : WrappedTransport<std::optional<T>, T> {};
template <typename T>
struct Transport<Required<T>> : WrappedTransport<Required<T>, T> {};

template <typename T>
requires std::is_enum_v<T>
struct Transport<T> {
  static std::optional<AttrValue> Get(T member) {
    for (const auto& [value, word] : Words<T>::kAll) {
      if (value == member) return AttrValue(std::string(word));
    }
    return std::nullopt;
  }
  static absl::Status Set(T* member, AttrValue value) {
    const std::string* const given = std::get_if<std::string>(&value);
    if (given == nullptr) return WrongKind("a string", value);
    std::vector<std::string_view> allowed;
    for (const auto& [meaning, word] : Words<T>::kAll) {
      if (word == *given) {
        *member = meaning;
        return absl::OkStatus();
      }
      allowed.push_back(word);
    }
    return UnknownWord(*given, allowed);
  }
};

template <typename Member>
inline constexpr bool kIsTensor =
    std::is_same_v<Member, NDArray> ||
    std::is_same_v<Member, std::optional<NDArray>>;

template <typename Class, typename Member>
Class ClassOf(Member Class::*);
template <typename Class, typename Member>
Member MemberOf(Member Class::*);

// Copies the tensors among the attributes, except read-only ones.
void OwnTensors(absl::Span<const AttrField> fields, void* op);

// Tensors are compared by content.
bool SameAttr(const std::optional<AttrValue>& a,
              const std::optional<AttrValue>& b);

}  // namespace op_row

// An attribute of a class: Field<&LeakyRelu::alpha>("alpha"). Members with an
// initializer are optional; those without, and those that are Required<T>
// (attribute_types.h), are named with RequiredField.
template <auto kMember>
constexpr AttrField Field(std::string_view name, bool is_required = false) {
  using Class = decltype(op_row::ClassOf(kMember));
  using Member = decltype(op_row::MemberOf(kMember));
  return {name,
          is_required,
          op_row::kIsTensor<Member>,
          std::is_same_v<Member, Subgraph>,
          [](const void* op) {
            return op_row::Transport<Member>::Get(
                static_cast<const Class*>(op)->*kMember);
          },
          [](void* op, AttrValue value) {
            return op_row::Transport<Member>::Set(
                &(static_cast<Class*>(op)->*kMember), std::move(value));
          },
          std::is_same_v<Member, std::vector<TensorType>>};
}
template <auto kMember>
constexpr AttrField RequiredField(std::string_view name) {
  return Field<kMember>(name, true);
}

// Formal inputs and outputs: {"X", Optional("B"), Variadic("rest")}.
constexpr Param Optional(const char* name) {
  return {name, Param::Kind::kOptional};
}
constexpr Param Variadic(const char* name) {
  return {name, Param::Kind::kVariadic};
}

namespace op_row {

template <typename Class>
constexpr auto FieldsOf() {
  if constexpr (requires { Class::Fields(); }) {
    return Class::Fields();
  } else {
    return std::array<AttrField, 0>{};
  }
}
template <typename Class>
inline constexpr auto kFieldsOf = FieldsOf<Class>();

// The erased pointer is to the public class, even if `made` is of a derived
// one.
template <typename Class>
std::shared_ptr<void> Erased(std::shared_ptr<Class> made) {
  return made;
}
template <typename Class, typename Rules>
const Rules& RulesOf(const void* op) {
  return static_cast<const Rules&>(*static_cast<const Class*>(op));
}

}  // namespace op_row

// A list of attributes: static constexpr auto Fields() { return
// FieldList(...);}
template <typename... Fields>
constexpr auto FieldList(Fields... fields) {
  return std::array<AttrField, sizeof...(Fields)>{fields...};
}

// Makes the row of an operator from its public class and its rules, a class
// that is derived from it: Row<ops::LeakyRelu, LeakyRelu>({...}). The rules
// have Fields() if there are attributes, Check(in) if there are restrictions,
// Infer(in) or Infer(in, num_outputs), Evaluate(args), Flops(in, out) if the
// operator calculates, LeastBound(args) and BoundsAt(args, output, elements,
// bounds) if it is sums of products, and SupportOn(target, in) if there are
// targets that it cannot run on, or not at its best. An operator of a test may
// be both in one class. `row` holds everything but the functions.
template <typename Class, typename Rules = Class>
constexpr OperatorDef Row(OperatorDef row) {
  static_assert(std::is_base_of_v<Class, Rules>);
  row.fields = absl::MakeConstSpan(op_row::kFieldsOf<Rules>.data(),
                                   op_row::kFieldsOf<Rules>.size());
  row.type = &kTypeTag<Class>;
  row.make = [] { return op_row::Erased<Class>(std::make_shared<Rules>()); };
  row.copy = [](const void* attributes) {
    auto made = std::make_shared<Rules>();
    static_cast<Class&>(*made) = *static_cast<const Class*>(attributes);
    auto erased = op_row::Erased<Class>(std::move(made));
    op_row::OwnTensors(op_row::kFieldsOf<Rules>, erased.get());
    return erased;
  };
  row.equal = [](const void* a, const void* b) {
    for (const AttrField& field : op_row::kFieldsOf<Rules>) {
      if (!op_row::SameAttr(field.get(a), field.get(b))) return false;
    }
    return true;
  };
  row.check = [](const void* op, const Inputs& inputs) -> absl::Status {
    const Rules& rules = op_row::RulesOf<Class, Rules>(op);
    if constexpr (requires { rules.Check(inputs); }) {
      return rules.Check(inputs);
    } else {
      return absl::OkStatus();
    }
  };
  row.infer = [](const void* op, const Inputs& inputs,
                 size_t num_outputs) -> absl::StatusOr<OutputInfos> {
    const Rules& rules = op_row::RulesOf<Class, Rules>(op);
    if constexpr (requires { rules.Infer(inputs, num_outputs); }) {
      return rules.Infer(inputs, num_outputs);
    } else {
      return rules.Infer(inputs);
    }
  };
  row.evaluate = [](const void* op, EvalArgs& args) -> absl::Status {
    return op_row::RulesOf<Class, Rules>(op).Evaluate(args);
  };
  row.flops = [](const void* op, const Inputs& inputs,
                 absl::Span<const OutputInfo> outputs) -> double {
    const Rules& rules = op_row::RulesOf<Class, Rules>(op);
    if constexpr (requires { rules.Flops(inputs, outputs); }) {
      return rules.Flops(inputs, outputs);
    } else {
      return 0;
    }
  };
  if constexpr (requires { &Rules::LeastBound; }) {
    row.least_bound = [](const void* op, const EvalArgs& args) {
      return op_row::RulesOf<Class, Rules>(op).LeastBound(args);
    };
    row.bounds_at = [](const void* op, const EvalArgs& args,
                       const NDArray& output,
                       absl::Span<const int64_t> elements, Bounds* bounds) {
      return op_row::RulesOf<Class, Rules>(op).BoundsAt(args, output, elements,
                                                        bounds);
    };
  }
  if constexpr (requires { &Rules::SupportOn; }) {
    row.support = [](const void* op, const TargetTraits& target,
                     const Inputs& inputs) -> Support {
      return op_row::RulesOf<Class, Rules>(op).SupportOn(target, inputs);
    };
  }
  return row;
}

// Makes the row of an operator of ONNX's own domain of which no more is to be
// said.
template <typename Class, typename Rules = Class>
constexpr OperatorDef Row(std::string_view name, int since,
                          const RowList<Param, 16>& inputs,
                          const RowList<Param, 16>& outputs,
                          ErrorBound bound = kExact,
                          const OperatorTraits& traits = {}) {
  return Row<Class, Rules>({.name = name,
                            .since = since,
                            .inputs = inputs,
                            .outputs = outputs,
                            .bound = bound,
                            .traits = traits});
}

}  // namespace nodewise
