#include "tests/support/pod_test_host.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/api/field_table.h"
#include "kube/api/patch.h"
#include "kube/api/quantity.h"

namespace ghostfleet::test {

using agent::ApiRequest;
using agent::ApiResponse;
using agent::Verb;
using kube::get_string;
using kube::JsonArray;
using kube::JsonObject;

namespace {

const std::string kNamespace = "/api/v1/namespaces/default/";

const kube::TypeInfo& pod_type() { return *kube::find_type("core/v1.Pod"); }

// Numbers become quantities, and limits stand in for missing requests.
void default_resources(Json& container) {
  Json* resources = kube::find_key(container, "resources");
  if (resources == nullptr) return;
  for (const char* part : {"limits", "requests"}) {
    Json* list = kube::find_key(*resources, part);
    if (list == nullptr) continue;
    for (auto& [key, value] : list->as_object()) {
      const std::string text = value.is_string() ? std::string(value.get_string()) : kube::to_json(value);
      value = Json(kube::Quantity::parse(text).value().to_string());
    }
  }
  const JsonObject* limits = kube::get_object(*resources, "limits");
  if (limits == nullptr) return;
  JsonObject& requests = kube::ensure_object(*resources, "requests");
  for (const auto& [key, value] : *limits) {
    if (!requests.contains(key)) requests[key] = value;
  }
}

void inject_token(Json& pod, const std::string& volume) {
  static const Json kSources = kube::parse_json(
                                   R"([{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
      {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}])")
                                   .value();
  JsonObject source;
  source["name"] = volume;
  source["projected"] = JsonObject{{"sources", kSources}};
  kube::ensure_array(pod, "spec.volumes").push_back(std::move(source));
  for (const char* list : {"initContainers", "containers"}) {
    Json* containers = kube::find_path(pod, std::string("spec.") + list);
    if (containers == nullptr) continue;
    for (Json& c : containers->as_array()) {
      default_resources(c);
      kube::ensure_array(c, "volumeMounts")
          .push_back(JsonObject{
              {"name", volume}, {"readOnly", true}, {"mountPath", "/var/run/secrets/kubernetes.io/serviceaccount"}});
    }
  }
}

std::string verb_name(Verb verb) {
  static constexpr const char* kNames[] = {"get", "create", "update", "patch", "delete"};
  return kNames[static_cast<int>(verb)];
}

Json default_node(const std::string& name) {
  return kube::parse_json(fmt::format(
                              R"({{"metadata":{{"name":"{}","labels":{{"kubernetes.io/hostname":"{}"}}}},
      "status":{{"allocatable":{{"cpu":"16","memory":"64Gi","pods":"110","ephemeral-storage":"90Gi",
      "nvidia.com/gpu":"8"}},"capacity":{{"cpu":"16","memory":"64Gi","pods":"110","ephemeral-storage":"100Gi",
      "nvidia.com/gpu":"8"}}}}}})",
                              name, name))
      .value();
}

}  // namespace

FakeCluster::FakeCluster(Options options) : options_(std::move(options)), rng_(options_.seed) {
  begin_ = clock_.now();
  facts_.name = options_.node_name;
  facts_.uid = "node-uid";
  facts_.host_ip = "192.0.2.2";
  facts_.object = std::make_shared<const Json>(options_.node.is_object() ? options_.node : default_node(facts_.name));
  facts_.pod_ip = [](uint32_t n) { return fmt::format("192.168.{}.{}", n / 250, n % 250 + 2); };
  if (options_.dual_stack) {
    facts_.second_host_ip = "2001:db8::2";
    facts_.second_pod_ip = [](uint32_t n) { return fmt::format("2001:db8:1::{:x}", n + 2); };
  }
  if (options_.network != nullptr) {
    facts_.network = options_.network;
    facts_.pod_ip = options_.network_ip;
  }
  facts_.listener = this;
  facts_.puller = options_.puller;
  pod_options_ = std::make_shared<const agent::PodOptions>(options_.pods);
  if (options_.pods.device_plugins) make_devices(true);
  manager_ = agent::PodManager::create(facts_, pod_options_, *this);
  put_object("configmaps", {{"metadata", {{"name", "kube-root-ca.crt"}}}, {"data", {{"ca.crt", "..."}}}});
}

FakeCluster::~FakeCluster() = default;

void FakeCluster::pressure_changed(unsigned pressure) {
  node_news_.push_back("pressure " + agent::pressure_names(pressure));
}

void FakeCluster::reclaiming(std::string_view resource) { node_news_.push_back("reclaiming " + std::string(resource)); }

void FakeCluster::device_health_changed() {
  if (manager_ != nullptr) manager_->on_devices_changed();
}

void FakeCluster::make_devices(bool plugins) {
  agent::ResourcePairs capacity;
  for (const auto& [name, quantity] : *kube::get_object(*facts_.object, "status.capacity"))
    capacity.emplace_back(name, quantity.get_string());
  setup_ = agent::make_device_setup({}, {}, &capacity).value();
  devices_ = std::make_unique<agent::DeviceManager>(facts_.name, *this);
  facts_.devices = devices_.get();
  agent::DeviceCheckpoint known;
  for (const auto& model : setup_.models) known.registered[model->resource()];
  devices_->restore(known, clock_.now());
  if (plugins) start_plugins();
}

void FakeCluster::start_plugins() {
  for (const auto& model : setup_.models) devices_->register_model(model, clock_.now());
}

void FakeCluster::restart_agent(bool rebooted, bool plugins) {
  timers_.clear();
  ++generation_of_agent_;
  manager_.reset();
  facts_.rebooted = rebooted;
  if (devices_ != nullptr) make_devices(plugins);
  if (devices_ != nullptr) devices_->await_pods(!rebooted);
  manager_ = agent::PodManager::create(facts_, pod_options_, *this);
  for (const auto& [name, pod] : pods_) manager_->on_pod(pod);
  if (devices_ != nullptr) devices_->pods_known();
}

// ---- time

void FakeCluster::later(Duration d, std::function<void()> fn) { queue_.emplace(clock_.now() + d, std::move(fn)); }
void FakeCluster::at(Duration from_now, std::function<void()> fn) { later(from_now, std::move(fn)); }

bool FakeCluster::step(TimePoint until) {
  auto timer = std::min_element(timers_.begin(), timers_.end(),
                                [](const auto& a, const auto& b) { return a.second < b.second; });
  const TimePoint t = timer == timers_.end() ? TimePoint{INT64_MAX} : timer->second;
  const TimePoint q = queue_.empty() ? TimePoint{INT64_MAX} : queue_.begin()->first;
  const TimePoint next = std::min(t, q);
  if (next > until) return false;
  if (next > clock_.now()) clock_.advance(next - clock_.now());
  if (q <= t) {
    const std::function<void()> fn = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    fn();
  } else {
    const agent::Tag tag = timer->first;
    timers_.erase(timer);
    manager_->on_timer(tag);
  }
  return true;
}

void FakeCluster::run_for(Duration d) {
  const TimePoint until = clock_.now() + d;
  while (step(until)) {
  }
  if (until > clock_.now()) clock_.advance(until - clock_.now());
}

// ---- users

std::string FakeCluster::create(Json pod) {
  const std::string name(get_string(pod, "metadata.name"));
  const std::string uid = fmt::format("{:08x}-0000-4000-8000-{:012x}", ++created_, options_.seed);
  kube::set_path(pod, "metadata.namespace", "default");
  kube::set_path(pod, "metadata.uid", Json(uid));
  kube::set_path(pod, "metadata.generation", 1);
  kube::set_path(pod, "metadata.creationTimestamp", Json(format_time(clock_.wall_now())));
  if (get_string(pod, "spec.restartPolicy").empty()) kube::set_path(pod, "spec.restartPolicy", "Always");
  if (kube::find_path(pod, "spec.terminationGracePeriodSeconds") == nullptr) {
    kube::set_path(pod, "spec.terminationGracePeriodSeconds", 30);
  }
  if (kube::get_bool(pod, "spec.automountServiceAccountToken", true)) {
    inject_token(pod, fmt::format("kube-api-access-{:05x}", created_ + 0xabc00));
  }
  kube::set_path(pod, "status.phase", "Pending");
  kube::set_path(pod, "status.qosClass", "BestEffort");
  if (get_string(pod, "spec.priorityClassName").starts_with("system-"))
    kube::set_path(pod, "spec.priority", 2000001000);
  if (get_string(pod, "spec.nodeName").empty()) {
    JsonObject scheduled{{"type", "PodScheduled"}, {"status", "True"}, {"lastProbeTime", nullptr}};
    scheduled["lastTransitionTime"] = format_time(clock_.wall_now());
    kube::ensure_array(pod, "status.conditions").push_back(std::move(scheduled));
  }
  kube::set_path(pod, "spec.nodeName", Json(facts_.name));
  pods_[name] = std::move(pod);
  changed(name);
  return uid;
}

void FakeCluster::changed(const std::string& name) {
  Json& pod = pods_[name];
  kube::set_path(pod, "metadata.resourceVersion", Json(std::to_string(++version_)));
  later(options_.latency / 2, [this, copy = kube::to_json(pod)] { manager_->on_pod_text(copy); });
}

void FakeCluster::gone(const std::string& name) {
  const std::string uid(text(name, "metadata.uid"));
  pods_.erase(name);
  later(options_.latency / 2, [this, name, uid] { manager_->on_pod_deleted("default", name, uid); });
}

void FakeCluster::remove(const std::string& name, int64_t grace) {
  const auto at = pods_.find(name);
  if (at == pods_.end()) return;
  Json& pod = at->second;
  const std::string_view phase = get_string(pod, "status.phase");
  if (phase == "Succeeded" || phase == "Failed") grace = 0;
  if (grace < 0) grace = kube::get_int(pod, "spec.terminationGracePeriodSeconds", 30);
  const bool held = kube::get_array(pod, "metadata.finalizers") != nullptr;
  if (grace == 0 && !held) {
    gone(name);
    return;
  }
  if (get_string(pod, "metadata.deletionTimestamp").empty()) {
    kube::set_path(pod, "metadata.deletionTimestamp",
                   Json(format_time(clock_.wall_now() + std::chrono::seconds(grace))));
    kube::set_path(pod, "metadata.generation", kube::get_int(pod, "metadata.generation") + 1);
  }
  kube::set_path(pod, "metadata.deletionGracePeriodSeconds", grace);
  changed(name);
}

void FakeCluster::evict(const std::string& name) {
  const auto at = pods_.find(name);
  if (at == pods_.end()) return;
  JsonObject condition{{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "EvictionByEvictionAPI"}};
  condition["message"] = "Eviction API: evicting";
  condition["lastProbeTime"] = nullptr;
  condition["lastTransitionTime"] = format_time(clock_.wall_now());
  condition["observedGeneration"] = kube::get_int(at->second, "metadata.generation");
  patch_status(name, Json{{"conditions", JsonArray{std::move(condition)}}});
  remove(name);
}

void FakeCluster::put_object(const std::string& plural, const Json& object) {
  Json stored = object;
  // As the API server does with a Secret.
  if (const JsonObject* text = kube::get_object(object, "stringData")) stored.as_object()["data"] = *text;
  objects_[kNamespace + plural + "/" + std::string(get_string(object, "metadata.name"))] = std::move(stored);
}

void FakeCluster::remove_object(const std::string& plural, const std::string& name) {
  objects_.erase(kNamespace + plural + "/" + name);
}

void FakeCluster::set_driver(std::shared_ptr<const agent::DraDriver> driver) {
  facts_.driver = std::move(driver);
  manager_->on_driver_changed();
}

void FakeCluster::patch_node(const Json& patch) {
  facts_.object = std::make_shared<const Json>(kube::apply_merge_patch(*facts_.object, patch));
}

void FakeCluster::remove_by_force(const std::string& name) {
  if (pods_.contains(name)) gone(name);
}

void FakeCluster::patch_spec(const std::string& name, const Json& patch) {
  Json& pod = pods_.at(name);
  pod = kube::apply_strategic_merge_patch(pod, patch, pod_type()).value();
  kube::set_path(pod, "metadata.generation", kube::get_int(pod, "metadata.generation") + 1);
  changed(name);
}

void FakeCluster::patch_status(const std::string& name, const Json& patch) {
  Json& pod = pods_.at(name);
  pod = kube::apply_strategic_merge_patch(pod, Json{{"status", patch}}, pod_type()).value();
  changed(name);
}

void FakeCluster::patch_metadata(const std::string& name, const Json& patch) {
  Json& pod = pods_.at(name);
  pod = kube::apply_merge_patch(pod, Json{{"metadata", patch}});
  const JsonArray* finalizers = kube::get_array(pod, "metadata.finalizers");
  if ((finalizers == nullptr || finalizers->empty()) && !get_string(pod, "metadata.deletionTimestamp").empty() &&
      kube::get_int(pod, "metadata.deletionGracePeriodSeconds") == 0) {
    gone(name);
  } else {
    changed(name);
  }
}

// ---- the server

void FakeCluster::send(ApiRequest request) {
  later(options_.latency / 2, [this, request = std::move(request), agent = generation_of_agent_] {
    Row row{seconds(), {}, verb_name(request.verb), {}, {}, 0};
    Answer answer{request.tag, 0, {}, Duration(0)};
    std::optional<ApiResponse> own;
    if (intercept) own = intercept(request);
    if (own) {
      answer = {request.tag, own->status, std::string(own->body), own->retry_after};
    } else {
      answer = handle(request, &row);
    }
    log_.push_back({row.at, request.verb, request.target, request.body, answer.status, row.pod});
    if (!row.pod.empty()) {
      row.code = answer.status;
      rows_.push_back(std::move(row));
    }
    later(options_.latency / 2, [this, agent, answer = std::move(answer)] {
      if (agent != generation_of_agent_) return;
      ApiResponse response{answer.status, answer.body, answer.retry_after};
      manager_->on_response(answer.tag, response);
    });
  });
}

FakeCluster::Answer FakeCluster::handle(const ApiRequest& request, Row* row) {
  const std::string& base = kNamespace;
  Answer none{request.tag, 404, R"({"kind":"Status","code":404,"message":"not found"})", Duration(0)};
  if (request.target == "/api/v1/nodes/" + facts_.name) {
    return {request.tag, 200, kube::to_json(*facts_.object), Duration(0)};
  }
  if (request.target.rfind(base, 0) != 0) return none;
  std::string rest = request.target.substr(base.size());
  if (rest.rfind("pods/", 0) == 0) {
    rest = rest.substr(5);
    const bool status = rest.ends_with("/status");
    if (status) rest.resize(rest.size() - 7);
    return handle_pod(request, rest, status, row);
  }
  if (rest == "pods" && request.verb == Verb::kPost) return create_mirror(request, row);
  if (rest.rfind("events", 0) == 0) return handle_event(request, rest.size() > 7 ? rest.substr(7) : "", row);
  if (rest.rfind("serviceaccounts/", 0) == 0) {
    row->pod = get_string(kube::parse_json(request.body).value(), "spec.boundObjectRef.name");
    row->where = "serviceaccounts/token";
    return {request.tag, 201, "{}", Duration(0)};
  }
  const auto object = objects_.find(request.target);
  return object == objects_.end() ? none : Answer{request.tag, 200, kube::to_json(object->second), Duration(0)};
}

FakeCluster::Answer FakeCluster::handle_pod(const ApiRequest& request, const std::string& name, bool status, Row* row) {
  row->pod = name;
  row->where = status ? "pods/status" : "pods";
  row->text = request.body;
  const auto at = pods_.find(name);
  if (at == pods_.end()) return {request.tag, 404, R"({"kind":"Status","code":404})", Duration(0)};
  if (request.verb == Verb::kGet) return {request.tag, 200, kube::to_json(at->second), Duration(0)};
  if (request.verb == Verb::kPatch && status) return patch_pod_status(request, at->second, row);
  if (request.verb == Verb::kDelete) return delete_pod(request, name, row);
  return {request.tag, 405, "", Duration(0)};
}

FakeCluster::Answer FakeCluster::create_mirror(const ApiRequest& request, Row* row) {
  Json pod = kube::parse_json(request.body).value();
  const std::string name(get_string(pod, "metadata.name"));
  row->pod = name;
  row->where = "pods";
  row->text = request.body;
  if (pods_.contains(name)) return {request.tag, 409, R"({"kind":"Status","code":409})", Duration(0)};
  kube::set_path(pod, "metadata.uid", Json(fmt::format("{:08x}-0000-4000-8000-{:012x}", ++created_, options_.seed)));
  kube::set_path(pod, "metadata.generation", 1);
  pods_[name] = std::move(pod);
  changed(name);
  return {request.tag, 201, kube::to_json(pods_[name]), Duration(0)};
}

FakeCluster::Answer FakeCluster::patch_pod_status(const ApiRequest& request, Json& pod, Row* row) {
  Result<Json> patch = kube::parse_json(request.body);
  if (!patch.ok()) return {request.tag, 400, "", Duration(0)};
  if (get_string(*patch, "metadata.uid") != get_string(pod, "metadata.uid")) return {request.tag, 409, "", Duration(0)};
  auto result = kube::apply_strategic_merge_patch(pod, *patch, pod_type());
  if (!result.ok()) return {request.tag, 422, "", Duration(0)};
  const std::string name(get_string(pod, "metadata.name"));
  const bool same = kube::json_equal(pod, *result);
  pod = std::move(*result);
  std::vector<std::string> shown;
  if (const JsonArray* conditions = kube::get_array(pod, "status.conditions")) {
    for (const Json& c : *conditions) {
      shown.push_back(std::string(get_string(c, "type")) + "=" + std::string(get_string(c, "status")));
    }
  }
  std::sort(shown.begin(), shown.end());
  if (!shown.empty()) row->text += "\n        ->";
  for (const std::string& s : shown) row->text += " " + s;
  if (!same) changed(name);
  return {request.tag, 200, kube::to_json(pod), Duration(0)};
}

FakeCluster::Answer FakeCluster::delete_pod(const ApiRequest& request, const std::string& name, Row*) {
  const Json options = kube::parse_json(request.body).value();
  Json& pod = pods_.at(name);
  const std::string_view uid = get_string(options, "preconditions.uid");
  if (!uid.empty() && uid != get_string(pod, "metadata.uid")) {
    return {request.tag, 409, "", Duration(0)};
  }
  const JsonArray* finalizers = kube::get_array(pod, "metadata.finalizers");
  if (finalizers != nullptr && !finalizers->empty()) {
    kube::set_path(pod, "metadata.deletionGracePeriodSeconds", 0);
    changed(name);
  } else {
    gone(name);
  }
  return {request.tag, 200, "{}", Duration(0)};
}

FakeCluster::Answer FakeCluster::handle_event(const ApiRequest& request, const std::string& name, Row* row) {
  Result<Json> body = kube::parse_json(request.body);
  if (!body.ok()) return {request.tag, 400, "", Duration(0)};
  row->where = "events";
  const std::string key = request.verb == Verb::kPost ? std::string(get_string(*body, "metadata.name")) : name;
  auto at = std::find_if(events_.begin(), events_.end(), [&](const auto& e) { return e.first == key; });
  if (request.verb == Verb::kPost) {
    if (at != events_.end()) return {request.tag, 409, "", Duration(0)};
    at = events_.insert(events_.end(), {key, *body});
  } else {
    if (at == events_.end()) return {request.tag, 404, "", Duration(0)};
    at->second = kube::apply_merge_patch(at->second, *body);
  }
  const Json& event = at->second;
  row->pod = get_string(event, "involvedObject.name");
  std::string field(get_string(event, "involvedObject.fieldPath"));
  std::string message(get_string(event, "message"));
  for (size_t i = 0; (i = message.find('\n', i)) != std::string::npos;) message.replace(i, 1, "\\n");
  row->text = fmt::format("{} {} x{} {}: {}", get_string(event, "type"), get_string(event, "reason"),
                          kube::get_int(event, "count"), field.empty() ? "-" : field, message);
  return {request.tag, request.verb == Verb::kPost ? 201 : 200, "{}", Duration(0)};
}

// ---- looking

const Json* FakeCluster::pod(const std::string& name) const {
  const auto at = pods_.find(name);
  return at == pods_.end() ? nullptr : &at->second;
}

std::string_view FakeCluster::text(const std::string& name, std::string_view path) const {
  const Json* p = pod(name);
  return p == nullptr ? std::string_view() : get_string(*p, path);
}

const Json* FakeCluster::condition(const std::string& name, std::string_view type) const {
  const Json* p = pod(name);
  const JsonArray* list = p == nullptr ? nullptr : kube::get_array(*p, "status.conditions");
  if (list == nullptr) return nullptr;
  for (const Json& c : *list) {
    if (get_string(c, "type") == type) return &c;
  }
  return nullptr;
}

std::vector<std::string> FakeCluster::events(const std::string& pod) const {
  std::vector<std::string> out;
  for (const auto& [name, e] : events_) {
    if (get_string(e, "involvedObject.name") != pod) continue;
    const std::string_view field = get_string(e, "involvedObject.fieldPath");
    out.push_back(fmt::format("{} {} x{} {}: {}", get_string(e, "type"), get_string(e, "reason"),
                              kube::get_int(e, "count"), field.empty() ? "-" : field, get_string(e, "message")));
  }
  return out;
}

size_t FakeCluster::count(Verb verb, std::string_view target_part) const {
  return static_cast<size_t>(std::count_if(log_.begin(), log_.end(), [&](const RecordedRequest& r) {
    return r.verb == verb && r.target.find(target_part) != std::string::npos;
  }));
}

std::string FakeCluster::trace(const std::string& pod, double window) const {
  std::string out;
  double first = -1;
  for (const Row& row : rows_) {
    if (row.pod != pod) continue;
    if (first < 0) {
      first = row.at;
      out = fmt::format("# pod {} window {:.1f}\n", pod, window);
    }
    if (row.at - first > window) break;
    out += fmt::format("{:7.2f} {} {} {}\n", row.at - first, row.verb, row.where, row.code);
    if (!row.text.empty()) out += "        " + row.text + "\n";
  }
  return out;
}

}  // namespace ghostfleet::test
