// Feeds a PodManager with pods that make no sense, and with answers and times that come as they like.
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "agent/pod/pod_manager.h"

namespace {

using namespace ghostfleet;

class FuzzHost final : public agent::Host {
 public:
  TimePoint now() const override { return clock.now(); }
  WallTime wall_now() const override { return clock.wall_now(); }
  Rng& rng() override { return random; }
  void send(agent::ApiRequest request) override {
    if (sent.size() < 1000) sent.push_back(std::move(request));
  }
  void arm(agent::Tag tag, TimePoint at) override { timers[tag] = at; }
  void disarm(agent::Tag tag) override { timers.erase(tag); }

  ManualClock clock;
  Rng random{7};
  std::deque<agent::ApiRequest> sent;
  std::map<agent::Tag, TimePoint> timers;
};

uint64_t next(uint64_t& state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return state >> 33;
}

// Something else in the place of a random value.
kube::Json odd_value(uint64_t& state) {
  switch (next(state) % 9) {
    case 0: return nullptr;
    case 1: return static_cast<int64_t>(next(state) << 31) * (next(state) % 2 == 0 ? 1 : -1);
    case 2: return INT64_MAX;
    case 3: return 1e300;
    case 4: return true;
    case 5: return "\xff\x01 odd";
    case 6: return kube::JsonObject{{"name", "c"}, {"value", 3}};
    case 7: return kube::JsonArray{1, "x", nullptr};
    default: return static_cast<int64_t>(next(state) % 5) - 1;
  }
}

void twist(kube::Json& value, uint64_t& state) {
  kube::Json* at = &value;
  while (next(state) % 8 != 0) {
    if (at->is_object() && !at->get_object().empty()) {
      at = &(at->get_object().begin() + static_cast<std::ptrdiff_t>(next(state) % at->get_object().size()))->value();
    } else if (at->is_array() && !at->get_array().empty()) {
      at = &at->get_array()[next(state) % at->get_array().size()];
    } else {
      break;
    }
  }
  if (at->is_array() && !at->get_array().empty() && next(state) % 2 == 0) {
    at->get_array().push_back(kube::Json(at->get_array()[0]));
  } else {
    *at = odd_value(state);
  }
}

void play(agent::PodManager& manager, FuzzHost& host, const kube::Json& pod, uint64_t choices) {
  for (int step = 0; step < 40; ++step, choices = choices * 6364136223846793005ULL + 1442695040888963407ULL) {
    const uint64_t pick = choices >> 60;
    if (pick < 5 && !host.sent.empty()) {
      const agent::ApiRequest request = std::move(host.sent.front());
      host.sent.pop_front();
      static constexpr int kStatus[] = {200, 200, 0, 404, 500};
      const std::string body = request.verb == agent::Verb::kGet ? kube::to_json(pod) : "";
      manager.on_response(request.tag, {kStatus[pick], body, std::chrono::seconds(pick)});
    } else if (pick < 12 && !host.timers.empty()) {
      const auto first = host.timers.begin();
      const agent::Tag tag = first->first;
      if (first->second > host.clock.now() && first->second.ns < INT64_MAX / 2) {
        host.clock.advance(first->second - host.clock.now());
      }
      host.timers.erase(first);
      manager.on_timer(tag);
    } else if (pick == 12) {
      manager.on_pod_text(kube::to_json(pod));
    } else if (pick == 13) {
      manager.on_pod_deleted("default", "a", "u-1");
    } else {
      manager.on_response(choices, {200, "{}", Duration(0)});
    }
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds();

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  kube::JsonParseOptions shallow;
  shallow.max_depth = 200;
  Result<kube::Json> pod = kube::parse_json(text, shallow);
  if (!pod.ok()) {
    // No JSON at all: a good pod with as many twists as the bytes say.
    uint64_t state = 0;
    for (const char c : text) state = state * 131 + static_cast<unsigned char>(c);
    static const std::vector<std::string> kSeeds = fuzz_seeds();
    pod = kube::parse_json(std::string_view(kSeeds[next(state) % kSeeds.size()]).substr(1));
    if (!pod.ok()) __builtin_trap();
    for (uint64_t i = next(state) % 6; i-- > 0;) twist(*pod, state);
    kube::set_path(*pod, "metadata.uid", "u-1");
  }
  FuzzHost host;
  agent::NodeFacts facts;
  facts.name = "n";
  facts.host_ip = "10.0.0.1";
  facts.pod_ip = [](uint32_t n) { return "10.1.0." + std::to_string(n); };
  facts.object = std::make_shared<const kube::Json>(*pod);  // a node that makes no sense either
  auto options = std::make_shared<agent::PodOptions>();
  options->full_fidelity = (data[0] & 1) != 0;
  const auto manager = agent::PodManager::create(facts, options, host);
  manager->on_pod(*pod);
  play(*manager, host, *pod, data[0] * 0x9e3779b97f4a7c15ULL + size);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string spec =
      R"("spec":{"restartPolicy":"Always","activeDeadlineSeconds":30,"readinessGates":[{"conditionType":"g"}],
      "volumes":[{"name":"kube-api-access-abcde","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607}},
      {"configMap":{"name":"k"}}]}},{"name":"s","secret":{"secretName":"s"}}],
      "initContainers":[{"name":"i","image":"i:1"},{"name":"s","image":"slow:1","restartPolicy":"Always",
      "startupProbe":{"exec":{"command":["started"]},"periodSeconds":1}}],
      "containers":[{"name":"c","image":"missing:1","env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"m","key":"k"}}}],
      "readinessProbe":{"exec":{"command":["ready"]}},"livenessProbe":{"httpGet":{"port":80}},
      "resources":{"limits":{"cpu":"2","memory":"1Gi"}}},{"name":"d","image":"x"}]})";
  const std::string meta =
      R"("metadata":{"name":"a","namespace":"default","uid":"u-1","generation":1,"resourceVersion":"5","annotations":
      {"behavior.ghostfleet.dev/c":"exit=1,0 after=2s live=3s ready=1s","behavior.ghostfleet.dev/s":"started=2s"})";
  return {
      "\x02{" + meta + "}," + spec + "}",
      "\x01{" + meta + "}," + spec + "}",
      "\x03{" + meta + R"(,"deletionTimestamp":"2026-01-05T10:00:00Z","deletionGracePeriodSeconds":3},)" + spec + "}",
      "\x04{" + meta + "}," + spec +
          R"(,"status":{"phase":"Running","startTime":"2026-01-05T09:00:00Z","podIP":"10.1.0.3","conditions":[{"type":"Ready",
          "status":"True","lastTransitionTime":"2026-01-05T09:00:01Z"}],"initContainerStatuses":[{"name":"i","state":{"terminated":
          {"exitCode":0,"startedAt":"2026-01-05T09:00:01Z","finishedAt":"2026-01-05T09:00:02Z","containerID":"x"}}}],
          "containerStatuses":[{"name":"c","restartCount":3,"containerID":"containerd://abc","started":true,"ready":true,
          "state":{"running":{"startedAt":"2026-01-05T09:00:03Z"}},"lastState":{"terminated":{"exitCode":1}}},
          {"name":"d","state":{"waiting":{"reason":"CrashLoopBackOff"}}}]},)" +
          R"("x":{"allocatable":{"cpu":"4","pods":"9"}}})",
      "\x05{" + meta + R"(},"status":{"phase":"Failed","allocatable":{"cpu":"1","pods":1}}})",
  };
}
