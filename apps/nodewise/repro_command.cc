
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/diagnose/repro_folders.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ops/ops.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/report/run_report.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/repro/write_repro.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// More parts than a network has nodes leave most of them empty.
constexpr uint64_t kMostShards = 1'000'000;

// One of `count` parts of a list: every count-th item, from this one on.
struct Shard {
  uint64_t index = 1, count = 1;
};

// Parts are for machines that share the work: together they have every node,
// and none twice.
absl::StatusOr<Shard> ParseShard(const std::string& text) {
  Shard shard;
  if (text.empty()) return shard;
  if (ReadShard(text, &shard.index, &shard.count) &&
      shard.count <= kMostShards) {
    return shard;
  }
  return BadValue("--shard", Printable(text),
                  "I/N, such as 1/4 for the first of four parts");
}

// Runs the network once and writes nodes as folders, each with the inputs that
// the node had in that run.
class WriteRepros : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddLoadOptions(options, &load_);
    options->Add({
        {"--node", "NAME",
         "the node, by its name or that of an operation in it", &node_},
        {"--all-nodes", "",
         "every node that computes something else than those before it, each "
         "in a folder of its own in DIR",
         &all_nodes_},
        {"--shard", "I/N", "with --all-nodes: the I-th of N parts of them",
         &shard_},
        {"-o,--output", "DIR", "the folder to write", &output_},
        {"--shrink-runs", "N",
         "how often a wrong node runs at most, to make its inputs simpler; 0: "
         "they stay as they are (64)",
         NumberOption{&shrink_runs_, 0, 1'000'000}},
        {"--anonymous", "",
         "the folders may be given to strangers: names are replaced, and "
         "weights and inputs where the failure survives it; what stays is "
         "listed",
         &is_anonymous_},
    });
  }

  absl::StatusOr<Report> Run() override {
    NODEWISE_RETURN_IF_ERROR(CheckOptions());
    NODEWISE_ASSIGN_OR_RETURN(const Shard shard, ParseShard(shard_));
    // A folder must be new: files of an older case in it would be taken for
    // those of the new one.
    NODEWISE_RETURN_IF_ERROR(CheckReproFolder(output_));
    Report report;
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded, LoadTarget(load_, &report));
    if (report.status != Report::Status::kOk) return report;
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<ReproFolder> folders,
                              Choose(*loaded.target, shard));
    ShowTarget(loaded, &report);
    // One node goes into the folder itself, many into folders below it.
    if (all_nodes_) NODEWISE_RETURN_IF_ERROR(MakeReproRoot(output_));
    ReproFolderOptions options;
    options.shrink.most_runs = shrink_runs_.value_or(options.shrink.most_runs);
    options.is_anonymous = is_anonymous_;
    // What was written before an error is not reported, but stays.
    WrittenRepros written;
    const absl::Status status = WriteReproFolders(
        loaded.target, loaded.NamedInputs(), folders, options, &written);
    if (!status.ok()) return At(loaded.name, status);
    ShowRepros(written, &report);
    return report;
  }

 private:
  absl::Status CheckOptions() const {
    if (output_.empty()) {
      return InvalidArgument("-o: is missing, expected the folder to write");
    }
    // --node and --all-nodes exclude each other, and one of them is needed.
    if (node_.empty() != all_nodes_) {
      return InvalidArgument("--node: expected a node, or --all-nodes instead");
    }
    if (!shard_.empty() && !all_nodes_) {
      return InvalidArgument("--shard: means nothing without --all-nodes");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<ReproFolder>> Choose(const GraphTarget& target,
                                                  const Shard& shard) const {
    std::vector<ReproFolder> folders;
    const GraphIndex& index = target.index();
    if (!all_nodes_) {
      // Compilers fuse operations, and the user may know the name of one of
      // them.
      auto node = index.FindNode(node_);
      if (!node.ok()) {
        const auto covering = NodeCovering(target.graph(), node_);
        if (!covering.has_value()) return At("--node", node.status());
        node = *covering;
      }
      folders.push_back({*node, output_});
      return folders;
    }
    // A node keeps its number in every part.
    const std::vector<NodeId> nodes =
        DistinctNodes(target.graph(), AllOperators());
    for (size_t i = shard.index - 1; i < nodes.size(); i += shard.count) {
      // The folder's name must not tell what its content hides.
      const std::string name =
          is_anonymous_ ? HiddenName(target.graph(), nodes[i], AllOperators())
                        : index.KeyOf(nodes[i]);
      folders.push_back({nodes[i], ReproPath(output_, i + 1, name)});
    }
    return folders;
  }

  LoadOptions load_;
  std::string node_, shard_, output_;
  bool all_nodes_ = false, is_anonymous_ = false;
  std::optional<uint64_t> shrink_runs_;
};

}  // namespace

const CommandRow kReproCommand = {
    "repro", "cuts a node out as a folder that shows what it computes",
    R"(examples:
  nodewise repro net --random-inputs 1 --node conv1 -o conv1
  cd conv1 && nodewise locate . --inputs data/inputs.params
  nodewise repro model.onnx --random-inputs 1 --all-nodes -o cases
  nodewise repro net --inputs x.npz --all-nodes --shard 1/4 -o cases
  nodewise repro net --inputs x.npz --node conv1 --anonymous -o conv1

The folder can be moved anywhere; its README has the one command. For a node
that is wrong, nodewise locate --repro DIR writes it by itself.

Exit status: 0 it was written, 2 it was not.
)",
    &MakeCommand<WriteRepros>,
    /*runs_code=*/true};

}  // namespace nodewise
