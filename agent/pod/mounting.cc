// Volumes: tokens are asked for and ConfigMaps and Secrets looked up (in full fidelity), before the sandbox is made.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "agent/pod/manager.h"
#include "agent/pod/pull_secrets.h"

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

// The first of the wanted keys that the object has not; empty: it has all.
std::string lacking_key(const ObjectRef& ref, const ApiResponse& response) {
  if (ref.keys.empty()) return {};
  const Result<kube::Json> object = kube::parse_json(response.body);
  if (!object.ok()) return {};
  for (const std::string& key : ref.keys) {
    const auto has = [&](std::string_view field) {
      const kube::Json* data = kube::find_key(*object, field);
      return data != nullptr && kube::find_key(*data, key) != nullptr;
    };
    if (!has("data") && !(ref.kind == ObjectKind::kConfigMap && !ref.volume.empty() && has("binaryData"))) return key;
  }
  return {};
}

// Words of a volume whose object has not the key.
std::string volume_lacks(const ObjectRef& ref, const std::string& key) {
  return ref.kind == ObjectKind::kSecret ? "references non-existent secret key: " + key
                                         : "configmap references non-existent config key: " + key;
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

std::string token_problem(const ApiResponse& response) {
  return response.ok() ? std::string() : "failed to fetch token: " + why_not(response, {});
}

std::string claim_problem(const ObjectRef& ref, const ApiResponse& response) {
  if (!response.ok()) return "failed to fetch PVC from API server: " + why_not(response, missing_object(ref));
  const Result<kube::Json> claim = kube::parse_json(response.body);
  if (!claim.ok()) return {};
  if (!kube::get_string(*claim, "metadata.deletionTimestamp").empty()) return "PVC is being deleted";
  return kube::get_string(*claim, "status.phase") == "Bound" ? std::string() : "PVC is not bound";
}

// Empty: the volume has what it needs.
std::string object_problem(const ObjectRef& ref, const ApiResponse& response) {
  if (ref.kind == ObjectKind::kClaim) return claim_problem(ref, response);
  if (!response.ok())
    return ref.optional && response.status == 404 ? std::string() : why_not(response, missing_object(ref));
  const std::string key = lacking_key(ref, response);
  return key.empty() || ref.optional ? std::string() : volume_lacks(ref, key);
}

}  // namespace

void Manager::begin_mounting(Pod& pod) {
  pod.work = Work::kMounting;
  if (!full()) {
    pod.work_due = host_.now() + kPoll;
    return;
  }
  if (pod.extras != nullptr && pod.extras->mounting != nullptr) {
    // Tried before: what is there stays.
    pod.extras->mounting->begun = host_.now();
    pod.extras->mounting->asked = false;
    pod.work_due = host_.now();
    return;
  }
  auto mounting = std::make_unique<Mounting>();
  mounting->begun = host_.now();
  mounting->done.assign(pod.spec->tokens.size() + pod.spec->volumes.size(), 0);
  pod.more().mounting = std::move(mounting);
  // They are fetched meanwhile, and counted as missing when the answer says so.
  const size_t secrets = std::min<size_t>(pod.spec->pull_secrets.size(), 255);
  pod.extras->missing_pull_secrets.assign(secrets, 0);
  for (size_t i = 0; i < secrets; ++i) {
    send_object_request(pod, Call::kPullSecret, i, {.kind = ObjectKind::kSecret, .name = pod.spec->pull_secrets[i]});
  }
  pod.work_due = host_.now() + host_.rng().between(std::chrono::milliseconds(110), std::chrono::milliseconds(270));
}

bool Manager::all_mounted(const Pod& pod) const {
  const Mounting* m = pod.extras != nullptr ? pod.extras->mounting.get() : nullptr;
  return full() && m != nullptr && std::all_of(m->done.begin(), m->done.end(), [](char d) { return d != 0; });
}

void Manager::mounted(Pod& pod) {
  if (pod.extras != nullptr) pod.extras->mounting.reset();
  pod.mounted = true;
  enter_runtime(pod);
}

void Manager::mount_step(Pod& pod) {
  Mounting* m = pod.extras != nullptr ? pod.extras->mounting.get() : nullptr;
  const TimePoint now = host_.now();
  const bool all = m == nullptr || all_mounted(pod);
  if (all && (m == nullptr || now - m->begun >= kPoll)) {
    mounted(pod);
    return;
  }
  if (!m->asked || m->retry <= now) {
    m->asked = true;
    m->retry = kNever;
    ask_for_volumes(pod);
  }
  if (!m->complained && now - m->begun >= kPatience) {
    m->complained = true;
    tell_unmounted(pod, "", "context deadline exceeded");
  }
  // Waits for the next beat at which all may be there, for the retry, and for the end of patience.
  TimePoint next = all ? m->begun + ((now - m->begun) / kPoll + 1) * kPoll : m->retry;
  if (!m->complained) next = std::min(next, m->begun + kPatience);
  pod.work_due = next;
}

// `failed`: the volumes that cannot even be looked up.
void Manager::tell_unmounted(Pod& pod, const std::string& failed, const std::string& why) {
  const Mounting& m = *pod.extras->mounting;
  std::vector<std::string> names;
  const size_t tokens = pod.spec->tokens.size();
  for (size_t i = 0; i < m.done.size(); ++i) {
    if (m.done[i] != 0 && m.seen_once) continue;
    const std::string& v = i < tokens ? pod.spec->tokens[i].volume : pod.spec->volumes[i - tokens].volume;
    names.push_back(with_suffix(pod, v));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  tell(
      pod, true, "FailedMount",
      fmt::format("Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process "
                  "volumes=[{}]: {}",
                  fmt::join(names, " "), failed, why));
}

// A claim that cannot be used ends the worker's try at once; it comes again later.
bool Manager::claims_missing(Pod& pod) {
  Mounting& m = *pod.extras->mounting;
  if (m.claim_problem.empty()) return false;
  std::string failed;
  for (size_t i = 0; i < pod.spec->volumes.size(); ++i) {
    if (pod.spec->volumes[i].kind != ObjectKind::kClaim || m.done[pod.spec->tokens.size() + i] != 0) continue;
    failed += (failed.empty() ? "" : " ") + pod.spec->volumes[i].volume;
  }
  tell_unmounted(pod, failed, std::exchange(m.claim_problem, {}));
  m.seen_once = true;
  m.retry = kNever;
  pod.work = Work::kNone;
  pod.work_due = kNever;
  request_sync(pod, tick_after(host_.now() + error_delay()));
  return true;
}

// A missing pull secret is told whenever the containers are looked after.
void Manager::look_for_pull_secrets(Pod& pod) {
  const std::vector<std::string>& secrets = pod.spec->pull_secrets;
  if (secrets.empty()) return;
  std::vector<char>& missing = pod.more().missing_pull_secrets;
  std::string names;
  for (size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] != 0) names += (names.empty() ? "" : ", ") + secrets[i];
  }
  if (!names.empty()) {
    tell(pod, true, "FailedToRetrieveImagePullSecret",
         "Unable to retrieve some image pull secrets (" + names + "); attempting to pull the image may not succeed.");
  }
  for (size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] != 0)
      send_object_request(pod, Call::kPullSecret, i, {.kind = ObjectKind::kSecret, .name = secrets[i]});
  }
}

void Manager::on_pull_secret(Pod& pod, size_t index, const ApiResponse& response) {
  if (pod.extras == nullptr) return;
  if (index < pod.extras->missing_pull_secrets.size())
    pod.extras->missing_pull_secrets[index] = response.status == 404 || response.status == 403;
  take_pull_secret(pod, index, response);
}

// Read anew before each pull: a password may have been changed. `verifies`: the image is there, and may be this pod's.
void Manager::fetch_pull_secrets(Pod& pod, size_t index, bool verifies) {
  const size_t count = std::min<size_t>(pod.spec->pull_secrets.size(), 255);
  pod.work = Work::kFetching;
  pod.work_due = kNever;
  pod.busy_with = static_cast<uint32_t>(index);
  auto fetch = std::make_unique<SecretFetch>();
  fetch->waiting = count;
  fetch->answered.assign(count, 0);
  fetch->secrets.resize(count);
  fetch->verifies = verifies;
  pod.more().secrets = std::move(fetch);
  for (size_t i = 0; i < count; ++i) {
    send_object_request(pod, Call::kPullSecret, i, {.kind = ObjectKind::kSecret, .name = pod.spec->pull_secrets[i]});
  }
}

// With the last one the pull begins, also without those that are not there.
void Manager::take_pull_secret(Pod& pod, size_t index, const ApiResponse& response) {
  SecretFetch* fetch = pod.extras->secrets.get();
  if (fetch == nullptr || index >= fetch->answered.size() || fetch->answered[index] != 0) return;
  fetch->answered[index] = 1;
  fetch->secrets[index] = pull_secret_of(pod.ns(), pod.spec->pull_secrets[index], response.ok(), response.body);
  if (--fetch->waiting > 0 || pod.work != Work::kFetching) return;
  if (fetch->verifies) return verify_image(pod, pod.busy_with);
  begin_pull(pod, pod.busy_with);
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
      "{{\"apiVersion\":\"authentication.k8s.io/"
      "v1\",\"kind\":\"TokenRequest\",\"spec\":{{{}\"expirationSeconds\":{},"
      "\"boundObjectRef\":{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"name\":\"{"
      "}\",\"uid\":\"{}\"}}}}}}",
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
  constexpr std::string_view kPlurals[] = {"configmaps", "secrets", "persistentvolumeclaims"};
  request.target = fmt::format("/api/v1/namespaces/{}/{}/{}", pod.ns(), kPlurals[static_cast<int>(ref.kind)], ref.name);
  host_.send(std::move(request));
}

// `index`: tokens first, then the objects.
void Manager::on_volume_answer(Pod& pod, size_t index, const ApiResponse& response) {
  Mounting* m = pod.extras != nullptr ? pod.extras->mounting.get() : nullptr;
  if (m == nullptr || index >= m->done.size() || m->done[index] != 0) return;
  const TimePoint now = host_.now();
  const size_t tokens = pod.spec->tokens.size();
  const bool token = index < tokens;
  m->waiting = std::max(m->waiting - 1, 0);
  const std::string why = token ? token_problem(response) : object_problem(pod.spec->volumes[index - tokens], response);
  const bool claim = !token && pod.spec->volumes[index - tokens].kind == ObjectKind::kClaim;
  if (why.empty()) {
    m->done[index] = 1;
  } else if (claim) {
    m->claim_problem =
        fmt::format("error processing PVC {}/{}: {}", pod.ns(), pod.spec->volumes[index - tokens].name, why);
  } else {
    const std::string& volume = token ? pod.spec->tokens[index].volume : pod.spec->volumes[index - tokens].volume;
    tell(pod, true, "FailedMount",
         fmt::format("MountVolume.SetUp failed for volume \"{}\" : {}", with_suffix(pod, volume), why));
  }
  if (m->waiting > 0 || pod.work != Work::kMounting) return;
  if (claims_missing(pod)) return;
  if (std::find(m->done.begin(), m->done.end(), 0) != m->done.end()) {
    m->retry = now + std::min<Duration>(kFirstRetry * (1LL << std::min(m->tries, 10)), kLongestRetry);
    ++m->tries;
  }
  pod.work_due = std::min(pod.work_due, now);
}

void Manager::on_variable_answer(Pod& pod, size_t index, const ApiResponse& response) {
  Extras* more = pod.extras.get();
  if (more == nullptr || more->fetch_index < 0 || index >= more->object_state.size()) return;
  if (more->object_state[index] != ObjectState::kUnknown) return;
  const size_t container = static_cast<size_t>(more->fetch_index);
  const std::vector<ObjectRef>& wanted = pod.spec->containers[container].variables;
  const bool lacks = response.ok() && index < wanted.size() && !lacking_key(wanted[index], response).empty();
  more->object_state[index] = !response.ok() ? ObjectState::kMissing
                              : lacks        ? ObjectState::kNoKey
                                             : ObjectState::kThere;
  if (--more->fetching > 0) return;
  more->fetch_index = -1;
  if (pod.work != Work::kFetching || container >= pod.runs.size()) return;
  pod.runs[container].objects_ready = true;
  run_pass(pod);
}

}  // namespace ghostfleet::agent
