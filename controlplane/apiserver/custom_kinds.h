// CustomKinds: follows the CustomResourceDefinitions and serves what they define, from the moment they are written.
//
// Thread rule: its listener runs on the thread of whoever writes a definition. Outlives every request.
#pragma once

#include <memory>

#include "controlplane/apiserver/api_impl.h"

namespace ghostfleet::controlplane {

class CustomKinds {
 public:
  static std::unique_ptr<CustomKinds> create(ApiImpl& api);

 private:
  explicit CustomKinds(ApiImpl& api) : api_(api) {}
  void follow(const ObjectRef& definition, bool gone);
  void establish(const kube::Json& definition);

  ApiImpl& api_;
};

}  // namespace ghostfleet::controlplane
