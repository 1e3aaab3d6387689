// Volumes: tokens are asked for and ConfigMaps and Secrets looked up (in full fidelity), before the sandbox is made.
#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {

constexpr Duration kPoll = std::chrono::milliseconds(300);        // how often mounted volumes are looked for
constexpr Duration kFirstRetry = std::chrono::milliseconds(500);  // of a volume that failed, doubling
constexpr Duration kLongestRetry = std::chrono::seconds(122);
constexpr Duration kPatience = std::chrono::seconds(123);  // then the pod complains

std::string with_suffix(const Pod& pod, const std::string& volume) {
  std::string out = volume;
  if (!out.empty() && out.back() == kSuffixMark) {
    out.pop_back();
    out += pod.token_suffix();
  }
  return out;
}

std::string why_not(const ApiResponse& response, const std::string& missing) {
  if (response.status == 404 && !missing.empty()) return missing;
  if (response.status == 0) return "failed to sync cache: timed out waiting for the condition";
  Result<kube::Json> body = kube::parse_json(response.body);
  if (body.ok() && !kube::get_string(*body, "message").empty()) {
    return std::string(kube::get_string(*body, "message").substr(0, 1000));
  }
  return fmt::format("the server answered {}", response.status);
}

}  // namespace

void Manager::begin_mounting(Pod& pod) {
  pod.work = Work::kMounting;
  if (!full()) {
    pod.work_due = host_.now() + kPoll;
    return;
  }
  auto mounting = std::make_unique<Mounting>();
  mounting->begun = host_.now();
  mounting->done.assign(pod.spec->tokens.size() + pod.spec->volumes.size(), 0);
  pod.more().mounting = std::move(mounting);
  pod.work_due = host_.now() + host_.rng().between(std::chrono::milliseconds(110), std::chrono::milliseconds(270));
}

void Manager::mount_step(Pod& pod) {
  Mounting* m = pod.extras != nullptr ? pod.extras->mounting.get() : nullptr;
  const TimePoint now = host_.now();
  const bool all = m == nullptr || std::all_of(m->done.begin(), m->done.end(), [](char d) { return d != 0; });
  if (all && (m == nullptr || now - m->begun >= kPoll)) {
    if (m != nullptr) pod.extras->mounting.reset();
    pod.mounted = true;
    run_pass(pod);
    return;
  }
  if (!m->asked || m->retry <= now) {
    m->asked = true;
    m->retry = kNever;
    ask_for_volumes(pod);
  }
  if (!m->complained && now - m->begun >= kPatience) {
    m->complained = true;
    std::string names;
    for (size_t i = 0; i < m->done.size(); ++i) {
      if (m->done[i] != 0) continue;
      const size_t tokens = pod.spec->tokens.size();
      const std::string& v = i < tokens ? pod.spec->tokens[i].volume : pod.spec->volumes[i - tokens].volume;
      names += (names.empty() ? "" : " ") + with_suffix(pod, v);
    }
    tell(pod, true, "FailedMount",
         "Unable to attach or mount volumes: unmounted volumes=[" + names +
             "], unattached volumes=[], failed to process volumes=[]: context deadline exceeded");
  }
  // Waits for the next beat at which all may be there, for the retry, and for the end of patience.
  TimePoint next = all ? m->begun + ((now - m->begun) / kPoll + 1) * kPoll : m->retry;
  if (!m->complained) next = std::min(next, m->begun + kPatience);
  pod.work_due = next;
}

void Manager::ask_for_volumes(Pod& pod) {
  Mounting& m = *pod.extras->mounting;
  const size_t tokens = pod.spec->tokens.size();
  for (size_t i = 0; i < m.done.size(); ++i) {
    if (m.done[i] != 0) continue;
    if (i >= 255) {  // beyond what a tag can tell: taken as there
      m.done[i] = 1;
      continue;
    }
    ++m.waiting;
    if (i < tokens) {
      send_token_request(pod, i);
    } else {
      send_object_request(pod, Call::kVolumeObject, i - tokens, pod.spec->volumes[i - tokens]);
    }
  }
}

void Manager::send_token_request(Pod& pod, size_t index) {
  const TokenRef& token = pod.spec->tokens[index];
  std::string audiences;
  if (!token.audience.empty()) {
    audiences = "\"audiences\":[";
    kube::append_json_string(token.audience, &audiences);
    audiences += "],";
  }
  ApiRequest request;
  request.verb = Verb::kPost;
  request.body_type = BodyType::kJson;
  request.tag = tag_of(pod, Call::kToken, index);
  request.target = fmt::format("/api/v1/namespaces/{}/serviceaccounts/{}/token", pod.ns(), pod.spec->service_account);
  request.body = fmt::format(
      "{{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenRequest\",\"spec\":{{{}\"expirationSeconds\":{},"
      "\"boundObjectRef\":{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"name\":\"{}\",\"uid\":\"{}\"}}}}}}",
      audiences, token.expiration_seconds, pod.name(), pod.uid());
  const TimePoint renew = host_.now() +
                          std::chrono::seconds(std::min<int64_t>(token.expiration_seconds, 86400) * 8 / 10) -
                          host_.rng().between(Duration(0), std::chrono::seconds(10));
  pod.token_due = std::min(pod.token_due, renew);
  host_.send(std::move(request));
}

void Manager::renew_tokens(Pod& pod) {
  if (pod.stage != Stage::kActive) return;
  for (size_t i = 0; i < pod.spec->tokens.size() && i < 255; ++i) send_token_request(pod, i);
}

void Manager::send_object_request(Pod& pod, Call call, size_t index, const ObjectRef& ref) {
  ApiRequest request;
  request.tag = tag_of(pod, call, index);
  request.target =
      fmt::format("/api/v1/namespaces/{}/{}/{}", pod.ns(), ref.secret ? "secrets" : "configmaps", ref.name);
  host_.send(std::move(request));
}

// `index`: tokens first, then the objects.
void Manager::on_volume_answer(Pod& pod, size_t index, const ApiResponse& response) {
  Mounting* m = pod.extras != nullptr ? pod.extras->mounting.get() : nullptr;
  if (m == nullptr || index >= m->done.size() || m->done[index] != 0) return;
  const TimePoint now = host_.now();
  const size_t tokens = pod.spec->tokens.size();
  const bool token = index < tokens;
  const bool optional = !token && pod.spec->volumes[index - tokens].optional && response.status == 404;
  m->waiting = std::max(m->waiting - 1, 0);
  if (response.ok() || optional) {
    m->done[index] = 1;
  } else {
    const std::string& volume = token ? pod.spec->tokens[index].volume : pod.spec->volumes[index - tokens].volume;
    const std::string why = token ? "failed to fetch token: " + why_not(response, {})
                                  : why_not(response, missing_object(pod.spec->volumes[index - tokens]));
    tell(pod, true, "FailedMount",
         fmt::format("MountVolume.SetUp failed for volume \"{}\" : {}", with_suffix(pod, volume), why));
  }
  if (m->waiting > 0 || pod.work != Work::kMounting) return;
  if (std::find(m->done.begin(), m->done.end(), 0) != m->done.end()) {
    m->retry = now + std::min<Duration>(kFirstRetry * (1LL << std::min(m->tries, 10)), kLongestRetry);
    ++m->tries;
  }
  pod.work_due = std::min(pod.work_due, now);
}

void Manager::on_variable_answer(Pod& pod, size_t index, const ApiResponse& response) {
  Extras* more = pod.extras.get();
  if (more == nullptr || more->fetch_index < 0 || index >= more->object_state.size()) return;
  if (more->object_state[index] != 0) return;
  more->object_state[index] = response.ok() ? 1 : 2;
  if (--more->fetching > 0) return;
  const size_t container = static_cast<size_t>(more->fetch_index);
  more->fetch_index = -1;
  if (pod.work != Work::kFetching || container >= pod.runs.size()) return;
  pod.runs[container].objects_ready = true;
  run_pass(pod);
}

}  // namespace ghostfleet::agent
