// What the rows of operators need beyond their templates: attributes on their
// way between members of classes and files, known elements, and the set of all
// rows.

#include "nodewise/op/op_def.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/op/op_row.h"
#include "nodewise/random/random.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A TextMemo holds no more bytes of texts.
constexpr size_t kMostBytes = size_t{16} << 20;

// A message lists so many faults of attributes: a hostile model may have any
// number of them.
constexpr size_t kMostProblems = 20;

constexpr const char* kKinds[] = {
    "an integer",       "a float",           "a string", "a list of integers",
    "a list of floats", "a list of strings", "a tensor", "a graph"};
static_assert(std::size(kKinds) == std::variant_size_v<AttrValue>);

bool IsIndexType(DLDataType dtype) {
  return dtype.code == kDLInt && dtype.lanes == 1 &&
         (dtype.bits == 32 || dtype.bits == 64);
}

// REQUIRES: a compact host tensor of int32 or int64. Constants of mapped files
// may lie at any address, so that they are copied out and not read in place.
std::vector<int64_t> IntsOf(const NDArray& tensor) {
  const size_t width = ElementBytes(tensor.dtype());
  std::vector<int64_t> numbers(tensor.bytes() / width);
  const char* from = tensor.As<const char>();
  for (int64_t& number : numbers) {
    int32_t narrow = 0;
    if (width == sizeof(narrow)) {
      std::memcpy(&narrow, from, width);
      number = narrow;
    } else {
      std::memcpy(&number, from, width);
    }
    from += width;
  }
  return numbers;
}

bool IsHost(const NDArray& tensor) {
  return tensor.defined() && DeviceTypeOf(tensor.device()) == kDLCPU &&
         IsCompact(*tensor);
}

// Compares bit by bit: NaN equals NaN, but 0 does not equal -0.
bool Same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}
bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return Same(x, y); });
}
bool Same(const NDArray& a, const NDArray& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.tensor() == b.tensor()) return true;
  if (!(a.dtype() == b.dtype()) || a.shape() != b.shape()) return false;
  if (!IsHost(a) || !IsHost(b)) return false;
  const size_t size = a.bytes();
  return size == 0 || std::memcmp(a.data(), b.data(), size) == 0;
}
template <typename T>
bool Same(const T& a, const T& b) {
  return a == b;
}

// A word that is nearly an attribute is most likely one that is misspelt.
std::string UnknownAttr(const OperatorDef& def, std::string_view name) {
  std::vector<std::string> known;
  for (const AttrField& field : def.fields) known.emplace_back(field.name);
  return fmt::format("attribute {}: {} has none of that name{}",
                     Shortened(name), def.name, DidYouMean(name, known));
}

// The giver of a tensor may still write to it, so it is copied.
absl::Status SetField(const AttrField& field, AttrValue value, void* op) {
  if (NDArray* const tensor = std::get_if<NDArray>(&value)) {
    if (!tensor->defined()) {
      return InvalidArgument("is a tensor without data");
    }
    NODEWISE_ASSIGN_OR_RETURN(*tensor, tensor->CopyToHost());
    tensor->MakeReadOnly();
  }
  return field.set(op, std::move(value));
}

// Returns whether a value says nothing, as one that was left out does. Empty
// texts say something to some operators, and bodies are checked elsewhere.
bool IsEmpty(const std::optional<AttrValue>& value) {
  if (!value.has_value()) return true;
  return std::visit(
      [](const auto& given) {
        using Given = std::decay_t<decltype(given)>;
        if constexpr (std::is_same_v<Given, NDArray>) return !given.defined();
        constexpr bool kIsText = std::is_same_v<Given, std::string>;
        if constexpr (!kIsText && requires { given.empty(); }) {
          return given.empty();
        }
        return false;
      },
      *value);
}

// Sets one attribute; returns what is wrong with it, or "". Operators have a
// few attributes each, for which a walk is faster than an index.
std::string SetAttr(const OperatorDef& def, const NamedAttr& attr, void* op,
                    std::vector<bool>* is_set) {
  const auto field = std::ranges::find(def.fields, attr.name, &AttrField::name);
  if (field == def.fields.end()) return UnknownAttr(def, attr.name);
  const auto i = static_cast<size_t>(field - def.fields.begin());
  if ((*is_set)[i]) {
    return fmt::format("attribute {}: is given twice", field->name);
  }
  (*is_set)[i] = true;
  const absl::Status status = SetField(*field, attr.value, op);
  if (status.ok()) return "";
  return fmt::format("attribute {}: {}", field->name, MessageOf(status));
}

using Params = RowList<Param, 16>;

// Optional parameters may stand before required ones, which then take their
// place in the list as empty inputs.
size_t FewestOf(const Params& params) {
  size_t fewest = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].kind == Param::Kind::kRequired) fewest = i + 1;
  }
  return fewest;
}

size_t MostOf(const Params& params) {
  const auto* const variadic =
      std::ranges::find(params, Param::Kind::kVariadic, &Param::kind);
  return variadic == params.end() ? params.size() : SIZE_MAX;
}

// The order in which OpSet keeps its rows: Find() looks for the last that is
// not newer than the opset.
auto OrderOf(const OperatorDef* row) {
  return std::tuple(row->domain, row->name, row->since);
}

}  // namespace

namespace op_row {

// Numbers are shown, since a wrong one tells more than its kind; lists and
// tensors may be large.
absl::Status WrongKind(std::string_view expected, const AttrValue& found) {
  const int64_t* const number = std::get_if<int64_t>(&found);
  return InvalidArgument(
      "is {}, expected {}",
      number != nullptr ? std::to_string(*number) : kKinds[found.index()],
      expected);
}

absl::Status WrongKind(size_t expected, const AttrValue& found) {
  return WrongKind(kKinds[expected], found);
}

absl::Status UnknownWord(std::string_view found,
                         absl::Span<const std::string_view> allowed) {
  return InvalidArgument("is \"{}\", expected one of \"{}\"", Shortened(found),
                         fmt::join(allowed, "\", \""));
}

std::optional<AttrValue> Transport<DLDataType>::Get(DLDataType member) {
  const auto number = OnnxNumberOf(member);
  if (!number.has_value()) return std::nullopt;
  return AttrValue(*number);
}

absl::Status Transport<DLDataType>::Set(DLDataType* member, AttrValue value) {
  const int64_t* const number = std::get_if<int64_t>(&value);
  if (number == nullptr) return WrongKind("the number of a type", value);
  NODEWISE_ASSIGN_OR_RETURN(*member, DTypeFromOnnx(*number));
  return absl::OkStatus();
}

std::optional<AttrValue> Transport<std::vector<TensorType>>::Get(
    const std::vector<TensorType>& member) {
  std::vector<std::string> texts;
  for (const TensorType& type : member) texts.push_back(ToString(type));
  return AttrValue(std::move(texts));
}

absl::Status Transport<std::vector<TensorType>>::Set(
    std::vector<TensorType>* member, AttrValue value) {
  const auto* const texts = std::get_if<std::vector<std::string>>(&value);
  if (texts == nullptr) return WrongKind("a list of types", value);
  std::vector<TensorType> types;
  for (const std::string& text : *texts) {
    NODEWISE_ASSIGN_OR_RETURN(TensorType type, ParseTensorType(text));
    types.push_back(std::move(type));
  }
  *member = std::move(types);
  return absl::OkStatus();
}

// Read-only tensors are shared: no holder can write to them any more.
void OwnTensors(absl::Span<const AttrField> fields, void* op) {
  for (const AttrField& field : fields) {
    if (!field.is_tensor) continue;
    auto value = field.get(op);
    NDArray* const tensor =
        value.has_value() ? std::get_if<NDArray>(&*value) : nullptr;
    if (tensor == nullptr || !tensor->defined() || tensor->is_read_only()) {
      continue;
    }
    // A tensor that cannot be copied is not there: CheckRequired() or the
    // operator's own check refuses it.
    auto copy = tensor->CopyToHost();
    if (copy.ok()) copy->MakeReadOnly();
    (void)field.set(op, copy.ok() ? *std::move(copy) : NDArray());
  }
}

bool SameAttr(const std::optional<AttrValue>& a,
              const std::optional<AttrValue>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  if (a->index() != b->index()) return false;
  return std::visit(
      [&](const auto& x) {
        return Same(x, std::get<std::decay_t<decltype(x)>>(*b));
      },
      *a);
}

}  // namespace op_row

// Elements are kept for what may be a shape: integers, few, and of at most one
// side.
std::optional<Shape> ElementsOf(const NDArray& constant) {
  if (!IsHost(constant) || !IsIndexType(constant.dtype()) ||
      constant->ndim > 1 ||
      constant.bytes() / ElementBytes(constant.dtype()) > kMostElements) {
    return std::nullopt;
  }
  Shape elements;
  for (const int64_t number : IntsOf(constant)) elements.emplace_back(number);
  return elements;
}

const InputInfo& Inputs::operator[](size_t i) const {
  static const InputInfo* const not_given = new InputInfo;
  return i < inputs_.size() ? inputs_[i] : *not_given;
}

// A constant counts even where it is too long for known elements.
std::optional<std::vector<int64_t>> Inputs::Ints(size_t i) const {
  const InputInfo& input = (*this)[i];
  if (input.constant != nullptr && IsHost(*input.constant) &&
      IsIndexType(input.constant->dtype())) {
    return IntsOf(*input.constant);
  }
  if (input.elements == nullptr) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Dim& element : *input.elements) {
    if (!element.is_known()) return std::nullopt;
    numbers.push_back(element.size());
  }
  return numbers;
}

void OpAttrs::NoOperator(CodePlace caller) {
  CheckFailed(caller.file, caller.line,
              "attributes of no operator: expected defined ones (FindDef "
              "returns null for those that are not)");
}

size_t OperatorDef::min_inputs() const { return FewestOf(inputs); }
size_t OperatorDef::max_inputs() const { return MostOf(inputs); }
size_t OperatorDef::min_outputs() const {
  return std::max<size_t>(1, FewestOf(outputs));
}
size_t OperatorDef::max_outputs() const { return MostOf(outputs); }

// Every problem is listed, not the first alone: attributes come from files,
// which are mended once.
absl::StatusOr<OpAttrs> MakeAttrs(const OperatorDef& def,
                                  absl::Span<const NamedAttr> attrs) {
  if (def.make == nullptr) {
    return InvalidArgument(
        "{}: its row was not made by Row(), expected one that was", def.name);
  }
  std::shared_ptr<void> op = def.make();
  std::vector<bool> is_set(def.fields.size(), false);
  std::vector<std::string> problems;
  const auto add = [&](std::string problem) {
    if (!problem.empty() && problems.size() < kMostProblems) {
      problems.push_back(std::move(problem));
    }
  };
  for (const NamedAttr& attr : attrs) {
    add(SetAttr(def, attr, op.get(), &is_set));
  }
  for (size_t i = 0; i < def.fields.size(); ++i) {
    if (!def.fields[i].is_required || is_set[i]) continue;
    add(fmt::format("attribute {}: is missing", def.fields[i].name));
  }
  if (problems.empty()) return OpAttrs(&def, std::move(op));
  return InvalidArgument("{}: {}", def.name, absl::StrJoin(problems, "; "));
}

// An empty list says as little as a missing one, and operators that need
// numbers would read beyond it.
absl::Status CheckRequired(const OpAttrs& attrs) {
  for (const AttrField& field : attrs.def().fields) {
    if (!field.is_required || !IsEmpty(field.get(attrs.get()))) continue;
    return InvalidArgument("attribute {}: is missing, {} needs it", field.name,
                           attrs.def().name);
  }
  return absl::OkStatus();
}

std::vector<NamedAttr> NamedAttrsOf(const OpAttrs& attrs) {
  std::vector<NamedAttr> named;
  for (const AttrField& field : attrs.def().fields) {
    auto value = field.get(attrs.get());
    if (!value.has_value()) continue;
    named.push_back({std::string(field.name), *std::move(value)});
  }
  return named;
}

// A text that was read with the old rows may mean other operators with the new
// ones, so the memory of texts starts again.
void OpSet::Add(absl::Span<const OperatorDef> rows) {
  memo_ = std::make_shared<TextMemo>();
  for (const OperatorDef& row : rows) rows_.push_back(&row);
  std::ranges::stable_sort(rows_, {}, &OrderOf);
  // A row that is added later replaces one of the same name and opset.
  size_t kept = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (kept > 0 && OrderOf(rows_[kept - 1]) == OrderOf(rows_[i])) --kept;
    rows_[kept++] = rows_[i];
  }
  rows_.resize(kept);
}

const OperatorDef* OpSet::Find(std::string_view domain, std::string_view name,
                               int opset) const {
  const auto after = std::ranges::upper_bound(
      rows_, std::tuple(domain, name, opset), {}, &OrderOf);
  if (after == rows_.begin()) return nullptr;
  const OperatorDef* const row = *std::prev(after);
  return row->domain == domain && row->name == name ? row : nullptr;
}

// Classes are found seldom, when operations are made in code, so that there is
// no index of them.
const OperatorDef* OpSet::FindType(const void* type) const {
  const OperatorDef* newest = nullptr;
  for (const OperatorDef* const row : rows_) {
    if (row->type != type) continue;
    if (newest == nullptr || row->since > newest->since) newest = row;
  }
  return newest;
}

std::vector<std::string> OpSet::Names() const {
  std::vector<std::string> names;
  for (const OperatorDef* const row : rows_) {
    if (names.empty() || names.back() != row->name) {
      names.emplace_back(row->name);
    }
  }
  return names;
}

// A lock that is taken is not waited for: in a child that was forked it may
// never be given back.
std::shared_ptr<const void> TextMemo::Find(const std::string& text) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return nullptr;
  const auto found = made_.find(text);
  return found == made_.end() ? nullptr : found->second;
}

void TextMemo::Keep(const std::string& text, std::shared_ptr<const void> made) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  ++count_made_;
  if (text.size() > kMostBytes - num_bytes_) return;
  if (made_.try_emplace(text, std::move(made)).second) {
    num_bytes_ += text.size();
  }
}

int64_t TextMemo::count_made() const {
  const std::lock_guard lock(mutex_);
  return count_made_;
}

// A Dropout has a seed, but draws only if its third input may tell it to
// train.
bool DrawsRandomNumbers(const OperatorDef& def, size_t num_inputs) {
  return std::ranges::count(def.fields, "seed", &AttrField::name) > 0 &&
         (def.name != "Dropout" || num_inputs > 2);
}

// The node's name goes into the seed, so that two Dropouts of one model drop
// different elements, and each the same ones in every run.
NamedAttr SeedOfNode(const OperatorDef& def, uint64_t seed,
                     std::string_view node) {
  // A float holds 24 bits exactly.
  const auto number =
      static_cast<int64_t>(RandomSource(seed, node).Next() >> 40);
  if (def.name == "Dropout") return {"seed", number};
  return {"seed", static_cast<float>(number)};
}

}  // namespace nodewise
