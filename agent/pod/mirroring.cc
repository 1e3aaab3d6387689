// Static pods and the mirror pods that stand for them in the API: made when they are missing, taken away when they are
// another manifest's, and made again when somebody deletes them.
//
// Source: recordings of a kubelet 1.36.
#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/manager.h"
#include "agent/pod/static_pod.h"

namespace ghostfleet::agent {

using kube::get_string;
using kube::Json;

namespace {

constexpr Duration kRetryBase = std::chrono::seconds(10);
constexpr Duration kHousekeeping = std::chrono::seconds(2);  // looks for mirrors whose static pod is gone

std::string delete_body(std::string_view uid) {
  return fmt::format(R"({{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{{{}}}}})",
                     uid.empty() ? std::string() : fmt::format(R"("uid":"{}")", uid));
}

}  // namespace

Pod* Manager::find_static(std::string_view ns, std::string_view name) {
  for (const Slot& slot : slots_) {
    Pod* pod = slot.pod.get();
    if (pod != nullptr && is_static(*pod) && pod->name() == name && pod->ns() == ns) return pod;
  }
  return nullptr;
}

void Manager::set_static_pods(std::vector<StaticManifest> manifests) {
  std::vector<Json> wanted;
  for (const StaticManifest& m : manifests) {
    auto pod = make_static_pod(m.pod, m.source, node_.name, host_.wall_now());
    if (pod.ok()) wanted.push_back(std::move(pod).value());
  }
  const auto names = [&](std::string_view uid) {
    return std::any_of(wanted.begin(), wanted.end(),
                       [uid](const Json& pod) { return get_string(pod, "metadata.uid") == uid; });
  };
  std::vector<std::string> leaving;
  for (const Slot& slot : slots_) {
    if (slot.pod != nullptr && is_static(*slot.pod) && !names(slot.pod->uid())) leaving.emplace_back(slot.pod->uid());
  }
  waiting_static_.clear();
  for (const std::string& uid : leaving) withdraw(*find(uid));
  for (Json& pod : wanted) {
    const Pod* known = find(get_string(pod, "metadata.uid"));
    // One that came back while its containers still stop begins anew after that.
    if (known == nullptr || known->extras->mirror->withdrawn) waiting_static_.push_back(std::move(pod));
  }
  start_waiting_static_pods();
  wake_others();
}

void Manager::start_waiting_static_pods() {
  std::vector<Json> waiting = std::move(waiting_static_);
  waiting_static_.clear();
  for (Json& pod : waiting) {
    if (find_static(get_string(pod, "metadata.namespace"), get_string(pod, "metadata.name")) != nullptr) {
      waiting_static_.push_back(std::move(pod));
    } else {
      add_static_pod(std::move(pod));
    }
  }
}

void Manager::add_static_pod(Json json) {
  const std::string ns(get_string(json, "metadata.namespace")), name(get_string(json, "metadata.name"));
  const std::string uid(get_string(json, "metadata.uid"));
  Pod& pod = new_pod(json, ns, name, uid);
  pod.generation = 0;
  pod.more().mirror = std::make_unique<Mirror>();
  pod.extras->mirror->hash = uid;
  pod.extras->mirror->object = json;
  // A mirror of an earlier run, or of an earlier manifest.
  for (auto at = strange_mirrors_.begin(); at != strange_mirrors_.end(); ++at) {
    if (at->ns != ns || at->name != name) continue;
    pod.extras->mirror->uid = at->uid;
    pod.extras->mirror->wrong = at->hash != uid;
    pod.api_conditions = true;
    strange_mirrors_.erase(at);
    break;
  }
  judge(pod, json, !full());
  reconcile_mirror(pod);
  settle(pod);
}

// Its manifest is gone: it is stopped as it wished, then its mirror goes.
void Manager::withdraw(Pod& pod) {
  Mirror& mirror = *pod.extras->mirror;
  if (mirror.withdrawn) return;
  mirror.withdrawn = true;
  pod.deletion_grace = pod.spec->grace_seconds;
  if (pod.stage == Stage::kActive) stop_when_possible(pod);
  settle(pod);
}

void Manager::on_mirror(const Json& json, std::string_view ns, std::string_view name, std::string_view uid) {
  Pod* pod = find_static(ns, name);
  const std::string_view hash = mirror_hash(json);
  if (pod == nullptr) {
    note_strange_mirror({std::string(ns), std::string(name), std::string(uid), std::string(hash)});
    return;
  }
  Mirror& mirror = *pod->extras->mirror;
  const Json* deleted = kube::find_path(json, "metadata.deletionTimestamp");
  read_meta(*pod, json);
  pod->generation = 0;  // the file's content has none
  mirror.wrong = hash != mirror.hash || (deleted != nullptr && !deleted->is_null());
  if (mirror.uid != uid) {
    mirror.uid = uid;
    // It knows nothing of what was told before.
    pod->sent = {};
    // A kubelet finds at its next tick that another one lacks the status.
    if (mirror.told && full()) pod->send_due = host_.now() + host_.rng().between(Duration(0), kRetryBase);
    mirror.told = pod->start_time != 0;
    pod->api_conditions = kube::find_path(json, "status.conditions") != nullptr;
    pod->dirty = pod->start_time != 0;
  } else if (!mirror.wrong) {
    note_drift(*pod, find_drift(*pod, json));
  }
  reconcile_mirror(*pod);
  settle(*pod);
}

void Manager::mirror_lost(Pod& pod) {
  Mirror& mirror = *pod.extras->mirror;
  mirror.uid.clear();
  mirror.wrong = false;
  pod.drift_due = kNever;
  reconcile_mirror(pod);
  settle(pod);
}

void Manager::reconcile_mirror(Pod& pod) {
  Mirror& mirror = *pod.extras->mirror;
  mirror.retry = kNever;
  if (mirror.asked) return;
  if (mirror.withdrawn) {
    if (pod.stage == Stage::kFinished && mirror.uid.empty()) pod.gone = true;  // settle() takes it away
    if (pod.stage == Stage::kFinished && !mirror.uid.empty() && !pod.dirty && !pod.sending) delete_mirror(pod);
    return;
  }
  if (mirror.wrong) {
    delete_mirror(pod);
  } else if (mirror.uid.empty() && !node_.uid.empty()) {
    create_mirror(pod);
  }
}

// When it has ended and that is told, housekeeping finds its mirror.
void Manager::withdraw_mirror(Pod& pod) {
  Mirror& mirror = *pod.extras->mirror;
  if (pod.stage != Stage::kFinished || pod.dirty || pod.sending || mirror.asked || mirror.retry != kNever) return;
  if (mirror.uid.empty()) {
    pod.gone = true;
  } else {
    mirror.retry = host_.now() + (full() ? host_.rng().between(Duration(0), kHousekeeping) : Duration(1));
  }
}

void Manager::create_mirror(Pod& pod) {
  Mirror& mirror = *pod.extras->mirror;
  mirror.asked = true;
  ApiRequest request;
  request.verb = Verb::kPost;
  request.body_type = BodyType::kJson;
  request.tag = tag_of(pod, Call::kMirrorCreate);
  request.target = fmt::format("/api/v1/namespaces/{}/pods", pod.ns());
  request.body = kube::to_json(make_mirror_pod(mirror.object, node_.name, node_.uid));
  host_.send(std::move(request));
}

void Manager::delete_mirror(Pod& pod) {
  Mirror& mirror = *pod.extras->mirror;
  mirror.asked = true;
  mirror.asked_uid = mirror.uid;
  ApiRequest request;
  request.verb = Verb::kDelete;
  request.body_type = BodyType::kJson;
  request.tag = tag_of(pod, Call::kMirrorDelete);
  request.target = pod_path(pod);
  // One whose static pod is gone is found by its name.
  request.body = delete_body(mirror.withdrawn ? std::string_view() : mirror.uid);
  host_.send(std::move(request));
}

void Manager::on_mirror_answer(Pod& pod, bool deleted, const ApiResponse& response) {
  if (!is_static(pod)) return;
  Mirror& mirror = *pod.extras->mirror;
  mirror.asked = false;
  // Not there any more, or another one has its name: the watch tells which.
  const bool done = response.ok() || response.status == 404 || response.status == 409;
  if (!done) {
    mirror.retry = host_.now() + (response.retry_after > Duration(0) ? response.retry_after : error_delay());
    return;
  }
  // Meanwhile the watch may have told of the next one.
  if (deleted && mirror.uid == mirror.asked_uid) {
    mirror.uid.clear();
    mirror.wrong = false;
  }
  if (deleted || mirror.wrong) reconcile_mirror(pod);
}

// A mirror without its static pod: perhaps that comes in a moment; if not, it is taken away.
void Manager::note_strange_mirror(StrangeMirror mirror) {
  mirror.until = host_.now() + kHousekeeping;
  const auto same = [&](const StrangeMirror& other) { return other.uid == mirror.uid; };
  if (std::any_of(strange_mirrors_.begin(), strange_mirrors_.end(), same)) return;
  strange_mirrors_.push_back(std::move(mirror));
  arm();
}

void Manager::delete_strange_mirrors() {
  const TimePoint now = host_.now();
  for (StrangeMirror& m : strange_mirrors_) {
    if (m.until > now) continue;
    ApiRequest request;
    request.verb = Verb::kDelete;
    request.body_type = BodyType::kJson;
    request.tag = kPodTagBit | static_cast<Tag>(Call::kOrphan) << 56 | UINT32_MAX;
    request.target = fmt::format("/api/v1/namespaces/{}/pods/{}", m.ns, m.name);
    request.body = delete_body({});
    host_.send(std::move(request));
    m.until = now + kRetryBase;
  }
}

}  // namespace ghostfleet::agent
