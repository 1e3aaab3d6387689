// Networking, device claims, certificate requests, flow control.
#include <fmt/format.h>

#include "base/digest.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/pod_validation.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"
#include "kube/cel/program.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

template <class Change>
void each_item(Json& owner, std::string_view key, Change change) {
  Json* list = member(owner, key);
  if (list == nullptr || !list->is_array()) return;
  for (Json& item : list->get_array()) {
    if (item.is_object()) change(item);
  }
}

// ---- Ingress, NetworkPolicy ---------------------------------------------------------------------------------------

class IngressStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    const JsonArray* rules = array_of(spec, "rules");
    bool has_rules = rules != nullptr && !rules->empty();
    if (!has_rules && member(spec, "defaultBackend") == nullptr) {
      out.invalid(path, "{}", "either `defaultBackend` or `rules` must be specified");
    }
    for (size_t i = 0; has_rules && i < rules->size(); ++i) {
      const Json* http = member((*rules)[i], "http");
      const JsonArray* paths = http == nullptr ? nullptr : array_of(*http, "paths");
      Path rule = path.child("rules", i);
      Path http_path = rule.child("http");
      for (size_t k = 0; paths != nullptr && k < paths->size(); ++k) {
        check_path((*paths)[k], http_path.child("paths", k), out);
      }
    }
  }

 private:
  static void check_path(const Json& item, const Path& path, Findings& out) {
    const Json* type = member(item, "pathType");
    if (type == nullptr) {
      out.required(path.child("pathType"), "pathType must be specified");
      return;
    }
    std::string_view name = as_text(*type);
    std::string_view where = text_of(item, "path");
    if (!one_of(name, {"Exact", "ImplementationSpecific", "Prefix"})) {
      out.not_supported(path.child("pathType"), name, {"Exact", "ImplementationSpecific", "Prefix"});
    } else if (name != "ImplementationSpecific" && !where.starts_with('/')) {
      out.invalid_text(path.child("path"), where, "must be an absolute path");
    }
  }
};

class NetworkPolicyStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    const Json& view = spec_of(object);
    const JsonArray* types = array_of(view, "policyTypes");
    if (types == nullptr || types->empty()) {
      JsonArray list{"Ingress"};
      const JsonArray* egress = array_of(view, "egress");
      if (egress != nullptr && !egress->empty()) list.emplace_back("Egress");
      spec["policyTypes"] = std::move(list);
    }
    for (std::string_view direction : {"ingress", "egress"}) {
      each_item(object.get_object()["spec"], direction, [](Json& rule) {
        each_item(rule, "ports", [](Json& port) { default_to(port.get_object(), "protocol", "TCP"); });
      });
    }
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_label_selector(member(spec, "podSelector"), path.child("podSelector"), out);
    const JsonArray* types = array_of(spec, "policyTypes");
    for (size_t i = 0; types != nullptr && i < types->size(); ++i) {
      std::string_view type = as_text((*types)[i]);
      if (!one_of(type, {"Egress", "Ingress"})) {
        out.not_supported(path.child("policyTypes", i), type, {"Egress", "Ingress"});
      }
    }
  }
};

// ---- resource.k8s.io ----------------------------------------------------------------------------------------------

void default_request(Json& request) {
  JsonObject& r = request.get_object();
  default_text(r, "allocationMode", "ExactCount");
  if (text_of(request, "allocationMode") == "ExactCount") default_number(r, "count", 1);
}

void default_claim(Json& spec) {
  Json* devices = member(spec, "devices");
  if (devices == nullptr) return;
  each_item(*devices, "requests", [](Json& request) {
    if (Json* exactly = member(request, "exactly")) default_request(*exactly);
    each_item(request, "firstAvailable", default_request);
  });
}

// Expressions of selectors are read when they are stored, so that nobody finds out later.
void check_selectors(const Json& holder, const Path& path, Findings& out) {
  const JsonArray* selectors = array_of(holder, "selectors");
  for (size_t i = 0; selectors != nullptr && i < selectors->size(); ++i) {
    const Json* cel = member((*selectors)[i], "cel");
    const Path selector = path.child("selectors", i), at = selector.child("cel");
    if (cel == nullptr) {
      out.required(at);
      continue;
    }
    const std::string_view expression = text_of(*cel, "expression");
    const auto program = kube::cel::Program::compile(expression, {"device"});
    if (!program.ok())
      out.invalid_text(at.child("expression"), expression, "compilation failed: " + program.error().message());
  }
}

class DeviceClassStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    check_selectors(spec_of(object), Path("spec"), out);
  }
};

class DeviceClaimStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext& ctx) const override {
    JsonObject& spec = make_spec(object);
    if (ctx.resource.info.kind == "ResourceClaimTemplate") {
      default_claim(spec["spec"]);
    } else {
      default_claim(object.get_object()["spec"]);
    }
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    bool is_template = ctx.resource.info.kind == "ResourceClaimTemplate";
    Path path(is_template ? "spec.spec.devices" : "spec.devices");
    const Json& outer = spec_of(object);
    const Json& spec = is_template ? spec_of(outer) : outer;
    const Json* devices = member(spec, "devices");
    const JsonArray* requests = devices == nullptr ? nullptr : array_of(*devices, "requests");
    NameSet names;
    for (size_t i = 0; requests != nullptr && i < requests->size(); ++i) {
      check_device_request((*requests)[i], path.child("requests", i), names, out);
    }
  }

  void check_update(const Json& object, const Json& old, StrategyContext&, Findings& out) const override {
    if (equal_members(object, old, "spec")) return;
    out.invalid(Path("spec"), json_text(spec_of(object)), kImmutable);
  }

 private:
  static void check_device_request(const Json& request, const Path& path, NameSet& names, Findings& out) {
    std::string_view name = text_of(request, "name");
    if (name.empty()) {
      out.required(path.child("name"));
    } else {
      out.messages(path.child("name"), name, kube::check_dns1123_label(name));
      if (!names.insert(name).second) out.duplicate(path.child("name"), name);
    }
    const Json* exactly = member(request, "exactly");
    const JsonArray* alternatives = array_of(request, "firstAvailable");
    bool has_alternatives = alternatives != nullptr && !alternatives->empty();
    if (exactly == nullptr && !has_alternatives) {
      out.required(path, "exactly one of `exactly` or `firstAvailable` is required");
    } else if (exactly != nullptr && has_alternatives) {
      out.invalid(path, "null",
                  "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set");
    }
    for (size_t i = 0; alternatives != nullptr && i < alternatives->size(); ++i)
      check_selectors((*alternatives)[i], path.child("firstAvailable", i), out);
    if (exactly == nullptr) return;
    check_selectors(*exactly, path.child("exactly"), out);
    Path at = path.child("exactly");
    if (text_of(*exactly, "deviceClassName").empty()) out.required(at.child("deviceClassName"));
    std::string_view mode = text_of(*exactly, "allocationMode");
    if (!one_of(mode, {"All", "ExactCount"}))
      out.not_supported(at.child("allocationMode"), mode, {"All", "ExactCount"});
  }
};

class ResourceSliceStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext& ctx) const override {
    std::string now;
    each_item(object.get_object()["spec"], "devices", [&](Json& device) {
      each_item(device, "taints", [&](Json& taint) {
        if (now.empty()) now = now_text(ctx);
        default_to(taint.get_object(), "timeAdded", Json(now));
      });
    });
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    if (text_of(spec, "driver").empty()) out.required(path.child("driver"));
    const Json* pool = member(spec, "pool");
    if (pool == nullptr || text_of(*pool, "name").empty()) out.required(path.child("pool.name"));
    if (pool != nullptr && int_of(*pool, "resourceSliceCount") <= 0) {
      out.invalid_number(path.child("pool.resourceSliceCount"), int_of(*pool, "resourceSliceCount"),
                         "must be greater than zero");
    }
    const JsonArray* devices = array_of(spec, "devices");
    NameSet names;
    for (size_t i = 0; devices != nullptr && i < devices->size(); ++i) {
      std::string_view name = text_of((*devices)[i], "name");
      Path at = path.child("devices", i);
      out.messages(at.child("name"), name, kube::check_dns1123_label(name));
      if (!names.insert(name).second) out.duplicate(at, name);
    }
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    for (std::string_view key : {"nodeName", "driver"}) {
      check_immutable(spec_of(object), spec_of(old), key, Path("spec"), out);
    }
  }
};

// ---- CertificateSigningRequest ------------------------------------------------------------------------------------

const Json* condition_of(const Json& object, std::string_view type) {
  const JsonArray* conditions = array_of(status_of(object), "conditions");
  for (size_t i = 0; conditions != nullptr && i < conditions->size(); ++i) {
    if (text_of((*conditions)[i], "type") == type) return &(*conditions)[i];
  }
  return nullptr;
}

class SigningRequestStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    Json* status = member(object, "status");
    if (status == nullptr) return;
    each_item(*status, "conditions", [](Json& c) { default_text(c.get_object(), "status", "True"); });
  }

  // Who asks is what authentication found, whatever the client says.
  void prepare_for_create(Json& object, StrategyContext& ctx) const override {
    KindStrategy::prepare_for_create(object, ctx);
    JsonObject& spec = make_spec(object);
    for (std::string_view key : {"username", "uid", "groups", "extra"}) spec.erase(key);
    const UserInfo& user = ctx.request.user;
    if (!user.name.empty()) spec["username"] = user.name;
    if (!user.uid.empty()) spec["uid"] = user.uid;
    JsonArray groups(user.groups.begin(), user.groups.end());
    if (!groups.empty()) spec["groups"] = std::move(groups);
    JsonObject extra;
    for (const auto& [key, values] : user.extra) extra[key] = JsonArray(values.begin(), values.end());
    if (!extra.empty()) spec["extra"] = std::move(extra);
  }

  void prepare_for_update(Json& object, const Json& old, StrategyContext& ctx) const override {
    JsonObject& root = object.get_object();
    copy_member(root, old, "spec");
    if (ctx.subresource.empty()) {
      copy_member(root, old, "status");
    } else if (ctx.subresource == "approval") {
      prepare_approval(object, old);
    } else {
      keep_decisions(object, old);
    }
    if (!ctx.subresource.empty()) stamp_conditions(object, old, now_text(ctx));
    set_generation(object, generation_of(old));
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    std::string pem;
    base64_decode(text_of(spec, "request"), &pem);
    if (pem.find("-----BEGIN CERTIFICATE REQUEST-----") == std::string::npos) {
      out.invalid(path.child("request"), json_text(*request_or_empty(spec)),
                  "PEM block type must be CERTIFICATE REQUEST");
    }
    const JsonArray* usages = array_of(spec, "usages");
    if (usages == nullptr || usages->empty()) out.required(path.child("usages"));
    std::string_view signer = text_of(spec, "signerName");
    if (signer.empty()) {
      out.required(path.child("signerName"));
    } else if (signer.find('/') == std::string_view::npos) {
      out.invalid_text(path.child("signerName"), signer,
                       "must be a fully qualified domain and path of the form "
                       "'example.com/signer-name'");
    }
    if (const Json* seconds = member(spec, "expirationSeconds"); seconds != nullptr && as_int(*seconds) < 600) {
      out.invalid_number(path.child("expirationSeconds"), as_int(*seconds),
                         "may not specify a duration less than 600 "
                         "seconds (10 minutes)");
    }
  }

  void check_update(const Json&, const Json&, StrategyContext&, Findings&) const override {}

  void check_status(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check_conditions(object, out);
    bool approval = ctx.subresource == "approval";
    Path path("status");
    for (std::string_view type : {"Approved", "Denied", "Failed"}) {
      bool had = condition_of(old, type) != nullptr;
      bool has = condition_of(object, type) != nullptr;
      bool may_add = approval ? type != "Failed" : type == "Failed";
      if (had && !has) {
        out.forbidden(path.child("conditions"), fmt::format("updates may not remove a condition of type \"{}\"", type));
      } else if (!had && has && !may_add) {
        out.forbidden(path.child("conditions"), fmt::format("updates may not add a condition of type \"{}\"", type));
      }
    }
    if (condition_of(object, "Approved") != nullptr && condition_of(object, "Denied") != nullptr) {
      out.invalid_text(path.child("conditions"), "Denied", "Approved and Denied conditions are mutually exclusive");
    }
    if (!approval) check_certificate(object, old, out);
  }

 private:
  static const Json* request_or_empty(const Json& spec) {
    static const Json kEmpty = "";
    const Json* request = member(spec, "request");
    return request == nullptr ? &kEmpty : request;
  }

  static void prepare_approval(Json& object, const Json& old) {
    Json conditions;
    if (const Json* given = member(status_of(object), "conditions")) conditions = *given;
    copy_member(object.get_object(), old, "status");
    JsonObject& status = object_in(object.get_object(), "status");
    if (conditions.is_null()) {
      status.erase("conditions");
    } else {
      status["conditions"] = std::move(conditions);
    }
  }

  // Decisions stay as they were, also in their words.
  static void keep_decisions(Json& object, const Json& old) {
    Json* status = member(object, "status");
    if (status == nullptr) return;
    each_item(*status, "conditions", [&](Json& condition) {
      std::string_view type = text_of(condition, "type");
      if (!one_of(type, {"Approved", "Denied"})) return;
      if (const Json* was = condition_of(old, type)) condition = *was;
    });
  }

  static void stamp_conditions(Json& object, const Json& old, const std::string& now) {
    Json* status = member(object, "status");
    if (status == nullptr) return;
    each_item(*status, "conditions", [&](Json& condition) {
      JsonObject& c = condition.get_object();
      default_text(c, "lastUpdateTime", now);
      const Json* was = condition_of(old, text_of(condition, "type"));
      bool same = was != nullptr && text_of(*was, "status") == text_of(condition, "status");
      std::string since(same ? text_of(*was, "lastTransitionTime") : std::string_view());
      default_text(c, "lastTransitionTime", since.empty() ? now : since);
    });
  }

  static void check_conditions(const Json& object, Findings& out) {
    const JsonArray* conditions = array_of(status_of(object), "conditions");
    NameSet seen;
    Path path("status");
    for (size_t i = 0; conditions != nullptr && i < conditions->size(); ++i) {
      Path at = path.child("conditions", i);
      std::string_view type = text_of((*conditions)[i], "type");
      std::string_view state = text_of((*conditions)[i], "status");
      if (type.empty()) out.required(at.child("type"));
      bool decision = one_of(type, {"Approved", "Denied", "Failed"});
      if (decision && state != "True") {
        out.not_supported(at.child("status"), state, {"True"});
      } else if (!one_of(state, {"True", "False", "Unknown"})) {
        out.not_supported(at.child("status"), state, {"True", "False", "Unknown"});
      }
      if (!seen.insert(type).second) out.duplicate(at.child("type"), type);
    }
  }

  static void check_certificate(const Json& object, const Json& old, Findings& out) {
    std::string_view now = text_of(status_of(object), "certificate");
    std::string_view before = text_of(status_of(old), "certificate");
    if (now == before) return;
    Path path("status.certificate");
    if (!before.empty()) {
      out.invalid(path, "\"<certificate data>\"", "updates may not modify existing certificate content");
      return;
    }
    std::string pem;
    if (!base64_decode(now, &pem) || pem.find("-----BEGIN CERTIFICATE-----") == std::string::npos) {
      out.invalid(path, "\"<certificate data>\"", "must contain at least one CERTIFICATE PEM block");
    }
  }
};

// ---- flow control -------------------------------------------------------------------------------------------------

class FlowSchemaStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    default_number(make_spec(object), "matchingPrecedence", 1000);
  }
};

class PriorityLevelStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    if (Json* exempt = spec.if_contains("exempt")) {
      default_to(exempt->get_object(), "nominalConcurrencyShares", 0);
      default_to(exempt->get_object(), "lendablePercent", 0);
    }
    Json* limited = spec.if_contains("limited");
    if (limited == nullptr || !limited->is_object()) return;
    default_to(limited->get_object(), "nominalConcurrencyShares", 30);
    default_to(limited->get_object(), "lendablePercent", 0);
    Json* response = member(*limited, "limitResponse");
    Json* queuing = response == nullptr ? nullptr : member(*response, "queuing");
    if (queuing == nullptr) return;
    default_number(queuing->get_object(), "handSize", 8);
    default_number(queuing->get_object(), "queues", 64);
    default_number(queuing->get_object(), "queueLengthLimit", 50);
  }
};

}  // namespace

StrategyPointer make_ingress_strategy(const KindTraits& traits) { return std::make_unique<IngressStrategy>(traits); }
StrategyPointer make_network_policy_strategy(const KindTraits& traits) {
  return std::make_unique<NetworkPolicyStrategy>(traits);
}
StrategyPointer make_device_claim_strategy(const KindTraits& traits) {
  return std::make_unique<DeviceClaimStrategy>(traits);
}
StrategyPointer make_resource_slice_strategy(const KindTraits& traits) {
  return std::make_unique<ResourceSliceStrategy>(traits);
}

StrategyPointer make_device_class_strategy(const KindTraits& traits) {
  return std::make_unique<DeviceClassStrategy>(traits);
}
StrategyPointer make_signing_request_strategy(const KindTraits& traits) {
  return std::make_unique<SigningRequestStrategy>(traits);
}
StrategyPointer make_flow_schema_strategy(const KindTraits& traits) {
  return std::make_unique<FlowSchemaStrategy>(traits);
}
StrategyPointer make_priority_level_strategy(const KindTraits& traits) {
  return std::make_unique<PriorityLevelStrategy>(traits);
}

}  // namespace ghostfleet::controlplane
