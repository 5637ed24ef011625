#include "contrib/foreign/foreign_protocol.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/file.h"
#include "nodewise/support/json_writer.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// Reads a regular file in a folder into the memory that `room_for` has for so
// many bytes. A file that shrinks meanwhile is refused, and one that grows is
// read as far as there is room.
absl::Status ReadIn(
    int folder, const std::string& name,
    absl::FunctionRef<absl::StatusOr<void*>(uint64_t size)> room_for) {
  // O_NONBLOCK: a named pipe must be refused, not waited for.
  const OpenDescriptor file(openat(
      folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0 && errno == ELOOP) {
    return DataLoss("{}: is a link, expected a regular file", name);
  }
  if (file.get() < 0) return SystemError(name, "cannot open");
  struct stat status;
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return DataLoss("{}: is not a regular file, expected one", name);
  }
  const auto size = static_cast<size_t>(status.st_size);
  NODEWISE_ASSIGN_OR_RETURN(void* const data, room_for(size));
  for (size_t done = 0; done < size;) {
    const ssize_t got =
        read(file.get(), static_cast<char*>(data) + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(name + ": was cut while it was read");
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

using Json = nlohmann::json;

constexpr const char* kRequestFile = "request.json";
constexpr const char* kAnswerFile = "answer.json";
// A program that knows another version would read other members, so it is
// refused.
constexpr uint64_t kVersion = 1;
// How large an answer may be: so much, and so much for each tensor and repeat.
constexpr size_t kAnswerBytes = 1 << 16;
constexpr size_t kAnswerBytesOfTensor = 1 << 13;
// A side of a tensor of a case lies so deep, and nothing lies deeper. The
// parser recurses, and a hostile text of a few kilobytes could end the process
// otherwise.
constexpr int kMostDepth = 6;
constexpr size_t kAnswerBytesOfRepeat = 24;
// A refusal may quote a whole log.
constexpr size_t kMostRefusal = 2000;  // Characters.

// Today's names: the old ones of the 8-bit floats are known to TVM alone.
std::string DTypeName(DLDataType dtype) {
  if (dtype.code == kDTypeE4M3 && dtype.lanes == 1) return "float8_e4m3fn";
  if (dtype.code == kDTypeE5M2 && dtype.lanes == 1) return "float8_e5m2";
  return ToString(dtype);
}

// Says what is wrong at a place in the answer; empty: with all of it.
template <typename... Args>
absl::Status BadAnswer(const std::string& place,
                       fmt::format_string<const Args&...> what,
                       const Args&... args) {
  return DataLoss("{}:{}{} {}", kAnswerFile, place, place.empty() ? "" : ":",
                  fmt::format(what, args...));
}

absl::Status NotAnObjectError(const std::string& place) {
  return BadAnswer(place, "is not an object, expected one");
}

// A member that must be a text; empty where it is optional and not there.
absl::StatusOr<std::string> TextIn(const Json& object, const char* key,
                                   const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end()) return std::string();
  if (!found->is_string()) {
    return BadAnswer(place + "/" + key, "is not a string, expected one");
  }
  return found->get<std::string>();
}

// Whether a text can only be the name of a file in a folder. The name goes to
// openat() in the folder of outputs: a slash or a leading dot could lead out of
// it.
bool IsPlainName(std::string_view name) {
  constexpr std::string_view kOther = "._-";
  constexpr size_t kMostNameBytes = 200;
  return !name.empty() && name.size() <= kMostNameBytes && name[0] != '.' &&
         std::ranges::all_of(name, [&](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  kOther.find(c) != std::string_view::npos;
         });
}

absl::StatusOr<std::vector<int64_t>> ReadShape(const Json& object,
                                               const std::string& place) {
  const auto found = object.find("shape");
  if (found == object.end() || !found->is_array() ||
      found->size() > static_cast<size_t>(kMostDims)) {
    return BadAnswer(place + "/shape",
                     "is not a list of at most {} sizes, expected one",
                     kMostDims);
  }
  std::vector<int64_t> shape;
  for (const Json& side : *found) {
    const bool is_size =
        side.is_number_unsigned() && side.get<uint64_t>() <= INT64_MAX;
    if (!is_size) {
      return BadAnswer(place + "/shape",
                       "side {} is not a size, expected a whole number",
                       shape.size());
    }
    shape.push_back(side.get<int64_t>());
  }
  return shape;
}

bool IsWhole(DLDataType dtype) { return IsInteger(dtype) || IsBool(dtype); }

// Whether a program says the same numbers in another way, as some runtimes do:
// with more or fewer sides of 1, or as whole numbers of another type.
bool DifferInForm(const TensorType& type, const TensorType& asked) {
  if (!asked.is_static() || !type.is_static()) return false;
  if (type.dtype != asked.dtype &&
      !(IsWhole(type.dtype) && IsWhole(asked.dtype))) {
    return false;
  }
  std::vector<int64_t> a = *type.sizes();
  std::vector<int64_t> b = *asked.sizes();
  std::erase(a, 1);
  std::erase(b, 1);
  return a == b;
}

absl::StatusOr<AnsweredTensor> ReadTensorEntry(const Json& object,
                                               const AskedTensor& asked,
                                               const std::string& place) {
  AnsweredTensor tensor;
  NODEWISE_ASSIGN_OR_RETURN(tensor.why_absent, TextIn(object, "absent", place));
  if (!tensor.why_absent.empty()) {
    tensor.why_absent = Printable(Shortened(tensor.why_absent));
    return tensor;
  }
  NODEWISE_ASSIGN_OR_RETURN(tensor.file, TextIn(object, "file", place));
  if (!IsPlainName(tensor.file)) {
    return BadAnswer(place + "/file",
                     "found \"{}\", expected the name of a file in "
                     "the folder of outputs: letters, digits and ._-",
                     Printable(Shortened(tensor.file)));
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::string dtype,
                            TextIn(object, "dtype", place));
  const auto parsed = ParseDType(dtype);
  // A text may name a type that no tensor here can have.
  const absl::Status is_type =
      parsed.ok() ? CheckDType(*parsed) : parsed.status();
  if (!is_type.ok())
    return BadAnswer(place + "/dtype", "{}", MessageOf(is_type));
  tensor.dtype = *parsed;
  NODEWISE_ASSIGN_OR_RETURN(tensor.shape, ReadShape(object, place));
  const Shape sides(tensor.shape.begin(), tensor.shape.end());
  const TensorType type(tensor.dtype, sides);
  const auto bytes = TensorBytes(tensor.shape, tensor.dtype);
  if (!bytes.ok())
    return BadAnswer(place + "/shape", "{}", MessageOf(bytes.status()));
  // Another type is not an error yet: the caller knows whether the tensor is an
  // output or only one to look at.
  if (AreCompatible(type, asked.type)) return tensor;
  tensor.misfit = fmt::format("{} is {}, expected {}", Printable(asked.name),
                              ToString(type), ToString(asked.type));
  tensor.differs_in_form = DifferInForm(type, asked.type);
  return tensor;
}

// Reads the tensors that an answer, or what it says of a case, lists.
absl::StatusOr<std::vector<AnsweredTensor>> ReadTensors(
    const Json& document, absl::Span<const AskedTensor> asked,
    const std::string& of = "") {
  const std::string all = of + "/outputs";
  const auto list = document.find("outputs");
  if (list == document.end() || !list->is_array()) {
    return BadAnswer(all, "is not a list, expected one");
  }
  if (list->size() != asked.size()) {
    return BadAnswer(all, "has {}, expected {}, as was asked for",
                     CountOf(list->size(), "tensor"), asked.size());
  }
  std::vector<AnsweredTensor> tensors;
  for (size_t i = 0; i < asked.size(); ++i) {
    const std::string place = fmt::format("{}/{}", all, i);
    const Json& object = (*list)[i];
    if (!object.is_object()) return NotAnObjectError(place);
    NODEWISE_ASSIGN_OR_RETURN(const std::string name,
                              TextIn(object, "name", place));
    // The order alone would do; the name shows an adapter that has mixed
    // tensors up.
    if (name != asked[i].name) {
      return BadAnswer(place + "/name",
                       "found \"{}\", expected \"{}\", in the order "
                       "of the request",
                       Printable(Shortened(name)), Printable(asked[i].name));
    }
    NODEWISE_ASSIGN_OR_RETURN(AnsweredTensor tensor,
                              ReadTensorEntry(object, asked[i], place));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::Status ReadDurations(const Json& document, uint64_t repeats,
                           ForeignAnswer* answer) {
  const auto list = document.find("durations_ns");
  if (list == document.end()) return absl::OkStatus();
  if (list->is_array() && list->size() == repeats) {
    for (const Json& item : *list) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > INT64_MAX) break;
      answer->durations_ns.push_back(item.get<int64_t>());
    }
    // The list was read to its end, so all of its items are times.
    if (answer->durations_ns.size() == repeats) return absl::OkStatus();
  }
  return BadAnswer("/durations_ns",
                   "is not a list of {}, expected one of whole nanoseconds",
                   CountOf(repeats, "duration"));
}

absl::Status AddBytes(const std::vector<AnsweredTensor>& tensors,
                      uint64_t most_bytes, uint64_t* bytes) {
  for (const AnsweredTensor& tensor : tensors) {
    if (tensor.file.empty()) continue;
    const uint64_t more = *TensorBytes(tensor.shape, tensor.dtype);
    // Written so that the sum cannot overflow.
    if (more > most_bytes - *bytes) {
      return BadAnswer("/outputs", "take more than {} bytes, expected no more",
                       most_bytes);
    }
    *bytes += more;
  }
  return absl::OkStatus();
}

// Writes the inputs of a model as files, and the list of them. The names of the
// files begin with `prefix`.
absl::Status WriteInputs(absl::Span<const NamedTensor> inputs,
                         const std::string& prefix, const ForeignFolder& folder,
                         JsonWriter* json) {
  json->BeginArray("inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                              inputs[i].tensor.CopyToHost());
    NODEWISE_ASSIGN_OR_RETURN(
        const std::string file,
        folder.Write(
            fmt::format("{}input_{}.bin", prefix, i),
            {static_cast<const char*>(tensor.data()), tensor.bytes()}));
    json->BeginObject();
    json->Add("name", inputs[i].name);
    json->Add("dtype", DTypeName(tensor.dtype()));
    json->Add("shape", tensor.shape());
    json->Add("file", file);
    json->EndObject();
  }
  json->EndArray();
  return absl::OkStatus();
}

absl::Status AddModel(const ForeignRequest& request, const std::string& prefix,
                      const ForeignFolder& folder, JsonWriter* json) {
  json->Add("model", request.model);
  NODEWISE_RETURN_IF_ERROR(WriteInputs(request.inputs, prefix, folder, json));
  std::vector<std::string> names;
  for (const AskedTensor& each : request.asked) names.push_back(each.name);
  json->Add("outputs", names);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Finish(const ForeignFolder& folder,
                                   JsonWriter* json) {
  // A program in another working directory gets whole paths.
  json->Add("output_folder", folder.outputs_path());
  json->Add("answer", folder.path() + "/" + kAnswerFile);
  return folder.Write(kRequestFile, json->Document());
}

absl::StatusOr<Json> ReadDocument(const ForeignFolder& folder,
                                  size_t most_bytes) {
  auto text = folder.Read(kAnswerFile, most_bytes);
  // The file that the program was to write is the only word that it has done
  // so.
  if (absl::IsNotFound(text.status())) {
    return BadAnswer("", "was not written, expected what it has computed");
  }
  NODEWISE_RETURN_IF_ERROR(text.status());
  bool is_deep = false;
  // The parser stops at the first value that lies too deep; without exceptions
  // it does not say why it has.
  const auto see = [&](int depth, Json::parse_event_t, Json&) {
    is_deep = is_deep || depth > kMostDepth;
    return depth <= kMostDepth;
  };
  Json document = Json::parse(*text, see, /*allow_exceptions=*/false);
  if (is_deep) return BadAnswer("", "is nested too deeply");
  if (!document.is_object()) {
    return BadAnswer("", "is not a JSON object, expected one");
  }
  const auto version = document.find("version");
  if (version == document.end() || *version != kVersion) {
    return BadAnswer("/version", "expected {}", kVersion);
  }
  return document;
}

absl::StatusOr<std::vector<AnsweredTensor>> ReadCase(
    const Json& object, absl::Span<const AskedTensor> asked,
    const std::string& place) {
  if (!object.is_object()) return NotAnObjectError(place);
  NODEWISE_ASSIGN_OR_RETURN(const std::string refused,
                            TextIn(object, "refused", place));
  if (!refused.empty()) {
    return absl::UnavailableError(Printable(refused.substr(0, kMostRefusal)));
  }
  NODEWISE_ASSIGN_OR_RETURN(std::vector<AnsweredTensor> tensors,
                            ReadTensors(object, asked, place));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].misfit.empty()) continue;
    return BadAnswer(fmt::format("{}/outputs/{}", place, i), "{}",
                     tensors[i].misfit);
  }
  return tensors;
}

}  // namespace
absl::StatusOr<ForeignFolder> ForeignFolder::Create() {
  // Descriptors of both folders are kept from now on, so that nothing which
  // takes their place later is read or written.
  NODEWISE_ASSIGN_OR_RETURN(TemporaryFolder made,
                            TemporaryFolder::Create("nodewise_foreign"));
  ForeignFolder folder(std::move(made));
  constexpr int kOpen = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  folder.opened_ = OpenDescriptor(open(folder.path().c_str(), kOpen));
  const int opened = folder.opened_.get();
  if (opened < 0 || mkdirat(opened, "outputs", 0700) != 0) {
    return SystemError(folder.outputs_path(), "cannot make a folder");
  }
  folder.outputs_ = OpenDescriptor(openat(opened, "outputs", kOpen));
  if (folder.outputs_.get() < 0) {
    return SystemError(folder.outputs_path(), "cannot open");
  }
  return folder;
}

absl::StatusOr<std::string> ForeignFolder::Write(const std::string& name,
                                                 std::string_view data) const {
  std::string path = this->path() + "/" + name;
  NODEWISE_ASSIGN_OR_RETURN(GrowingFile file, GrowingFile::Create(path));
  NODEWISE_RETURN_IF_ERROR(file.Write(data.data(), data.size()));
  NODEWISE_RETURN_IF_ERROR(file.Close());
  return path;
}

absl::StatusOr<std::string> ForeignFolder::WriteModel(
    const std::string& bytes, const UserModel* file) const {
  if (file == nullptr || file->external_files().empty()) {
    return Write("model.onnx", bytes);
  }
  // The model gets a folder of its own, in which no file of ours has the name
  // of a file of weights.
  const fs::path folder = fs::path(path()) / "model";
  const fs::path from = fs::path(file->path()).parent_path();
  std::error_code error;
  for (const std::string& name : file->external_files()) {
    fs::create_directories((folder / name).parent_path(), error);
    // Runtimes refuse links that lead out of the model's folder.
    fs::create_hard_link(from / name, folder / name, error);
    if (error) fs::copy_file(from / name, folder / name, error);
    if (error) {
      return Unavailable("{}: cannot be had beside a copy of its model: {}",
                         (from / name).string(), error.message());
    }
  }
  std::string name = "model/model.onnx";
  // A file of weights could be called as the model is.
  while (file->external_files().contains(name.substr(6))) name += ".onnx";
  return Write(name, bytes);
}

absl::StatusOr<std::string> ForeignFolder::Read(const std::string& name,
                                                size_t most_bytes) const {
  std::string text;
  const auto room_for = [&](uint64_t size) -> absl::StatusOr<void*> {
    if (size > most_bytes) {
      return DataLoss("{}: has {} bytes, expected {} at most", name, size,
                      most_bytes);
    }
    text.resize(size);
    return text.data();
  };
  NODEWISE_RETURN_IF_ERROR(ReadIn(opened_.get(), name, room_for));
  return text;
}

absl::StatusOr<NDArray> ForeignFolder::ReadOutput(
    const std::string& name, absl::Span<const int64_t> shape,
    DLDataType dtype) const {
  NDArray tensor;
  const auto room_for = [&](uint64_t size) -> absl::StatusOr<void*> {
    const size_t expected = *TensorBytes(shape, dtype);
    // Checked before memory is taken: an answer may claim more than the file
    // holds.
    if (size != expected) {
      return DataLoss("{}: has {} bytes, expected {} for {}", name, size,
                      expected, TypeToString(shape, dtype));
    }
    NODEWISE_ASSIGN_OR_RETURN(tensor, NDArray::Empty(shape, dtype, kCpu));
    return tensor.data();
  };
  NODEWISE_RETURN_IF_ERROR(ReadIn(outputs_.get(), name, room_for));
  return tensor;
}

absl::StatusOr<std::string> WriteRequest(const ForeignRequest& request,
                                         const ForeignFolder& folder) {
  JsonWriter json;
  json.Add("version", kVersion);
  NODEWISE_RETURN_IF_ERROR(AddModel(request, "", folder, &json));
  json.Add("repeats", request.repeats);
  return Finish(folder, &json);
}

absl::StatusOr<std::string> WriteCases(absl::Span<const ForeignRequest> cases,
                                       const ForeignFolder& folder) {
  JsonWriter json;
  json.Add("version", kVersion);
  json.BeginArray("cases");
  for (size_t i = 0; i < cases.size(); ++i) {
    json.BeginObject();
    NODEWISE_RETURN_IF_ERROR(
        AddModel(cases[i], fmt::format("case_{}_", i), folder, &json));
    json.EndObject();
  }
  json.EndArray();
  return Finish(folder, &json);
}

absl::StatusOr<ForeignAnswer> ReadAnswer(const ForeignFolder& folder,
                                         const ForeignRequest& request,
                                         uint64_t most_bytes) {
  NODEWISE_ASSIGN_OR_RETURN(
      const Json document,
      ReadDocument(folder, kAnswerBytes +
                               kAnswerBytesOfTensor * request.asked.size() +
                               kAnswerBytesOfRepeat * request.repeats));
  ForeignAnswer answer;
  NODEWISE_ASSIGN_OR_RETURN(const std::string runtime,
                            TextIn(document, "runtime", ""));
  answer.runtime = Printable(Shortened(runtime));
  const auto takes_cases = document.find("takes_cases");
  // A program that does not know the member leaves it out, and one with another
  // type there says no.
  answer.takes_cases = takes_cases != document.end() && *takes_cases == true;
  NODEWISE_ASSIGN_OR_RETURN(answer.tensors,
                            ReadTensors(document, request.asked));
  NODEWISE_RETURN_IF_ERROR(ReadDurations(document, request.repeats, &answer));
  uint64_t bytes = 0;
  NODEWISE_RETURN_IF_ERROR(AddBytes(answer.tensors, most_bytes, &bytes));
  return answer;
}

absl::StatusOr<std::vector<AnsweredCase>> ReadCases(
    const ForeignFolder& folder, absl::Span<const ForeignRequest> cases,
    uint64_t most_bytes) {
  size_t tensors = 0;
  for (const ForeignRequest& each : cases) tensors += each.asked.size();
  const size_t most =
      kAnswerBytes + kAnswerBytesOfTensor * (tensors + cases.size());
  NODEWISE_ASSIGN_OR_RETURN(const Json document, ReadDocument(folder, most));
  const auto list = document.find("cases");
  if (list == document.end() || !list->is_array() ||
      list->size() != cases.size()) {
    return BadAnswer("/cases", "is not a list of {}, expected one",
                     CountOf(cases.size(), "case"));
  }
  // A case that is refused or garbled says nothing about the others, which may
  // have taken minutes to compute.
  std::vector<AnsweredCase> answers;
  uint64_t bytes = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    AnsweredCase answer =
        ReadCase((*list)[i], cases[i].asked, fmt::format("/cases/{}", i));
    if (answer.ok()) {
      NODEWISE_RETURN_IF_ERROR(AddBytes(*answer, most_bytes, &bytes));
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace nodewise
