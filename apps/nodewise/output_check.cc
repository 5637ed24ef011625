#include "apps/nodewise/output_check.h"

#include "nodewise/support/words.h"

namespace nodewise {

void ShowCheck(const OutputCheck& check, Outcome* outcome) {
  outcome->text += Printable(check.text) + "\n";
  outcome->json.BeginObject("plain_run");
  outcome->json.Add("same_bits", check.same);
  outcome->json.Add("text", check.text);
  outcome->json.EndObject();
  if (!check.same && outcome->status == Outcome::Status::kOk) {
    outcome->status = Outcome::Status::kDiffers;
  }
}

}  // namespace nodewise
