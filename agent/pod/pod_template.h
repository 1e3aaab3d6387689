// PodTemplate: what a node must remember of a pod's spec, extracted once and shared by all pods that are alike (the
// pods of one Deployment on one thread): the pod itself then needs only its state.
//
// Thread rule: immutable after extraction. intern_template() keeps a table per thread.
// Ownership: pods hold shared pointers; the table holds weak ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/pod/behavior.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

enum class RestartPolicy : unsigned char { kAlways, kOnFailure, kNever };

// One of a container's restartPolicyRules: restart when the exit code is (or is not) among `codes`.
struct RestartRule {
  bool in = true;
  std::vector<int> codes;
};

// Which word of the script decides a probe's result.
enum class ProbeWord : unsigned char { kNone, kReady, kLive, kStarted };
enum class ProbeHandler : unsigned char { kExec, kHttp, kTcp, kGrpc };
enum class ProbeKind : unsigned char { kStartup = 0, kReadiness = 1, kLiveness = 2 };
inline constexpr int kProbeKinds = 3;

struct ProbeSpec {
  bool present = false;
  ProbeWord word = ProbeWord::kNone;
  ProbeHandler handler = ProbeHandler::kExec;
  Duration period{std::chrono::seconds(10)};
  Duration initial_delay{0};
  int failure_threshold = 3;
  int success_threshold = 1;
};

// A ConfigMap or Secret that must be there before a volume is mounted or a container is created.
struct ObjectRef {
  bool secret = false;
  bool optional = false;
  std::string name;
  std::string key;     // of a variable; empty: the whole object
  std::string volume;  // empty for variables
};

struct TokenRef {
  std::string volume;
  std::string audience;  // empty: the API server's own
  int64_t expiration_seconds = 3600;
};

enum class PullPolicy : unsigned char { kIfNotPresent, kAlways, kNever };

struct ContainerSpec {
  std::string name;
  std::string image;
  bool init = false;     // of spec.initContainers
  bool sidecar = false;  // an init container with restartPolicy Always
  bool has_restart_policy = false;
  RestartPolicy restart_policy = RestartPolicy::kAlways;  // its own, else the pod's
  std::vector<RestartRule> restart_rules;
  PullPolicy pull_policy = PullPolicy::kIfNotPresent;
  ProbeSpec probes[kProbeKinds];
  Duration pre_stop_sleep{0};
  std::vector<ObjectRef> variables;  // needed by env and envFrom
  Script script;
  // Ready-made JSON. In `mounts` the byte kSuffixMark stands for the five letters that end the token volume's name.
  std::string resources = "{}";
  std::string allocated;  // requests; empty: none
  std::string mounts;     // empty: none
};
inline constexpr char kSuffixMark = '\x01';

struct HostPort {
  int port = 0;
  std::string protocol, ip;
};

// Amounts are millicores for cpu and whole units (bytes, devices) for all else.
using Amounts = std::vector<std::pair<std::string, int64_t>>;

struct PodTemplate {
  std::vector<ContainerSpec> containers;  // init containers first, then regular ones, each in the order of the spec
  size_t init_count = 0;
  std::vector<uint32_t> by_name;  // indexes of the regular containers, sorted by name (order in the status)
  RestartPolicy restart_policy = RestartPolicy::kAlways;
  int64_t grace_seconds = 30;
  int64_t active_deadline_seconds = 0;  // 0: none
  bool host_network = false;
  std::string service_account;
  std::vector<std::string> readiness_gates;
  std::vector<TokenRef> tokens;
  std::vector<ObjectRef> volumes;
  std::vector<HostPort> host_ports;
  Amounts requests;
  std::string allocated;         // status.allocatedResources; empty: none
  std::string resources = "{}";  // status.resources
  // "behavior.ghostfleet.dev/c" and what is wrong with it
  std::vector<std::pair<std::string, std::string>> problems;

  size_t regular_count() const { return containers.size() - init_count; }
};

// The five letters behind "kube-api-access-" of the pod's injected token volume; empty when it has none.
std::string_view token_suffix(const kube::Json& pod);

// Extracts, whatever the Json looks like: missing or odd fields take their defaults.
std::shared_ptr<const PodTemplate> make_template(const kube::Json& pod);
// The same, shared with earlier pods of this thread whose spec differs in nothing that matters here.
std::shared_ptr<const PodTemplate> intern_template(const kube::Json& pod);

}  // namespace ghostfleet::agent
