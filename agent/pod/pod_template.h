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

#include "agent/behavior/behavior.h"
#include "agent/behavior/behavior_rules.h"
#include "agent/behavior/command_model.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

enum class RestartPolicy : unsigned char { kAlways, kOnFailure, kNever };

// One of a container's restartPolicyRules: restart when the exit code is (or is not) among `codes`.
struct RestartRule {
  bool in = true;
  bool all = false;  // every container of the pod starts afresh
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
  std::optional<ProbeWindow> window;  // told by the command model; counts before the word
  int64_t grace_seconds = -1;         // of the stop that its failure leads to; -1: the pod's
  std::string unknown_port;           // a name that no port of its container has: it cannot be asked
};

// What is run when a container has started, or before it is stopped.
enum class HookKind : unsigned char { kNone, kExec, kHttp, kSleep };
struct Hook {
  HookKind kind = HookKind::kNone;
  ProbeWord word = ProbeWord::kNone;  // of an exec hook: it fails while a probe
                                      // of this word would
  Duration sleep{0};
  std::string command;  // as Go prints it: "[sh -c true]"
};

// A ConfigMap or Secret that must be there before a volume is mounted or a container is created, or a volume's claim.
enum class ObjectKind : unsigned char { kConfigMap, kSecret, kClaim };
struct ObjectRef {
  ObjectKind kind = ObjectKind::kConfigMap;
  bool optional = false;
  bool projected = false;  // a source of a projected volume
  std::string name;
  std::vector<std::string> keys;  // that it must have
  std::string volume;             // empty for variables
};

struct TokenRef {
  std::string volume;
  std::string audience;  // empty: the API server's own
  int64_t expiration_seconds = 3600;
};

enum class PullPolicy : unsigned char { kIfNotPresent, kAlways, kNever };

// A quantity as arithmetic wants it and as messages name it.
struct Amount {
  int64_t value = 0;
  std::string text = "0";
};

// An emptyDir volume with a limit, or whose use somebody told.
struct EmptyDir {
  std::string name;
  Amount limit;  // 0: none
};

struct ContainerSpec {
  std::string name;
  std::string image;
  bool init = false;       // of spec.initContainers
  bool ephemeral = false;  // of spec.ephemeralContainers
  bool sidecar = false;    // an init container with restartPolicy Always
  bool has_restart_policy = false;
  RestartPolicy restart_policy = RestartPolicy::kAlways;  // its own, else the pod's
  std::vector<RestartRule> restart_rules;
  PullPolicy pull_policy = PullPolicy::kIfNotPresent;
  ProbeSpec probes[kProbeKinds];
  Hook post_start, pre_stop;
  bool cpu_restarts = false,
       memory_restarts = false;      // resizePolicy RestartContainer
  bool not_root = false;             // runAsNonRoot, but its user is root
  bool root_by_spec = false;         // because runAsUser says so
  std::vector<ObjectRef> variables;  // needed by env and envFrom
  std::string config_error;          // what in the spec alone keeps it from being made; empty: nothing
  Script script;
  Amount memory_request, storage_request, storage_limit;
  std::vector<std::pair<std::string, uint32_t>> devices;    // extended resources that it asks for
  std::vector<std::pair<std::string, std::string>> claims;  // entries of the pod's resourceClaims; request, or empty
  // Ready-made JSON. In `mounts` the byte kSuffixMark stands for the five letters that end the token volume's name.
  std::string resources = "{}";
  std::string running_resources = "{}";
  std::string allocated;  // requests; empty: none
  std::string mounts;     // empty: none
};
inline constexpr char kSuffixMark = '\x01';

// Of a pod with setHostnameAsFQDN. No hostname: the pod's name.
struct FullHostname {
  bool wanted = false;
  std::string hostname, subdomain;
};

struct HostPort {
  int port = 0;
  std::string protocol, ip;
};

// Amounts are millicores for cpu and whole units (bytes, devices) for all else.
using Amounts = std::vector<std::pair<std::string, int64_t>>;

struct PodTemplate {
  // Init containers first, then regular ones, then ephemeral ones, each in the order of the spec.
  std::vector<ContainerSpec> containers;
  size_t init_count = 0, ephemeral_count = 0;
  std::vector<uint32_t> by_name;    // indexes of the regular containers, sorted by
                                    // name (order in the status)
  std::vector<uint32_t> ephemeral;  // the same of the ephemeral ones
  RestartPolicy restart_policy = RestartPolicy::kAlways;
  int64_t grace_seconds = 30;
  int64_t priority = 0;
  int64_t active_deadline_seconds = 0;  // 0: none
  bool host_network = false;
  bool restarts_all = false;  // a container has a rule that restarts all of them
  std::string service_account;
  std::vector<std::string> readiness_gates;
  std::vector<std::string> nameservers;  // of its own, beside the cluster's
  std::vector<TokenRef> tokens;
  std::vector<ObjectRef> volumes;
  std::vector<std::string> pull_secrets;
  std::vector<HostPort> host_ports;
  FullHostname full_hostname;
  Amounts requests;
  Amount memory_request;             // of the pod as a whole (spec.resources); 0: none
  Amount storage_limit;              // what its containers' limits of ephemeral-storage add up to; 0: none
  std::vector<EmptyDir> empty_dirs;  // all of them
  bool uses = false;                 // the behaviour of a container tells what it uses of its node
  std::string allocated;             // status.allocatedResources; empty: none
  std::string resources = "{}";      // status.resources
  // Annotations, "behavior.ghostfleet.dev/c", and what is wrong with them; one entry each.
  std::vector<std::pair<std::string, std::string>> problems;

  size_t regular_end() const { return containers.size() - ephemeral_count; }
  size_t regular_count() const { return regular_end() - init_count; }
};

// The five letters behind "kube-api-access-" of the pod's injected token volume; empty when it has none.
std::string_view token_suffix(const kube::Json& pod);

// Extracts, whatever the Json looks like: missing or odd fields take their defaults. With `commands` a container
// without an annotation does what its command line says, where that is understood.
std::shared_ptr<const PodTemplate> make_template(const kube::Json& pod, bool commands = false,
                                                 const BehaviorRules* rules = nullptr);
// The same, shared with earlier pods of this thread whose spec differs in nothing that matters here.
std::shared_ptr<const PodTemplate> intern_template(const kube::Json& pod, bool commands = false,
                                                   const BehaviorRules* rules = nullptr);

}  // namespace ghostfleet::agent
