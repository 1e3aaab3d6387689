#include "emulator/fleet/remove.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <optional>
#include <set>
#include <unordered_set>

#include "agent/node/json_scan.h"
#include "agent/node/node_class.h"
#include "base/digest.h"
#include "kube/api/names.h"
#include "kube/client/certificate_request.h"
#include "kube/client/signing_request.h"

namespace ghostfleet::emulator {
namespace {

using agent::ArrayScan;
using agent::scan_member;
using agent::scan_path;
using agent::scan_string;

constexpr size_t kAtOnce = 64;
constexpr size_t kMostFailures = 20;
constexpr size_t kMostFleets = 20;
constexpr size_t kMostNamespaces = 50;  // asked about one by one
constexpr std::string_view kReviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
constexpr std::string_view kLeaseNamespace = "kube-node-lease";
constexpr std::string_view kLeases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
constexpr std::string_view kCsiNodes = "/apis/storage.k8s.io/v1/csinodes";
constexpr std::string_view kSlices = "/apis/resource.k8s.io/v1/resourceslices";
constexpr std::string_view kNodeUser = "system:node:";

struct FoundNode {
  std::string name, uid;
  bool adopted = false;
};

struct FoundPod {
  std::string ns, name, uid;
};

// What a removal needs to be allowed.
struct Right {
  std::string verb, group, resource, ns;  // of one namespace, or of all

  std::string question() const {
    return fmt::format(R"({{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{{)"
                       R"("resourceAttributes":{{"verb":"{}","group":"{}","resource":"{}","namespace":"{}"}}}}}})",
                       verb, group, resource, ns);
  }
  std::string text() const {
    return fmt::format("{} {}{}{}{}", verb, resource, group.empty() ? "" : ".", group,
                       ns.empty() ? "" : " in namespace " + ns);
  }
};

// Deletes in a few passes, each with a window of calls; nothing is kept but what is still to be done.
class Remover {
 public:
  Remover(kube::KubeClient& client, std::string fleet, const DownOptions& options, DownProgress progress)
      : client_(client), fleet_(std::move(fleet)), options_(options), progress_(std::move(progress)) {}

  // Calls `done` on the loop when there is nothing left to do.
  void run(std::function<void()> done) {
    done_ = std::move(done);
    list(fmt::format("/api/v1/nodes?labelSelector=ghostfleet.dev%2Ffleet%3D{}&", fleet_), {}, &Remover::take_node,
         [this] { nodes_listed(); });
  }

  DownReport report;
  std::optional<Status> fatal;

 private:
  using Take = void (Remover::*)(std::string_view item);
  struct Step {
    kube::ApiCall call;
    uint64_t* counter = nullptr;
  };

  // `optional`: a refusal (403, 404) is an empty list.
  void list(const std::string& target, const std::string& token, Take take, std::function<void()> then,
            bool optional = false);
  void take_other(std::string_view item);
  std::vector<Right> needed_rights() const;
  void check_rights();
  void rights_answered(const Right& right, const kube::ApiCallResult& result);
  void take_node(std::string_view item);
  void take_pod(std::string_view item);
  void take_request(std::string_view item);
  void take_lease(std::string_view item) { report.leases += is_ours(item); }
  void take_slice(std::string_view item);
  void take_csi_node(std::string_view item) { report.csi_nodes += is_ours(item); }
  bool is_ours(std::string_view item) const;
  void nodes_listed();
  void pods_listed();
  void requests_listed();
  void count_all();
  void delete_nodes();
  void delete_pods();
  void end();
  void pump();
  void answered(const Step& step, const kube::ApiCallResult& result);
  Step deletion(std::string target, std::string_view uid, uint64_t* counter, bool now) const;
  Step unlabel(const FoundNode& node);

  kube::KubeClient& client_;
  std::string fleet_;
  DownOptions options_;
  DownProgress progress_;
  std::function<void()> done_;
  std::function<void()> after_pass_;
  std::vector<FoundNode> nodes_;
  std::vector<FoundPod> pods_;
  std::vector<std::string> requests_;  // names of certificate signing requests
  std::vector<std::string> slices_;    // names of ResourceSlices
  std::unordered_set<std::string> names_;
  std::deque<Step> steps_;
  size_t questions_ = 0;              // not answered yet
  std::vector<std::string> missing_;  // rights
  size_t on_the_way_ = 0;
  uint64_t finished_ = 0, total_ = 0;
};

void Remover::list(const std::string& target, const std::string& token, Take take, std::function<void()> then,
                   bool optional) {
  kube::ApiCall call;
  call.target = target + "limit=500";
  if (!token.empty()) call.target += "&continue=" + kube::http::percent_encode(token);
  client_.call(std::move(call), [this, target, take, then = std::move(then), optional](kube::ApiCallResult result) {
    if (optional && (result.status == 403 || result.status == 404)) return then();
    Status status = result.to_status("list " + target.substr(0, target.find('?')));
    if (!status.ok()) {
      fatal = status;
      return end();
    }
    ArrayScan items(scan_member(result.body, "items"));
    std::string_view item;
    while (items.next(&item)) (this->*take)(item);
    const std::string token(scan_string(scan_path(result.body, {"metadata", "continue"})));
    if (token.empty()) return then();
    list(target, token, take, then, optional);
  });
}

void Remover::take_node(std::string_view item) {
  const std::string_view metadata = scan_member(item, "metadata");
  FoundNode node;
  node.name = scan_string(scan_member(metadata, "name"));
  node.uid = scan_string(scan_member(metadata, "uid"));
  node.adopted = scan_string(scan_path(metadata, {"annotations", agent::kAdoptedAnnotation})) == "true";
  // A server that ignores the selector must not cost somebody a node.
  if (scan_string(scan_path(metadata, {"labels", agent::kFleetLabel})) != fleet_ || node.name.empty()) return;
  if (!node.adopted) names_.insert(node.name);
  nodes_.push_back(std::move(node));
}

void Remover::take_pod(std::string_view item) {
  if (!names_.contains(std::string(scan_string(scan_path(item, {"spec", "nodeName"}))))) return;
  const std::string_view metadata = scan_member(item, "metadata");
  pods_.push_back({std::string(scan_string(scan_member(metadata, "namespace"))),
                   std::string(scan_string(scan_member(metadata, "name"))),
                   std::string(scan_string(scan_member(metadata, "uid")))});
}

void Remover::take_other(std::string_view item) {
  std::string name(scan_string(scan_path(item, {"metadata", "labels", agent::kFleetLabel})));
  std::vector<std::string>& all = report.other_fleets;
  if (name.empty() || all.size() == kMostFleets || std::find(all.begin(), all.end(), name) != all.end()) return;
  all.push_back(std::move(name));
}

void Remover::nodes_listed() {
  if (nodes_.empty()) {
    return list("/api/v1/nodes?labelSelector=ghostfleet.dev%2Ffleet&", {}, &Remover::take_other, [this] { end(); });
  }
  if (!options_.delete_pods || names_.empty()) return pods_listed();
  list("/api/v1/pods?fieldSelector=spec.nodeName%21%3D&", {}, &Remover::take_pod, [this] { pods_listed(); });
}

void Remover::pods_listed() {
  if (names_.empty()) return check_rights();
  list(
      std::string(kube::kSigningRequests) + "?", {}, &Remover::take_request, [this] { requests_listed(); }, true);
}

void Remover::requests_listed() {
  list(
      fmt::format("{}?labelSelector=ghostfleet.dev%2Ffleet%3D{}&", kSlices, fleet_), {}, &Remover::take_slice,
      [this] { check_rights(); }, true);
}

void Remover::take_slice(std::string_view item) {
  const std::string_view metadata = scan_member(item, "metadata");
  if (scan_string(scan_path(metadata, {"labels", agent::kFleetLabel})) != fleet_) return;
  slices_.emplace_back(scan_string(scan_member(metadata, "name")));
}

std::vector<Right> Remover::needed_rights() const {
  std::vector<Right> rights;
  if (!names_.empty()) {
    rights.push_back({"delete", "", "nodes", ""});
    rights.push_back({"delete", "coordination.k8s.io", "leases", std::string(kLeaseNamespace)});
    rights.push_back({"delete", "storage.k8s.io", "csinodes", ""});
  }
  if (nodes_.size() > names_.size()) rights.push_back({"patch", "", "nodes", ""});
  if (!slices_.empty()) rights.push_back({"delete", "resource.k8s.io", "resourceslices", ""});
  if (!requests_.empty()) rights.push_back({"delete", "certificates.k8s.io", "certificatesigningrequests", ""});
  std::set<std::string> namespaces;
  for (const FoundPod& pod : pods_) namespaces.insert(pod.ns);
  if (namespaces.size() > kMostNamespaces) namespaces = {""};
  for (const std::string& ns : namespaces) rights.push_back({"delete", "", "pods", ns});
  return rights;
}

// Half a removal would be worse than none.
void Remover::check_rights() {
  const std::vector<Right> rights = needed_rights();
  questions_ = rights.size();
  for (const Right& right : rights) {
    kube::ApiCall call;
    call.method = "POST";
    call.target = kReviews;
    call.body = right.question();
    client_.call(std::move(call), [this, right](kube::ApiCallResult result) { rights_answered(right, result); });
  }
}

// A server that does not answer such questions is taken to allow.
void Remover::rights_answered(const Right& right, const kube::ApiCallResult& result) {
  const std::string_view status = scan_member(result.body, "status");
  if (result.ok() && scan_member(status, "allowed") == "false") missing_.push_back(right.text());
  if (--questions_ > 0) return;
  if (missing_.empty()) {
    if (options_.dry_run && !names_.empty()) return count_all();
    return delete_nodes();
  }
  std::sort(missing_.begin(), missing_.end());
  fatal = Status(Code::kPermissionDenied,
                 fmt::format("fleet {}: these credentials may not {}: nothing was removed (the ClusterRole "
                             "ghostfleet-down of manifests/rbac.yaml holds every right that is needed)",
                             fleet_, fmt::join(missing_, ", ")));
  end();
}

bool Remover::is_ours(std::string_view item) const {
  return names_.contains(std::string(scan_string(scan_path(item, {"metadata", "name"}))));
}

// A request is a node's when the node made it, or when it asks for a certificate of that node.
void Remover::take_request(std::string_view item) {
  std::string user(scan_string(scan_path(item, {"spec", "username"})));
  if (!user.starts_with(kNodeUser)) {
    std::string pem;
    if (!base64_decode(scan_string(scan_path(item, {"spec", "request"})), &pem)) return;
    const auto subject = kube::read_signing_request(pem);
    if (!subject.ok()) return;
    user = subject->common_name;
  }
  if (!user.starts_with(kNodeUser) || !names_.contains(user.substr(kNodeUser.size()))) return;
  requests_.emplace_back(scan_string(scan_path(item, {"metadata", "name"})));
}

// For --dry-run: what delete_nodes() would remove.
void Remover::count_all() {
  report.signing_requests = requests_.size();
  report.resource_slices = slices_.size();
  list(std::string(kLeases) + "?", {}, &Remover::take_lease,
       [this] { list(std::string(kCsiNodes) + "?", {}, &Remover::take_csi_node, [this] { delete_nodes(); }); });
}

Remover::Step Remover::deletion(std::string target, std::string_view uid, uint64_t* counter, bool now) const {
  Step step;
  step.counter = counter;
  step.call.method = "DELETE";
  step.call.target = std::move(target);
  step.call.body = R"({"kind":"DeleteOptions","apiVersion":"v1")";
  if (now) step.call.body += R"(,"gracePeriodSeconds":0)";
  if (!uid.empty()) step.call.body += fmt::format(R"(,"preconditions":{{"uid":"{}"}})", uid);
  step.call.body += "}";
  return step;
}

// An adopted node goes back to whoever had it.
Remover::Step Remover::unlabel(const FoundNode& node) {
  Step step;
  step.counter = &report.kept_adopted;
  step.call.method = "PATCH";
  step.call.target = "/api/v1/nodes/" + node.name;
  step.call.content_type = "application/merge-patch+json";
  step.call.body = fmt::format(R"({{"metadata":{{"labels":{{"{}":null}},"annotations":{{"{}":null}}}}}})",
                               agent::kFleetLabel, agent::kAdoptedAnnotation);
  return step;
}

// Lease and CSINode before their Node: as long as the Node is there a second run finds them.
void Remover::delete_nodes() {
  if (options_.dry_run) {
    report.nodes = names_.size();
    report.kept_adopted = nodes_.size() - names_.size();
    report.pods = pods_.size();
    return end();
  }
  total_ = names_.size() * 3 + (nodes_.size() - names_.size()) + pods_.size() + requests_.size() + slices_.size();
  for (const FoundNode& node : nodes_) {
    if (node.adopted) {
      steps_.push_back(unlabel(node));
      continue;
    }
    steps_.push_back(deletion(fmt::format("{}/{}", kLeases, node.name), {}, &report.leases, false));
    steps_.push_back(deletion(fmt::format("{}/{}", kCsiNodes, node.name), {}, &report.csi_nodes, false));
  }
  for (const std::string& name : slices_) {
    steps_.push_back(deletion(fmt::format("{}/{}", kSlices, name), {}, &report.resource_slices, false));
  }
  for (const std::string& name : requests_) {
    steps_.push_back(deletion(fmt::format("{}/{}", kube::kSigningRequests, name), {}, &report.signing_requests, false));
  }
  after_pass_ = [this] {
    for (const FoundNode& node : nodes_) {
      if (!node.adopted) steps_.push_back(deletion("/api/v1/nodes/" + node.name, node.uid, &report.nodes, false));
    }
    after_pass_ = [this] { delete_pods(); };
    pump();
  };
  pump();
}

// After the nodes: what their owners make instead cannot be bound to them again.
void Remover::delete_pods() {
  for (const FoundPod& pod : pods_) {
    steps_.push_back(
        deletion(fmt::format("/api/v1/namespaces/{}/pods/{}", pod.ns, pod.name), pod.uid, &report.pods, true));
  }
  after_pass_ = [this] { end(); };
  pump();
}

void Remover::end() {
  if (done_) std::exchange(done_, nullptr)();
}

void Remover::pump() {
  while (!steps_.empty() && on_the_way_ < kAtOnce) {
    Step step = std::move(steps_.front());
    steps_.pop_front();
    ++on_the_way_;
    kube::ApiCall call = step.call;
    client_.call(std::move(call), [this, step](kube::ApiCallResult result) { answered(step, result); });
  }
  if (steps_.empty() && on_the_way_ == 0) std::exchange(after_pass_, nullptr)();
}

void Remover::answered(const Step& step, const kube::ApiCallResult& result) {
  --on_the_way_;
  ++finished_;
  if (progress_) progress_(finished_, total_);
  if (result.ok()) ++*step.counter;
  // 404: gone already. 409: another object of that name, which is not ours.
  if (!result.ok() && result.status != 404 && result.status != 409) {
    ++report.failed;
    if (report.failures.size() < kMostFailures) {
      report.failures.push_back(result.to_status(step.call.method + " " + step.call.target).message());
    }
  }
  pump();
}

}  // namespace

Result<DownReport> remove_fleet(const kube::ClientConfig& config, const std::string& fleet_name,
                                const DownOptions& options, DownProgress progress) {
  const auto faults = kube::check_dns1123_label(fleet_name);
  if (!faults.empty()) return invalid_argument(fmt::format("fleet name \"{}\": {}", fleet_name, faults[0]));
  EventLoop loop;
  auto client = kube::KubeClient::create(loop, config);
  if (!client.ok()) return client.error();
  Remover remover(**client, fleet_name, options, std::move(progress));
  loop.post([&] { remover.run([&loop] { loop.stop(); }); });
  loop.run();
  client->reset();
  if (remover.fatal) return *remover.fatal;
  return remover.report;
}

}  // namespace ghostfleet::emulator
