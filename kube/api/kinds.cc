#include "kube/api/kinds.h"

#include <algorithm>

namespace ghostfleet::kube {
namespace {

// One line a kind, in the order a real API server lists groups and resources:
//   GROUP/VERSION KIND PLURAL SCOPE [short=a,b] [cat=a] [verbs=V|CODE] [sub=NAME:CODE[:GROUP/VERSION.KIND],...]
//   [store=GROUP/VERSION]
// Verb codes: c create, d delete, D deletecollection, g get, l list, p patch, u update, w watch. The default is all
// eight.
constexpr std::string_view kTable = R"(
/v1 Binding bindings ns verbs=c
/v1 ComponentStatus componentstatuses cl short=cs verbs=gl
/v1 ConfigMap configmaps ns short=cm
/v1 Endpoints endpoints ns short=ep
/v1 Event events ns short=ev
/v1 LimitRange limitranges ns short=limits
/v1 Namespace namespaces cl short=ns verbs=cdglpuw sub=finalize:u,status:gpu
/v1 Node nodes cl short=no sub=proxy:cdgpu:/v1.NodeProxyOptions,status:gpu
/v1 PersistentVolumeClaim persistentvolumeclaims ns short=pvc sub=status:gpu
/v1 PersistentVolume persistentvolumes cl short=pv sub=status:gpu
/v1 Pod pods ns short=po cat=all sub=attach:cg:/v1.PodAttachOptions,binding:c:/v1.Binding,ephemeralcontainers:gpu,eviction:c:policy/v1.Eviction,exec:cg:/v1.PodExecOptions,log:g,portforward:cg:/v1.PodPortForwardOptions,proxy:cdgpu:/v1.PodProxyOptions,resize:gpu,status:gpu
/v1 PodTemplate podtemplates ns
/v1 ReplicationController replicationcontrollers ns short=rc cat=all sub=scale:gpu:autoscaling/v1.Scale,status:gpu
/v1 ResourceQuota resourcequotas ns short=quota sub=status:gpu
/v1 Secret secrets ns
/v1 ServiceAccount serviceaccounts ns short=sa sub=token:c:authentication.k8s.io/v1.TokenRequest
/v1 Service services ns short=svc cat=all sub=proxy:cdgpu:/v1.ServiceProxyOptions,status:gpu
apiregistration.k8s.io/v1 APIService apiservices cl cat=api-extensions sub=status:gpu
apps/v1 ControllerRevision controllerrevisions ns
apps/v1 DaemonSet daemonsets ns short=ds cat=all sub=status:gpu
apps/v1 Deployment deployments ns short=deploy cat=all sub=scale:gpu:autoscaling/v1.Scale,status:gpu
apps/v1 ReplicaSet replicasets ns short=rs cat=all sub=scale:gpu:autoscaling/v1.Scale,status:gpu
apps/v1 StatefulSet statefulsets ns short=sts cat=all sub=scale:gpu:autoscaling/v1.Scale,status:gpu
events.k8s.io/v1 Event events ns short=ev store=/v1
authentication.k8s.io/v1 SelfSubjectReview selfsubjectreviews cl verbs=c
authentication.k8s.io/v1 TokenReview tokenreviews cl verbs=c
authorization.k8s.io/v1 LocalSubjectAccessReview localsubjectaccessreviews ns verbs=c
authorization.k8s.io/v1 SelfSubjectAccessReview selfsubjectaccessreviews cl verbs=c
authorization.k8s.io/v1 SelfSubjectRulesReview selfsubjectrulesreviews cl verbs=c
authorization.k8s.io/v1 SubjectAccessReview subjectaccessreviews cl verbs=c
autoscaling/v2 HorizontalPodAutoscaler horizontalpodautoscalers ns short=hpa cat=all sub=status:gpu
autoscaling/v1 HorizontalPodAutoscaler horizontalpodautoscalers ns short=hpa cat=all sub=status:gpu store=autoscaling/v2
batch/v1 CronJob cronjobs ns short=cj cat=all sub=status:gpu
batch/v1 Job jobs ns cat=all sub=status:gpu
certificates.k8s.io/v1 CertificateSigningRequest certificatesigningrequests cl short=csr sub=approval:gpu,status:gpu
networking.k8s.io/v1 IngressClass ingressclasses cl
networking.k8s.io/v1 Ingress ingresses ns short=ing sub=status:gpu
networking.k8s.io/v1 IPAddress ipaddresses cl short=ip
networking.k8s.io/v1 NetworkPolicy networkpolicies ns short=netpol
networking.k8s.io/v1 ServiceCIDR servicecidrs cl sub=status:gpu
policy/v1 PodDisruptionBudget poddisruptionbudgets ns short=pdb sub=status:gpu
rbac.authorization.k8s.io/v1 ClusterRoleBinding clusterrolebindings cl
rbac.authorization.k8s.io/v1 ClusterRole clusterroles cl
rbac.authorization.k8s.io/v1 RoleBinding rolebindings ns
rbac.authorization.k8s.io/v1 Role roles ns
storage.k8s.io/v1 CSIDriver csidrivers cl
storage.k8s.io/v1 CSINode csinodes cl
storage.k8s.io/v1 CSIStorageCapacity csistoragecapacities ns
storage.k8s.io/v1 StorageClass storageclasses cl short=sc
storage.k8s.io/v1 VolumeAttachment volumeattachments cl sub=status:gpu
storage.k8s.io/v1 VolumeAttributesClass volumeattributesclasses cl short=vac
admissionregistration.k8s.io/v1 MutatingAdmissionPolicy mutatingadmissionpolicies cl cat=api-extensions store=admissionregistration.k8s.io/v1beta1
admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings cl cat=api-extensions store=admissionregistration.k8s.io/v1beta1
admissionregistration.k8s.io/v1 MutatingWebhookConfiguration mutatingwebhookconfigurations cl cat=api-extensions
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy validatingadmissionpolicies cl cat=api-extensions sub=status:gpu
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings cl cat=api-extensions
admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration validatingwebhookconfigurations cl cat=api-extensions
apiextensions.k8s.io/v1 CustomResourceDefinition customresourcedefinitions cl short=crd,crds cat=api-extensions sub=status:gpu store=apiextensions.k8s.io/v1beta1
scheduling.k8s.io/v1 PriorityClass priorityclasses cl short=pc
coordination.k8s.io/v1 Lease leases ns
node.k8s.io/v1 RuntimeClass runtimeclasses cl
discovery.k8s.io/v1 EndpointSlice endpointslices ns
resource.k8s.io/v1 DeviceClass deviceclasses cl
resource.k8s.io/v1 ResourceClaim resourceclaims ns sub=status:gpu
resource.k8s.io/v1 ResourceClaimTemplate resourceclaimtemplates ns
resource.k8s.io/v1 ResourceSlice resourceslices cl
flowcontrol.apiserver.k8s.io/v1 FlowSchema flowschemas cl sub=status:gpu
flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration prioritylevelconfigurations cl sub=status:gpu
)";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t at = text.find(separator);
    if (at != 0) parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
  }
  return parts;
}

std::vector<std::string> strings(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (const std::string_view part : split(text, separator)) out.emplace_back(part);
  return out;
}

std::vector<std::string> verbs_of(std::string_view codes) {
  std::vector<std::string> out;
  for (const char c : codes) {
    switch (c) {
      case 'c': out.emplace_back("create"); break;
      case 'd': out.emplace_back("delete"); break;
      case 'D': out.emplace_back("deletecollection"); break;
      case 'g': out.emplace_back("get"); break;
      case 'l': out.emplace_back("list"); break;
      case 'p': out.emplace_back("patch"); break;
      case 'u': out.emplace_back("update"); break;
      case 'w': out.emplace_back("watch"); break;
      default: break;
    }
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// "status:gpu" or "scale:gpu:autoscaling/v1.Scale"
SubresourceInfo parse_subresource(std::string_view text, const KindInfo& parent) {
  const auto parts = split(text, ':');
  SubresourceInfo sub;
  sub.name = parts[0];
  sub.verbs = verbs_of(parts[1]);
  sub.kind = parent.kind;
  if (parts.size() < 3) return sub;  // the parent's own kind: discovery then names no group and version
  const size_t slash = parts[2].find('/');
  const size_t dot = parts[2].rfind('.');
  sub.group = parts[2].substr(0, slash);
  sub.version = parts[2].substr(slash + 1, dot - slash - 1);
  sub.kind = parts[2].substr(dot + 1);
  if (sub.group.empty()) sub.version.clear();
  return sub;
}

KindInfo parse_line(std::string_view line) {
  const auto words = split(line, ' ');
  KindInfo k;
  const size_t slash = words[0].find('/');
  k.group = words[0].substr(0, slash);
  k.version = words[0].substr(slash + 1);
  k.kind = words[1];
  k.resource = words[2];
  k.singular = k.kind == "Endpoints" ? "endpoints" : lower(k.kind);
  k.namespaced = words[3] == "ns";
  k.verbs = verbs_of("cdDglpuw");
  for (size_t i = 4; i < words.size(); ++i) {
    const size_t eq = words[i].find('=');
    const std::string_view key = words[i].substr(0, eq);
    const std::string_view value = words[i].substr(eq + 1);
    if (key == "short") k.short_names = strings(value, ',');
    if (key == "cat") k.categories = strings(value, ',');
    if (key == "verbs") k.verbs = verbs_of(value);
    if (key == "store") k.storage_version = value;
    if (key != "sub") continue;
    for (const std::string_view sub : split(value, ',')) k.subresources.push_back(parse_subresource(sub, k));
  }
  k.storage_resource = k.kind == "Event" ? "events" : k.group_resource();
  k.type = find_type((k.group.empty() ? "core" : k.group) + "/" + k.version + "." + k.kind);
  return k;
}

std::vector<KindInfo> parse_table() {
  std::vector<KindInfo> kinds;
  for (const std::string_view line : split(kTable, '\n')) kinds.push_back(parse_line(line));
  return kinds;
}

}  // namespace

bool KindInfo::has_verb(std::string_view verb) const {
  return std::find(verbs.begin(), verbs.end(), verb) != verbs.end();
}

const SubresourceInfo* KindInfo::find_subresource(std::string_view name) const {
  for (const SubresourceInfo& sub : subresources) {
    if (sub.name == name) return &sub;
  }
  return nullptr;
}

const std::vector<KindInfo>& builtin_kinds() {
  static const std::vector<KindInfo> kinds = parse_table();
  return kinds;
}

const KindInfo* find_kind(std::string_view group, std::string_view version, std::string_view kind) {
  for (const KindInfo& k : builtin_kinds()) {
    if (k.kind == kind && k.group == group && k.version == version) return &k;
  }
  return nullptr;
}

const KindInfo* find_resource(std::string_view group, std::string_view version, std::string_view resource) {
  for (const KindInfo& k : builtin_kinds()) {
    if (k.resource == resource && k.group == group && k.version == version) return &k;
  }
  return nullptr;
}

}  // namespace ghostfleet::kube
