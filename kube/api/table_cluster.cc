// Printers of the remaining groups: policy, rbac, networking, storage, resource, admission, flow control, ...
#include <fmt/format.h>

#include <algorithm>

#include "kube/api/table_cells.h"

namespace ghostfleet::kube::table {
namespace {

// An IntOrString, or `fallback` when it is missing.
std::string int_or_string(const Json* v, std::string_view fallback) {
  if (v == nullptr || v->is_null()) return std::string(fallback);
  return v->is_string() ? std::string(std::string_view(v->get_string())) : to_json(*v);
}

std::string subjects(const Json& o, std::string_view kind) {
  std::vector<std::string> names;
  if (const JsonArray* list = get_array(o, "subjects")) {
    for (const Json& s : *list) {
      if (get_string(s, "kind") != kind) continue;
      names.push_back(kind == "ServiceAccount" ? fmt::format("{}/{}", get_string(s, "namespace"), get_string(s, "name"))
                                               : std::string(get_string(s, "name")));
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

JsonArray binding_cells(const Json& o, WallTime now) {
  return {name_of(o),           fmt::format("{}/{}", get_string(o, "roleRef.kind"), get_string(o, "roleRef.name")),
          age(o, now),          subjects(o, "User"),
          subjects(o, "Group"), subjects(o, "ServiceAccount")};
}

std::string csr_condition(const Json& o) {
  std::string out;
  bool decided = false;
  if (const JsonArray* conditions = get_array(o, "status.conditions")) {
    for (const Json& c : *conditions) {
      const std::string_view type = get_string(c, "type");
      if (type == "Approved" || type == "Denied") decided = true;
      if (!out.empty()) out += ",";
      out += type;
    }
  }
  if (!decided) out = out.empty() ? "Pending" : "Pending," + out;
  if (!get_string(o, "status.certificate").empty()) out += ",Issued";
  return out;
}

JsonArray csr_cells(const Json& o, WallTime now) {
  const Json* seconds = find_path(o, "spec.expirationSeconds");
  const std::string duration =
      seconds != nullptr && seconds->is_int64() ? human_duration(std::chrono::seconds(seconds->get_int64())) : "<none>";
  return {name_of(o), age(o, now),     get_string(o, "spec.signerName"), get_string(o, "spec.username"),
          duration,   csr_condition(o)};
}

std::string ingress_hosts(const Json& o) {
  std::vector<std::string> hosts;
  if (const JsonArray* rules = get_array(o, "spec.rules")) {
    for (const Json& r : *rules) {
      const std::string_view host = get_string(r, "host");
      if (!host.empty()) hosts.emplace_back(host);
    }
  }
  if (hosts.empty()) return "*";
  const size_t shown = std::min<size_t>(3, hosts.size());
  std::string out = fmt::format("{}", fmt::join(hosts.begin(), hosts.begin() + static_cast<long>(shown), ","));
  if (hosts.size() > shown) out += fmt::format(" + {} more...", hosts.size() - shown);
  return out;
}

JsonArray ingress_cells(const Json& o, WallTime now) {
  std::string address;
  if (const JsonArray* list = get_array(o, "status.loadBalancer.ingress")) {
    for (const Json& i : *list) {
      const std::string_view ip = get_string(i, "ip");
      address += fmt::format("{}{}", address.empty() ? "" : ",", ip.empty() ? get_string(i, "hostname") : ip);
    }
  }
  return {name_of(o),
          text_or(get_string(o, "spec.ingressClassName"), "<none>"),
          ingress_hosts(o),
          address,
          size_at(o, "spec.tls") > 0 ? "80, 443" : "80",
          age(o, now)};
}

std::string slice_ports(const Json& o) {
  std::string out;
  const JsonArray* ports = get_array(o, "ports");
  if (ports == nullptr || ports->empty()) return "<unset>";
  for (const Json& p : *ports) {
    const Json* number = find_key(p, "port");
    out += fmt::format("{}{}", out.empty() ? "" : ",", number == nullptr || number->is_null() ? "*" : to_json(*number));
  }
  return out;
}

std::string slice_endpoints(const Json& o) {
  std::vector<std::string> all;
  if (const JsonArray* endpoints = get_array(o, "endpoints")) {
    for (const Json& e : *endpoints) {
      const JsonArray* addresses = get_array(e, "addresses");
      if (addresses == nullptr) continue;
      for (const Json& a : *addresses)
        all.emplace_back(a.is_string() ? std::string_view(a.get_string()) : std::string_view());
    }
  }
  if (all.empty()) return "<unset>";
  const size_t shown = std::min<size_t>(3, all.size());
  std::string out = fmt::format("{}", fmt::join(all.begin(), all.begin() + static_cast<long>(shown), ","));
  if (all.size() > shown) out += fmt::format(" + {} more...", all.size() - shown);
  return out;
}

std::string claim_state(const Json& o) {
  std::vector<std::string> states;
  if (!get_string(o, "metadata.deletionTimestamp").empty()) states.emplace_back("deleted");
  if (get_object(o, "status.allocation") != nullptr) {
    states.emplace_back("allocated");
  } else if (states.empty()) {
    states.emplace_back("pending");
  }
  if (size_at(o, "status.reservedFor") > 0) states.emplace_back("reserved");
  return fmt::format("{}", fmt::join(states, ","));
}

std::string param_kind(const Json& o) {
  const JsonObject* kind = get_object(o, "spec.paramKind");
  return kind == nullptr
             ? "<unset>"
             : fmt::format("{}/{}", get_string(o, "spec.paramKind.apiVersion"), get_string(o, "spec.paramKind.kind"));
}

std::string param_ref(const Json& o) {
  if (get_object(o, "spec.paramRef") == nullptr) return "<unset>";
  const std::string_view ns = get_string(o, "spec.paramRef.namespace");
  const std::string_view name = get_string(o, "spec.paramRef.name");
  return ns.empty() ? fmt::format("*/{}", name.empty() ? "*" : name)
                    : fmt::format("{}/{}", ns, name.empty() ? "*" : name);
}

std::string api_service_available(const Json& o) {
  const Json* c = find_condition(o, "Available");
  if (c == nullptr) return "Unknown";
  const std::string_view status = get_string(*c, "status");
  return status == "True" ? "True" : fmt::format("{} ({})", status, get_string(*c, "reason"));
}

std::string api_service_target(const Json& o) {
  if (get_object(o, "spec.service") == nullptr) return "Local";
  return fmt::format("{}/{}", get_string(o, "spec.service.namespace"), get_string(o, "spec.service.name"));
}

std::string flow_dangling(const Json& o) {
  const Json* c = find_condition(o, "Dangling");
  return c == nullptr ? "?" : std::string(get_string(*c, "status"));
}

JsonArray priority_level_cells(const Json& o, WallTime now) {
  auto number = [&](std::string_view path) {
    const Json* v = find_path(o, path);
    return v == nullptr || v->is_null() ? Json("<none>") : *v;
  };
  const Json* exempt = find_path(o, "spec.exempt.nominalConcurrencyShares");
  return {name_of(o),
          get_string(o, "spec.type"),
          exempt != nullptr ? *exempt : number("spec.limited.nominalConcurrencyShares"),
          number("spec.limited.limitResponse.queuing.queues"),
          number("spec.limited.limitResponse.queuing.handSize"),
          number("spec.limited.limitResponse.queuing.queueLengthLimit"),
          age(o, now)};
}

JsonArray storage_class_cells(const Json& o, WallTime now) {
  std::string name = name_of(o);
  if (const JsonObject* annotations = get_object(o, "metadata.annotations")) {
    const Json* is_default = annotations->if_contains("storageclass.kubernetes.io/is-default-class");
    if (is_default != nullptr && is_default->is_string() && is_default->get_string() == "true") name += " (default)";
  }
  return {name,
          get_string(o, "provisioner"),
          get_string(o, "reclaimPolicy"),
          get_string(o, "volumeBindingMode"),
          get_bool(o, "allowVolumeExpansion"),
          age(o, now)};
}

JsonArray csi_driver_cells(const Json& o, WallTime now) {
  const std::string audiences = join_strings(get_array(o, "spec.tokenRequests"), "audience", ",");
  return {name_of(o),
          get_bool(o, "spec.attachRequired", true),
          get_bool(o, "spec.podInfoOnMount"),
          get_bool(o, "spec.storageCapacity"),
          text_or(audiences, "<unset>"),
          get_bool(o, "spec.requiresRepublish"),
          join_strings(get_array(o, "spec.volumeLifecycleModes"), "", ","),
          age(o, now)};
}

JsonArray ip_address_cells(const Json& o, WallTime) {
  const std::string_view group = get_string(o, "spec.parentRef.group");
  const std::string resource = group.empty() ? std::string(get_string(o, "spec.parentRef.resource"))
                                             : fmt::format("{}.{}", get_string(o, "spec.parentRef.resource"), group);
  return {name_of(o), fmt::format("{}/{}/{}", resource, get_string(o, "spec.parentRef.namespace"),
                                  get_string(o, "spec.parentRef.name"))};
}

CellMaker name_and_age() {
  return [](const Json& o, WallTime now) { return JsonArray{name_of(o), age(o, now)}; };
}

CellMaker name_text_age(std::string path) {
  return [path](const Json& o, WallTime now) { return JsonArray{name_of(o), get_string(o, path), age(o, now)}; };
}

CellMaker name_count_age(std::string path) {
  return [path](const Json& o, WallTime now) { return JsonArray{name_of(o), size_at(o, path), age(o, now)}; };
}

}  // namespace

SpecList policy_printers() {
  return {
      {"PodDisruptionBudget.policy", "Name/name, Min Available, Max Unavailable, Allowed Disruptions:integer, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), int_or_string(find_path(o, "spec.minAvailable"), "N/A"),
                          int_or_string(find_path(o, "spec.maxUnavailable"), "N/A"),
                          get_int(o, "status.disruptionsAllowed"), age(o, now)};
       }},
      {"PriorityClass.scheduling.k8s.io", "Name/name, Value:integer, Global-Default:boolean, Age, PreemptionPolicy",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), get_int(o, "value"), get_bool(o, "globalDefault"), age(o, now),
                          text_or(get_string(o, "preemptionPolicy"), "PreemptLowerPriority")};
       }},
      {"RoleBinding.rbac.authorization.k8s.io", "Name/name, Role, Age, Users[w], Groups[w], ServiceAccounts[w]",
       binding_cells},
      {"ClusterRoleBinding.rbac.authorization.k8s.io", "Name/name, Role, Age, Users[w], Groups[w], ServiceAccounts[w]",
       binding_cells},
      {"CertificateSigningRequest.certificates.k8s.io",
       "Name/name, Age, SignerName, Requestor, RequestedDuration, Condition", csr_cells},
      {"MutatingWebhookConfiguration.admissionregistration.k8s.io", "Name/name, Webhooks:integer, Age",
       name_count_age("webhooks")},
      {"ValidatingWebhookConfiguration.admissionregistration.k8s.io", "Name/name, Webhooks:integer, Age",
       name_count_age("webhooks")},
      {"ValidatingAdmissionPolicy.admissionregistration.k8s.io", "Name/name, Validations:integer, ParamKind, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), size_at(o, "spec.validations"), param_kind(o), age(o, now)};
       }},
      {"MutatingAdmissionPolicy.admissionregistration.k8s.io", "Name/name, Mutations:integer, ParamKind, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), size_at(o, "spec.mutations"), param_kind(o), age(o, now)};
       }},
      {"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io", "Name/name, PolicyName, ParamRef, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), get_string(o, "spec.policyName"), param_ref(o), age(o, now)};
       }},
      {"MutatingAdmissionPolicyBinding.admissionregistration.k8s.io", "Name/name, PolicyName, ParamRef, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), get_string(o, "spec.policyName"), param_ref(o), age(o, now)};
       }},
      {"FlowSchema.flowcontrol.apiserver.k8s.io",
       "Name/name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o),
                          get_string(o, "spec.priorityLevelConfiguration.name"),
                          get_int(o, "spec.matchingPrecedence"),
                          text_or(get_string(o, "spec.distinguisherMethod.type"), "<none>"),
                          age(o, now),
                          flow_dangling(o)};
       }},
      {"PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
       "Name/name, Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age", priority_level_cells},
      {"APIService.apiregistration.k8s.io", "Name/name, Service, Available, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), api_service_target(o), api_service_available(o), age(o, now)};
       }},
  };
}

SpecList cluster_printers() {
  return {
      {"Lease.coordination.k8s.io", "Name/name, Holder, Age", name_text_age("spec.holderIdentity")},
      {"RuntimeClass.node.k8s.io", "Name/name, Handler, Age", name_text_age("handler")},
      {"EndpointSlice.discovery.k8s.io", "Name/name, AddressType, Ports, Endpoints, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), get_string(o, "addressType"), slice_ports(o), slice_endpoints(o), age(o, now)};
       }},
      {"Ingress.networking.k8s.io", "Name/name, Class, Hosts, Address, Ports, Age", ingress_cells},
      {"IngressClass.networking.k8s.io", "Name/name, Controller, Parameters, Age",
       [](const Json& o, WallTime now) {
         std::string parameters = "<none>";
         if (get_object(o, "spec.parameters") != nullptr) {
           parameters = get_string(o, "spec.parameters.kind");
           if (const std::string_view group = get_string(o, "spec.parameters.apiGroup"); !group.empty())
             parameters += "." + std::string(group);
           parameters += "/" + std::string(get_string(o, "spec.parameters.name"));
         }
         return JsonArray{name_of(o), get_string(o, "spec.controller"), parameters, age(o, now)};
       }},
      {"NetworkPolicy.networking.k8s.io", "Name/name, Pod-Selector, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), format_label_selector(find_path(o, "spec.podSelector")), age(o, now)};
       }},
      {"ServiceCIDR.networking.k8s.io", "Name/name, CIDRs, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), join_strings(get_array(o, "spec.cidrs"), "", ","), age(o, now)};
       }},
      {"IPAddress.networking.k8s.io", "Name/name, ParentRef", ip_address_cells},
      {"StorageClass.storage.k8s.io",
       "Name/name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age", storage_class_cells},
      {"CSINode.storage.k8s.io", "Name/name, Drivers:integer, Age", name_count_age("spec.drivers")},
      {"CSIDriver.storage.k8s.io",
       "Name/name, AttachRequired:boolean, PodInfoOnMount:boolean, StorageCapacity:boolean, TokenRequests, "
       "RequiresRepublish:boolean, Modes, Age",
       csi_driver_cells},
      {"VolumeAttachment.storage.k8s.io", "Name/name, Attacher/name, PV, Node, Attached:boolean, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o),
                          get_string(o, "spec.attacher"),
                          get_string(o, "spec.source.persistentVolumeName"),
                          get_string(o, "spec.nodeName"),
                          get_bool(o, "status.attached"),
                          age(o, now)};
       }},
      {"VolumeAttributesClass.storage.k8s.io", "Name/name, DriverName, Age", name_text_age("driverName")},
      {"ResourceClaim.resource.k8s.io", "Name/name, State, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), claim_state(o), age(o, now)};
       }},
      {"ResourceClaimTemplate.resource.k8s.io", "Name/name, Age", name_and_age()},
      {"DeviceClass.resource.k8s.io", "Name/name, Age", name_and_age()},
      {"ResourceSlice.resource.k8s.io", "Name/name, Node, Driver, Pool, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o),
                          text_or(get_string(o, "spec.nodeName"), get_bool(o, "spec.allNodes") ? "<all>" : "<unset>"),
                          get_string(o, "spec.driver"), get_string(o, "spec.pool.name"), age(o, now)};
       }},
      {"Scale.autoscaling", "Name/name, Desired:integer, Available:integer, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), get_int(o, "spec.replicas"), get_int(o, "status.replicas"), age(o, now)};
       }},
  };
}

}  // namespace ghostfleet::kube::table
