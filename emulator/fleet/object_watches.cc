#include "emulator/fleet/object_watches.h"

#include <fmt/format.h>

#include <algorithm>

namespace ghostfleet::emulator {
namespace {

using kube::Json;
using kube::JsonArray;

constexpr Duration kSyncPatience = std::chrono::seconds(1);
constexpr Duration kIdleCheck = std::chrono::minutes(1);
constexpr Duration kIdleAfter = std::chrono::minutes(5);

void add(bool secret, bool kept, std::string_view name, std::vector<ObjectReference>* out) {
  if (name.empty()) return;
  for (ObjectReference& r : *out) {
    if (r.secret != secret || r.name != name) continue;
    r.kept = r.kept || kept;
    return;
  }
  out->push_back({secret, kept, std::string(name)});
}

void add_list(const Json& pod, std::string_view path, const std::function<void(const Json&)>& take) {
  const JsonArray* list = kube::get_array(pod, path);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) take((*list)[i]);
}

void add_containers(const Json& pod, std::string_view path, std::vector<ObjectReference>* out) {
  add_list(pod, path, [out](const Json& container) {
    add_list(container, "env", [out](const Json& variable) {
      add(true, false, kube::get_string(variable, "valueFrom.secretKeyRef.name"), out);
      add(false, false, kube::get_string(variable, "valueFrom.configMapKeyRef.name"), out);
    });
    add_list(container, "envFrom", [out](const Json& from) {
      add(true, false, kube::get_string(from, "secretRef.name"), out);
      add(false, false, kube::get_string(from, "configMapRef.name"), out);
    });
  });
}

// {"data":{"key":""},"binaryData":{...}}: what a pod can ask of an object.
std::string keys_of(const Json& object) {
  kube::JsonObject kept;
  for (const std::string_view part : {"data", "binaryData"}) {
    const kube::JsonObject* values = kube::get_object(object, part);
    if (values == nullptr) continue;
    kube::JsonObject keys;
    for (const auto& [key, value] : *values) keys[key] = "";
    kept[part] = std::move(keys);
  }
  return kube::to_json(kept);
}

bool is_pull_secret(const Json& object) {
  const std::string_view type = kube::get_string(object, "type");
  return type == "kubernetes.io/dockerconfigjson" || type == "kubernetes.io/dockercfg";
}

// Type and data, and nothing else.
std::string pull_secret_of(const Json& object) {
  kube::JsonObject kept;
  kept["type"] = kube::get_string(object, "type");
  if (const kube::JsonObject* data = kube::get_object(object, "data")) kept["data"] = *data;
  return kube::to_json(kept);
}

}  // namespace

std::vector<ObjectReference> object_references(const Json& pod) {
  std::vector<ObjectReference> out;
  add_list(pod, "spec.imagePullSecrets",
           [&out](const Json& secret) { add(true, true, kube::get_string(secret, "name"), &out); });
  add_containers(pod, "spec.initContainers", &out);
  add_containers(pod, "spec.containers", &out);
  add_list(pod, "spec.volumes", [&out](const Json& volume) {
    add(true, true, kube::get_string(volume, "secret.secretName"), &out);
    add(false, true, kube::get_string(volume, "configMap.name"), &out);
    add_list(volume, "projected.sources", [&out](const Json& source) {
      add(true, true, kube::get_string(source, "secret.name"), &out);
      add(false, true, kube::get_string(source, "configMap.name"), &out);
    });
  });
  return out;
}

bool parse_object_target(std::string_view target, bool* secret, std::string* ns, std::string* name) {
  constexpr std::string_view kRoot = "/api/v1/namespaces/";
  if (!target.starts_with(kRoot)) return false;
  target.remove_prefix(kRoot.size());
  const size_t a = target.find('/');
  const size_t b = a == std::string_view::npos ? a : target.find('/', a + 1);
  if (b == std::string_view::npos || target.find('/', b + 1) != std::string_view::npos) return false;
  const std::string_view resource = target.substr(a + 1, b - a - 1);
  if (resource != "secrets" && resource != "configmaps") return false;
  *secret = resource == "secrets";
  *ns = target.substr(0, a);
  *name = target.substr(b + 1);
  return true;
}

// One object and its watch.
class ObjectWatches::Entry final : public kube::ReflectorHandler {
 public:
  Entry(ObjectWatches& owner, bool secret, std::string_view ns, const std::string& name)
      : owner_(owner),
        secret_(secret),
        path_(fmt::format("/api/v1/namespaces/{}/{}", ns, secret ? "secrets" : "configmaps")),
        selector_("metadata.name=" + name) {}
  ~Entry() override {
    for (Waiting& w : waiting_) loop().cancel(w.timer);
  }

  void open() {
    if (reflector_ && running_) return;
    kube::ReflectorOptions options;
    options.path = path_;
    options.field_selector = selector_;
    options.min_timeout = std::chrono::minutes(30);
    options.max_timeout = std::chrono::minutes(60);
    options.protobuf = true;
    options.seed = owner_.rng_.next();
    if (!reflector_) reflector_ = kube::Reflector::create(owner_.client_, std::move(options), this);
    running_ = true;
    last_read_ = loop().now();
    reflector_->start();
  }
  void close() {
    if (!std::exchange(running_, false)) return;
    reflector_->stop();
  }
  bool running() const { return running_; }
  bool idle(TimePoint now) const { return running_ && kept == 0 && now - last_read_ >= kIdleAfter; }

  void read(Answer answer) {
    last_read_ = loop().now();
    if (immutable_) return later(std::move(answer));
    open();
    if (reflector_->synced()) return later(std::move(answer));
    const uint64_t id = ++last_id_;
    const auto timer = loop().run_after(kSyncPatience, [this, id, alive = alive_] {
      if (*alive) give_up(id);
    });
    waiting_.push_back({id, timer, std::move(answer)});
  }

  void on_list_begin() override { there_ = false; }
  void on_added(const kube::ObjectView& object) override { on_modified(object); }
  void on_modified(const kube::ObjectView& object) override {
    there_ = true;
    const auto json = kube::parse_json(object.json);
    const bool whole = json.ok() && secret_ && owner_.keep_ == Keep::kPullSecrets && is_pull_secret(*json);
    keys_ = whole ? pull_secret_of(*json) : json.ok() ? keys_of(*json) : std::string();
    if (json.ok() && kube::get_bool(*json, "immutable")) immutable_ = true;
    if (immutable_ && reflector_->synced()) close_later();
  }
  void on_deleted(const kube::ObjectView&) override { there_ = immutable_ = false; }
  void on_synced() override {
    std::vector<Waiting> waiting;
    waiting.swap(waiting_);
    for (Waiting& w : waiting) {
      loop().cancel(w.timer);
      later(std::move(w.answer));
    }
    if (immutable_) close_later();
  }

  int references = 0, kept = 0;

 private:
  struct Waiting {
    uint64_t id;
    EventLoop::TimerId timer;
    Answer answer;
  };

  EventLoop& loop() { return owner_.client_.loop(); }
  void later(Answer answer) {
    loop().post(
        [answer = std::move(answer), there = there_, keys = there_ ? keys_ : std::string(), alive = owner_.alive_] {
          if (*alive) answer(there ? 200 : 404, keys);
        });
  }
  // Not from inside the reflector's callback.
  void close_later() {
    loop().post([this, alive = alive_] {
      if (*alive) close();
    });
  }
  void give_up(uint64_t id) {
    const auto it = std::find_if(waiting_.begin(), waiting_.end(), [id](const Waiting& w) { return w.id == id; });
    if (it == waiting_.end()) return;
    Answer answer = std::move(it->answer);
    waiting_.erase(it);
    answer(0, {});
  }

  ObjectWatches& owner_;
  bool secret_;
  std::string path_, selector_;
  std::string keys_;  // of the object as last seen; of a pull secret that is kept, all of it
  bool there_ = false, immutable_ = false, running_ = false;
  TimePoint last_read_;
  uint64_t last_id_ = 0;
  std::vector<Waiting> waiting_;
  struct Guard {  // set to false at the end, whatever still waits on the loop
    std::shared_ptr<bool> value = std::make_shared<bool>(true);
    ~Guard() { *value = false; }
  } guard_;
  const std::shared_ptr<bool> alive_ = guard_.value;
  std::unique_ptr<kube::Reflector> reflector_;
};

ObjectWatches::ObjectWatches(kube::KubeClient& client, Rng& rng, Keep keep) : client_(client), rng_(rng), keep_(keep) {}

ObjectWatches::~ObjectWatches() {
  *alive_ = false;
  client_.loop().cancel(idle_timer_);
}

ObjectWatches::Entry& ObjectWatches::entry(bool secret, std::string_view ns, const std::string& name) {
  std::unique_ptr<Entry>& e = entries_[fmt::format("{}/{}/{}", secret ? "secrets" : "configmaps", ns, name)];
  if (!e) e = std::make_unique<Entry>(*this, secret, ns, name);
  return *e;
}

void ObjectWatches::add_pod(const std::string& uid, std::string_view ns, const Json& pod) {
  const auto [it, fresh] = pods_.try_emplace(uid);
  if (!fresh) return;
  for (const ObjectReference& r : object_references(pod)) {
    Entry& e = entry(r.secret, ns, r.name);
    if (e.references++ == 0) e.open();
    e.kept += r.kept;
    it->second.push_back(
        fmt::format("{}{}/{}/{}", r.kept ? "+" : "-", r.secret ? "secrets" : "configmaps", ns, r.name));
  }
  if (idle_timer_ == 0 && !entries_.empty()) {
    idle_timer_ = client_.loop().run_after(kIdleCheck, [this, alive = alive_] {
      if (*alive) look_for_idle();
    });
  }
}

void ObjectWatches::remove_pod(const std::string& uid) {
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return;
  for (const std::string& reference : it->second) {
    const auto e = entries_.find(reference.substr(1));
    if (e == entries_.end()) continue;
    e->second->kept -= reference[0] == '+';
    if (--e->second->references <= 0) entries_.erase(e);
  }
  pods_.erase(it);
}

void ObjectWatches::read(bool secret, const std::string& ns, const std::string& name, Answer answer) {
  entry(secret, ns, name).read(std::move(answer));
}

void ObjectWatches::look_for_idle() {
  idle_timer_ = 0;
  const TimePoint now = client_.loop().now();
  for (auto& [key, e] : entries_) {
    if (e->idle(now)) e->close();
  }
  std::erase_if(entries_, [](const auto& e) { return e.second->references <= 0 && !e.second->running(); });
  if (entries_.empty()) return;
  idle_timer_ = client_.loop().run_after(kIdleCheck, [this, alive = alive_] {
    if (*alive) look_for_idle();
  });
}

size_t ObjectWatches::open() const {
  return static_cast<size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const auto& e) { return e.second->running(); }));
}

}  // namespace ghostfleet::emulator
