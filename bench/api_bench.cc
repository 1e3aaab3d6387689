// What a write costs in the API layer, without HTTP: api_bench [objects=5000] [managed-fields on|off]
//
// Prints CPU microseconds for each: create a node, patch its status as a heartbeat does, create a lease, renew it the
// general and the short way, create a pod, bind it, create an event; and bytes a node takes.
#include <fmt/format.h>
#include <malloc.h>
#include <time.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "controlplane/apiserver/api_impl.h"
#include "kube/api/codec.h"
#include "kube/api/patch.h"

using namespace ghostfleet;
using namespace ghostfleet::controlplane;

namespace {

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::string conditions(std::string_view second) {
  std::string out;
  for (const char* type : {"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"}) {
    out += fmt::format(
        R"({}{{"type":"{}","status":"{}","lastHeartbeatTime":"2026-01-05T10:00:{}Z","lastTransitionTime":"2026-01-05T10:00:00Z","reason":"KubeletReady","message":"kubelet is posting ready status"}})",
        out.empty() ? "" : ",", type, std::string_view(type) == "Ready" ? "True" : "False", second);
  }
  return out;
}

std::string node_text(const std::string& name) {
  std::string labels, images;
  for (int i = 0; i < 12; i++)
    labels += fmt::format(R"({}"topology.example.com/label-{}":"value-{}")", i ? "," : "", i, i);
  for (int i = 0; i < 10; i++) {
    images += fmt::format(
        R"({}{{"names":["registry.example.com/image-{}@sha256:0123456789abcdef","registry.example.com/image-{}:v1"],"sizeBytes":12345678}})",
        i ? "," : "", i, i);
  }
  const char* amounts =
      R"({"cpu":"2","memory":"8003376Ki","pods":"29","ephemeral-storage":"83873772Ki","hugepages-1Gi":"0","hugepages-2Mi":"0"})";
  return fmt::format(
      R"({{"kind":"Node","apiVersion":"v1","metadata":{{"name":"{0}","labels":{{{1}}},"annotations":{{"a":"b"}}}},"spec":{{"providerID":"aws:///us-west-2a/i-0"}},"status":{{"capacity":{2},"allocatable":{2},"conditions":[{3}],"addresses":[{{"type":"InternalIP","address":"10.0.0.1"}},{{"type":"Hostname","address":"{0}"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":10250}}}},"nodeInfo":{{"machineID":"ec2","systemUUID":"ec2","bootID":"b","kernelVersion":"6.1","osImage":"Amazon Linux 2023","containerRuntimeVersion":"containerd://1.7","kubeletVersion":"v1.36.3","kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64"}},"images":[{4}]}}}})",
      name, labels, amounts, conditions("00"), images);
}

std::string lease_text(const std::string& name, const std::string& version, std::string_view second) {
  return fmt::format(
      R"({{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{{"name":"{0}","namespace":"kube-node-lease"{1},"ownerReferences":[{{"apiVersion":"v1","kind":"Node","name":"{0}","uid":"00000000-0000-4000-8000-000000000001"}}]}},"spec":{{"holderIdentity":"{0}","leaseDurationSeconds":40,"renewTime":"2026-01-05T10:00:{2}.000000Z"}}}})",
      name, version, second);
}

class Bench {
 public:
  Bench(int count, bool managed) : count_(count), api_({{}, managed}, SystemClock::instance()) {
    ctx_.user.name = "admin";
    ctx_.user.groups = {kMastersGroup};
    ctx_.field_manager = "kubelet";
    for (const char* ns : {"kube-node-lease", "default"}) {
      create(find("", "namespaces"), "", fmt::format(R"({{"metadata":{{"name":"{}"}}}})", ns));
      create(find("", "serviceaccounts"), ns, R"({"metadata":{"name":"default"}})");
    }
  }

  void run() {
    const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    each("create a node", [&](int i) { create(find("", "nodes"), "", node_text(name(i))); });
    fmt::print("  bytes of heap a node: {} (its JSON: {})\n",
               (mallinfo2().uordblks + mallinfo2().hblkhd - before) / static_cast<size_t>(count_),
               (*api_.get(find("", "nodes"), "", name(0)))->json.size());
    each("patch its status", [&](int i) { patch_status(name(i)); });
    each("create a lease", [&](int i) { create(leases(), "kube-node-lease", lease_text(name(i), "", "00")); });
    each("renew it, general way", [&](int i) { renew(i, "01", false); });
    each("renew it, short way", [&](int i) { renew(i, "02", true); });
    each("create a pod", [&](int i) {
      create(
          find("", "pods"), "default",
          fmt::format(
              R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p{}","labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"c","image":"registry.example/app:1"}}]}}}})",
              i));
    });
    each("bind it", [&](int i) { check(api_.bind("default", fmt::format("p{}", i), "", name(i), ctx_).ok()); });
    each("create an event", [&](int i) {
      create(
          find("", "events"), "default",
          fmt::format(
              R"({{"kind":"Event","apiVersion":"v1","metadata":{{"name":"e{0}","namespace":"default"}},"involvedObject":{{"kind":"Pod","namespace":"default","name":"p{0}","uid":"u","apiVersion":"v1"}},"reason":"Started","message":"Container started","source":{{"component":"kubelet","host":"n"}},"firstTimestamp":"2026-01-05T10:00:00Z","lastTimestamp":"2026-01-05T10:00:00Z","count":1,"type":"Normal","reportingComponent":"kubelet","reportingInstance":"n"}})",
              i));
    });
  }

 private:
  static std::string name(int i) { return fmt::format("bench-node-{:06}", i); }
  static void check(bool ok) {
    if (ok) return;
    fmt::print(stderr, "a write was refused\n");
    std::exit(1);
  }
  const Resource& find(std::string_view group, std::string_view resource) { return *api_.find(group, "v1", resource); }
  const Resource& leases() { return find("coordination.k8s.io", "leases"); }

  void each(std::string_view what, const std::function<void(int)>& action) {
    const double start = cpu_seconds();
    for (int i = 0; i < count_; i++) action(i);
    fmt::print("{:24} {:7.1f} us\n", what, (cpu_seconds() - start) * 1e6 / count_);
  }

  kube::Json decode(const Resource& r, std::string_view text) {
    auto object = kube::decode_object(text, kube::MediaType::kJson, r.info, {});
    check(object.ok());
    return std::move(*object);
  }
  void create(const Resource& r, std::string_view ns, std::string_view text) {
    auto made = api_.create(r, ns, decode(r, text), ctx_);
    if (!made.ok()) fmt::print(stderr, "{}\n", made.error().message);
    check(made.ok());
  }
  void patch_status(const std::string& node) {
    const Resource& r = find("", "nodes");
    const std::string text = R"({"status":{"conditions":[)" + conditions("10") + "]}}";
    Change change{.resource = r, .ns = "", .name = node, .subresource = "status"};
    change.make = [&](const kube::Json& live) -> kube::ApiResult<kube::Json> {
      auto merged = kube::apply_strategic_merge_patch(live, *kube::parse_json(text), *r.info.type);
      if (!merged.ok()) return merged;
      return kube::normalize(std::move(*merged), *r.info.type, nullptr);
    };
    check(api_.write(change, ctx_).ok());
  }
  void renew(int i, std::string_view second, bool quick) {
    const ObjectRef live = *api_.get(leases(), "kube-node-lease", name(i));
    const std::string text =
        lease_text(name(i), fmt::format(R"(,"resourceVersion":"{}")", format_revision(live->revision)), second);
    if (quick) return check(api_.renew_lease(leases(), "kube-node-lease", name(i), text, ctx_) != nullptr);
    check(api_.update(leases(), "kube-node-lease", name(i), decode(leases(), text), "", ctx_).ok());
  }

  const int count_;
  ApiImpl api_;
  RequestContext ctx_;
};

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 5000;
  const std::string managed = argc > 2 ? argv[2] : "on";
  if (count <= 0 || (managed != "on" && managed != "off")) {
    fmt::print(stderr, "usage: api_bench [objects, greater than 0] [managed-fields on|off]\n");
    return 2;
  }
  Bench(count, managed == "on").run();
}
