// APIServices: what another server answers.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonObject;

namespace {

constexpr int64_t kMaxGroupPriority = 20000, kMaxVersionPriority = 1000;

class ApiServiceStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    Json* spec = member(object, "spec");
    Json* service = spec == nullptr ? nullptr : member(*spec, "service");
    if (service != nullptr && service->is_object()) default_number(service->get_object(), "port", 443);
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    const Path path("spec");
    const std::string_view group = text_of(spec, "group"), version = text_of(spec, "version");
    const std::string wanted = fmt::format("{}.{}", version, group);
    if (name_of(object) != wanted) {
      out.invalid_text(Path("metadata.name"), name_of(object),
                       fmt::format("must be `spec.version+\".\"+spec.group`: {}", quoted(wanted)));
    }
    if (group.empty() && version != "v1") {
      out.required(path.child("group"), "only v1 may have an empty group and it better be legacy kube");
    }
    if (!group.empty()) out.messages(path.child("group"), group, kube::check_dns1123_subdomain(group));
    out.messages(path.child("version"), version, kube::check_dns1035_label(version));
    check_priority(spec, path, "groupPriorityMinimum", kMaxGroupPriority, out);
    check_priority(spec, path, "versionPriority", kMaxVersionPriority, out);
    check_service(spec, path, out);
  }

 private:
  static void check_priority(const Json& spec, const Path& path, std::string_view key, int64_t max, Findings& out) {
    const int64_t priority = int_of(spec, key);
    if (priority > 0 && priority <= max) return;
    out.invalid_number(path.child(key), priority, fmt::format("must be positive and less than {}", max));
  }

  static void check_service(const Json& spec, const Path& path, Findings& out) {
    const Json* service = member(spec, "service");
    const std::string_view bundle = text_of(spec, "caBundle");
    const bool blind = bool_of(spec, "insecureSkipTLSVerify");
    if (service == nullptr) {
      if (!bundle.empty()) {
        out.invalid(path.child("caBundle"), quoted(fmt::format("{} bytes", bundle.size() / 4 * 3)),
                    "local APIServices may not have a caBundle");
      }
      if (blind) {
        out.invalid(path.child("insecureSkipTLSVerify"), "true",
                    "local APIServices may not have insecureSkipTLSVerify");
      }
      return;
    }
    const Path at = path.child("service");
    for (const std::string_view key : {"namespace", "name"}) {
      if (text_of(*service, key).empty()) out.required(at.child(key));
    }
    const int64_t port = int_of(*service, "port");
    if (port < 1 || port > 65535) {
      out.invalid_number(at.child("port"), port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    if (blind && !bundle.empty()) {
      out.invalid(path.child("insecureSkipTLSVerify"), "true", "may not be true if caBundle is present");
    }
  }
};

}  // namespace

StrategyPointer make_api_service_strategy(const KindTraits& traits) {
  return std::make_unique<ApiServiceStrategy>(traits);
}

}  // namespace ghostfleet::controlplane
