#pragma once

namespace nodewise {

// While one lives, operations that this thread adds to networks do not keep
// what is known of their outputs' elements, from which the shapes of others
// follow.
class ForgottenElements {
 public:
  ForgottenElements();
  ~ForgottenElements();
  ForgottenElements(const ForgottenElements&) = delete;
  ForgottenElements& operator=(const ForgottenElements&) = delete;

 private:
  bool before_;
};

}  // namespace nodewise
