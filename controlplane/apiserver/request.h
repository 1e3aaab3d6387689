// What the API layer knows of a request beside its body.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "controlplane/auth/user.h"
#include "kube/api/codec.h"

namespace ghostfleet::controlplane {

struct RequestContext {
  UserInfo user;
  std::string user_agent;
  std::string field_manager;  // given, or the User-Agent up to '/'
  bool dry_run = false;
  kube::FieldValidation validation = kube::FieldValidation::kWarn;
  std::vector<std::string> warnings;  // for Warning headers, in order, without duplicates
  // Inside the process (controllers, scheduler): authorization and admission by user are skipped.
  bool internal = false;

  void warn(std::string text);
};

}  // namespace ghostfleet::controlplane
