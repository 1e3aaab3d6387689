// What decoding and encoding of API objects costs: CPU microseconds for each step on a node of about 5 KB and a pod of
// about 3 KB, as JSON and as protobuf. One thread, one warm-up round; the median of several rounds is printed.
//
//   codec_bench [ROUNDS]
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kube/api/codec.h"

using namespace ghostfleet::kube;

namespace {

double cpu_micros() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto micros = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  return micros(u.ru_utime) + micros(u.ru_stime);
}

KindInfo core_kind(const char* kind) {
  KindInfo k;
  k.version = "v1";
  k.kind = kind;
  k.type = find_type("", "v1", kind);
  return k;
}

std::string node_json() {
  std::string labels;
  for (int i = 0; i < 16; ++i)
    labels += (i ? "," : "") + ("\"topology.example.com/label-" + std::to_string(i)) + "\":\"value-" +
              std::to_string(i) + "\"";
  std::string conditions;
  for (const char* type : {"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"}) {
    conditions +=
        std::string(conditions.empty() ? "" : ",") + R"({"type":")" + type +
        R"(","status":"False","lastHeartbeatTime":"2026-01-02T03:04:05Z","lastTransitionTime":"2026-01-02T03:04:05Z",)"
        R"("reason":"KubeletHasSufficientResources","message":"kubelet has sufficient resources available"})";
  }
  std::string images;
  for (int i = 0; i < 12; ++i) {
    images +=
        std::string(i ? "," : "") + R"({"names":["registry.example.com/team/image-)" + std::to_string(i) +
        R"(@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","registry.example.com/team/image-)" +
        std::to_string(i) + R"(:v1.2.3"],"sizeBytes":123456789})";
  }
  const std::string resources =
      R"({"aws.amazon.com/neuron":"16","cpu":"192","ephemeral-storage":"512Gi","hugepages-2Mi":"0",)"
      R"("memory":"2097152Ki","pods":"110"})";
  return R"({"kind":"Node","apiVersion":"v1","metadata":{"name":"node-000001","uid":"6ff58c01-37f9-4d7a-b526-90bc17865ffc",)"
         R"("resourceVersion":"123456","creationTimestamp":"2026-01-02T03:04:05Z","labels":{)" +
         labels +
         R"(}},"spec":{"providerID":"aws:///us-west-2a/i-0123456789abcdef0","taints":[{"key":"a","effect":"NoSchedule"}]},)"
         R"("status":{"capacity":)" +
         resources + R"(,"allocatable":)" + resources + R"(,"conditions":[)" + conditions +
         R"(],"addresses":[{"type":"InternalIP","address":"10.0.0.1"},{"type":"Hostname","address":"node-000001"}],)"
         R"("daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},"nodeInfo":{"machineID":"m","systemUUID":"s","bootID":"b",)"
         R"("kernelVersion":"6.1","osImage":"Linux","containerRuntimeVersion":"containerd://2","kubeletVersion":"v1.34.0",)"
         R"("kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64"},"images":[)" +
         images + "]}}";
}

std::string pod_json() {
  std::string env;
  for (int i = 0; i < 10; ++i)
    env += std::string(i ? "," : "") + R"({"name":"VARIABLE_)" + std::to_string(i) + R"(","value":"some value"})";
  return R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-5d4f8c7b9-x2x7z","generateName":"web-5d4f8c7b9-","namespace":)"
         R"("default","uid":"6ff58c01-37f9-4d7a-b526-90bc17865ffc","resourceVersion":"123456","creationTimestamp":)"
         R"("2026-01-02T03:04:05Z","labels":{"app":"web","pod-template-hash":"5d4f8c7b9"},"ownerReferences":[{"apiVersion":)"
         R"("apps/v1","kind":"ReplicaSet","name":"web-5d4f8c7b9","uid":"u","controller":true,"blockOwnerDeletion":true}]},)"
         R"("spec":{"volumes":[{"name":"kube-api-access-abcde","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":)"
         R"(3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}],)"
         R"("defaultMode":420}}],"containers":[{"name":"web","image":"registry.example.com/web:v1","ports":[{"containerPort":80,)"
         R"("protocol":"TCP"}],"env":[)" +
         env +
         R"(],"resources":{"limits":{"cpu":"500m","memory":"1Gi"},"requests":{"cpu":"250m","memory":"512Mi"}},"volumeMounts":)"
         R"([{"name":"kube-api-access-abcde","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],)"
         R"("livenessProbe":{"httpGet":{"path":"/healthz","port":80,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,)"
         R"("successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log",)"
         R"("terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always",)"
         R"("terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default",)"
         R"("nodeName":"node-000001","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":)"
         R"("node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,)"
         R"("enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running","conditions":[)"
         R"({"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z"}],"hostIP":"10.0.0.1",)"
         R"("podIP":"10.1.0.5","podIPs":[{"ip":"10.1.0.5"}],"startTime":"2026-01-02T03:04:05Z","containerStatuses":[{"name":"web",)"
         R"("state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}},"lastState":{},"ready":true,"restartCount":0,"image":)"
         R"("registry.example.com/web:v1","imageID":"sha256:0123","containerID":"containerd://0123","started":true}],"qosClass":"Burstable"}})";
}

size_t g_sink = 0;  // keeps results alive

void measure(const char* what, int rounds, const std::function<void()>& step) {
  constexpr int kEach = 2000;
  std::vector<double> micros;
  for (int r = 0; r <= rounds; ++r) {
    const double start = cpu_micros();
    for (int i = 0; i < kEach; ++i) step();
    if (r > 0) micros.push_back((cpu_micros() - start) / kEach);
  }
  std::sort(micros.begin(), micros.end());
  std::printf("  %-28s %7.2f us (min %.2f, max %.2f)\n", what, micros[micros.size() / 2], micros.front(),
              micros.back());
}

void bench(const char* name, const std::string& json, const KindInfo& kind, int rounds) {
  const Json object = *decode_object(json, MediaType::kJson, kind, {});
  const std::string binary = *encode_protobuf(object, kind);
  std::printf("%s: %zu bytes of JSON, %zu of protobuf\n", name, json.size(), binary.size());
  measure("parse_json", rounds, [&] { g_sink += parse_json(json)->is_object(); });
  measure("to_json", rounds, [&] { g_sink += to_json(object).size(); });
  measure("decode_object (JSON)", rounds, [&] { g_sink += decode_object(json, MediaType::kJson, kind, {}).ok(); });
  measure("encode_json", rounds, [&] { g_sink += encode_json(object, kind.type).size(); });
  measure("decode + encode (JSON)", rounds, [&] {
    auto o = decode_object(json, MediaType::kJson, kind, {});
    g_sink += encode_json(*o, kind.type).size();
  });
  measure("normalize", rounds, [&] { g_sink += normalize(object, *kind.type).ok(); });
  measure("decode_object (protobuf)", rounds,
          [&] { g_sink += decode_object(binary, MediaType::kProtobuf, kind, {}).ok(); });
  measure("encode_protobuf", rounds, [&] { g_sink += encode_protobuf(object, kind)->size(); });
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  const double start = cpu_micros();
  g_sink += all_types().size();
  std::printf("field table built in %.0f us\n", cpu_micros() - start);
  bench("node", node_json(), core_kind("Node"), rounds);
  bench("pod", pod_json(), core_kind("Pod"), rounds);
  return g_sink == 0;
}
