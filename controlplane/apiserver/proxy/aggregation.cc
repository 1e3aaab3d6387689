#include "controlplane/apiserver/proxy/aggregation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/digest.h"
#include "base/log.h"
#include "controlplane/apiserver/object_bytes.h"
#include "controlplane/apiserver/proxy/pass_through.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::http::CallId;
using kube::http::HeaderList;

namespace {

constexpr const char* kGroup = "apiregistration.k8s.io";
constexpr Duration kCheckTimeout = std::chrono::seconds(5);
constexpr Duration kWhileWell = std::chrono::seconds(30), kFirstRetry = std::chrono::milliseconds(250),
                   kLastRetry = std::chrono::seconds(5);
constexpr size_t kMaxDiscovery = 4U << 20;

std::vector<std::string> texts(const JsonArray* list) {
  std::vector<std::string> out;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) out.emplace_back(as_text((*list)[i]));
  return out;
}

// Header values as a real server writes names into them: bytes that a header may not hold are escaped.
void add_user_headers(const UserInfo& user, HeaderList* headers) {
  headers->add("x-remote-user", user.name);
  if (!user.uid.empty()) headers->add("x-remote-uid", user.uid);
  for (const std::string& group : user.groups) headers->add("x-remote-group", group);
  for (const auto& [key, values] : user.extra) {
    std::string name = "x-remote-extra-" + kube::http::percent_encode(key);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const std::string& value : values) headers->add(name, value);
  }
}

void make_tls(const Json& spec, const KeyAndCertificate& client, RemoteApi* out) {
  kube::http::TlsClientConfig config;
  config.insecure = bool_of(spec, "insecureSkipTLSVerify");
  config.server_name = out->service_name + "." + out->service_ns + ".svc";
  config.client_cert_pem = client.cert_pem;
  config.client_key_pem = client.key_pem;
  config.alpn = {"http/1.1"};
  if (const std::string_view bundle = text_of(spec, "caBundle"); !bundle.empty()) {
    if (!base64_decode(bundle, &config.ca_pem)) {
      out->tls_problem = "spec.caBundle is no base64";
      return;
    }
  }
  auto context = kube::http::TlsContext::client(config);
  if (context.ok()) {
    out->tls = std::move(*context);
  } else {
    out->tls_problem = context.error().message();
  }
}

bool is_available(const Json& object) {
  const JsonArray* conditions = array_of(status_of(object), "conditions");
  for (size_t i = 0; conditions != nullptr && i < conditions->size(); ++i) {
    if (text_of((*conditions)[i], "type") == "Available") return text_of((*conditions)[i], "status") == "True";
  }
  return false;
}

std::string key_of_event(const Object& object, bool slice) {
  if (!slice) return object.key;
  for (const auto& [key, value] : object.labels) {
    if (key == "kubernetes.io/service-name") return std::string(object.ns()) + "/" + value;
  }
  return {};
}

}  // namespace

std::vector<kube::KindInfo> kinds_of_resource_list(const Json& list) {
  std::vector<kube::KindInfo> kinds;
  const std::string group_version(text_of(list, "groupVersion"));
  const size_t slash = group_version.find('/');
  const JsonArray* resources = array_of(list, "resources");
  if (slash == std::string::npos || resources == nullptr) return kinds;
  for (const Json& r : *resources) {
    const std::string name(text_of(r, "name"));
    if (name.empty() || name.find('/') != std::string::npos) continue;
    kube::KindInfo& kind = kinds.emplace_back();
    kind.group = group_version.substr(0, slash);
    kind.version = group_version.substr(slash + 1);
    kind.kind = text_of(r, "kind");
    kind.resource = name;
    kind.singular = text_of(r, "singularName");
    kind.namespaced = bool_of(r, "namespaced");
    kind.short_names = texts(array_of(r, "shortNames"));
    kind.categories = texts(array_of(r, "categories"));
    kind.verbs = texts(array_of(r, "verbs"));
    kind.storage_resource = kind.group_resource();
  }
  for (const Json& r : *resources) {
    const std::string name(text_of(r, "name"));
    const size_t at = name.find('/');
    if (at == std::string::npos) continue;
    for (kube::KindInfo& kind : kinds) {
      if (kind.resource != name.substr(0, at)) continue;
      kind.subresources.push_back({name.substr(at + 1), std::string(text_of(r, "group")),
                                   std::string(text_of(r, "version")), std::string(text_of(r, "kind")),
                                   texts(array_of(r, "verbs"))});
    }
  }
  return kinds;
}

// What is known of one APIService with a service.
struct Aggregator::Entry {
  std::shared_ptr<const RemoteApi> api;
  std::vector<const kube::KindInfo*> kinds;
  std::string discovery;  // the text `kinds` were made of
  int64_t group_priority = 0, version_priority = 0;
  // of the loop
  std::unique_ptr<Check> check;
  EventLoop::TimerId timer = 0;
  Duration retry = kFirstRetry;
  bool again = false;  // something changed while it was being asked
};

// One question to the server of an API: what is below /apis/GROUP/VERSION?
class Aggregator::Check final : public kube::http::ResponseHandler {
 public:
  Check(Aggregator& owner, std::shared_ptr<const RemoteApi> api, Backend backend)
      : owner_(owner), api_(std::move(api)), backend_(std::move(backend)) {}

  void begin(EventLoop& loop) {
    target_ = "/apis/" + api_->group + "/" + api_->version;
    client_ = client_for(loop, backend_);
    UserInfo user;
    user.name = "system:kube-aggregator";
    user.groups = {kMastersGroup};
    HeaderList headers;
    headers.add("accept", "application/json");
    add_user_headers(user, &headers);
    kube::http::CallOptions options;
    options.timeout = kCheckTimeout;
    client_->start("GET", target_, &headers, "", options, this);
  }

  void on_head(CallId, int status, const HeaderList&) override { status_ = status; }
  void on_body(CallId, std::string_view piece) override {
    if (body_.size() + piece.size() <= kMaxDiscovery) body_.append(piece);
  }
  void on_end(CallId) override {
    if (status_ < 200 || status_ > 299) {
      return done(fmt::format("bad status from {}: {}", url(), status_));
    }
    done("");
  }
  void on_error(CallId, const Status& status, bool) override {
    std::string why = dial_text(backend_, status);
    if (status.code() == Code::kDeadlineExceeded) why = "context deadline exceeded";
    done(fmt::format("Get \"{}\": {}", url(), why));
  }

 private:
  std::string url() const { return "https://" + backend_.authority() + target_; }

  // This object goes with what it calls.
  void done(const std::string& why) {
    Aggregator& owner = owner_;
    const std::string name = api_->name;
    if (!why.empty()) {
      const std::string message = fmt::format("failing or missing response from {}: {}", url(), why);
      return owner.checked(name, false, "FailedDiscoveryCheck", message, nullptr);
    }
    Result<Json> list = kube::parse_json(body_);
    owner.checked(name, true, "Passed", "all checks passed", list.ok() ? &*list : nullptr);
  }

  Aggregator& owner_;
  const std::shared_ptr<const RemoteApi> api_;
  const Backend backend_;
  std::string target_, body_;
  int status_ = 0;
  std::unique_ptr<kube::http::HttpClient> client_;
};

Aggregator::Aggregator(ApiImpl& api, const Pki* pki)
    : api_(api), client_(pki ? pki->front_proxy_client() : KeyAndCertificate()) {
  const Resource* services = api.find(kGroup, "v1", "apiservices");
  api.on_commit(services->store_kind, [this](const ObjectRef& object, bool gone) { follow(object, gone); });
  const auto watch = [&](std::string_view group, std::string_view resource, bool slice) {
    api.on_commit(api.find(group, "v1", resource)->store_kind, [this, slice](const ObjectRef& object, bool) {
      if (count_.load(std::memory_order_relaxed) == 0) return;
      const std::string key = key_of_event(*object, slice);
      std::vector<std::string> touched;
      {
        std::shared_lock lock(mutex_);
        for (const auto& [name, entry] : entries_) {
          if (entry->api->service_ns + "/" + entry->api->service_name == key) touched.push_back(name);
        }
      }
      for (std::string& name : touched) wake(std::move(name));
    });
  };
  watch("", "services", false);
  watch("", "endpoints", false);
  watch("discovery.k8s.io", "endpointslices", true);
}

Aggregator::~Aggregator() { stop(); }

void Aggregator::start(EventLoop* loop) {
  loop_ = loop;
  std::shared_lock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    loop_->post([this, name = name] { check(name); });
  }
}

void Aggregator::stop() {
  stopped_ = true;
  std::unique_lock lock(mutex_);
  for (const auto& [name, entry] : entries_) entry->check.reset();
}

void Aggregator::follow(const ObjectRef& object, bool gone) {
  const Json json = decode_stored(*object);
  const std::string name(object->name());
  const Json& spec = spec_of(json);
  const Json* service = member(spec, "service");
  auto api = std::make_shared<RemoteApi>();
  bool changed = true;
  {
    std::unique_lock lock(mutex_);
    std::unique_ptr<Entry>& entry = entries_[name];
    if (gone || service == nullptr) {
      // The loop's part of it goes on the loop.
      if (entry && loop_) loop_->post([old = std::shared_ptr<Entry>(std::move(entry))] { old->check.reset(); });
      entries_.erase(name);
      count_ = entries_.size();
      version_++;
      return;
    }
    api->name = name;
    api->group = text_of(spec, "group");
    api->version = text_of(spec, "version");
    api->service_ns = text_of(*service, "namespace");
    api->service_name = text_of(*service, "name");
    api->service_port = static_cast<uint16_t>(int_of(*service, "port", 443));
    api->available = is_available(json);
    make_tls(spec, client_, api.get());
    if (!entry) entry = std::make_unique<Entry>();
    const std::shared_ptr<const RemoteApi> old = entry->api;
    api->spec = kube::to_json(spec);
    changed = !old || old->spec != api->spec;  // the condition that was just written changes nothing to be checked
    entry->group_priority = int_of(spec, "groupPriorityMinimum");
    entry->version_priority = int_of(spec, "versionPriority");
    entry->api = std::move(api);
    count_ = entries_.size();
    version_++;
  }
  if (changed) wake(name);
}

void Aggregator::wake(std::string name) {
  if (loop_) loop_->post([this, name = std::move(name)] { check(name); });
}

void Aggregator::check(const std::string& name) {
  if (stopped_) return;
  std::shared_ptr<const RemoteApi> api;
  {
    std::unique_lock lock(mutex_);
    const auto it = entries_.find(name);
    if (it == entries_.end()) return;
    Entry& entry = *it->second;
    if (entry.check) {
      entry.again = true;
      return;
    }
    if (entry.timer != 0) loop_->cancel(std::exchange(entry.timer, 0));
    api = entry.api;
  }
  const ServiceEndpoint endpoint = resolve_service(api_, api->service_ns, api->service_name, api->service_port);
  if (!endpoint.found()) return checked(name, false, endpoint.reason, endpoint.message, nullptr);
  if (!api->tls) return checked(name, false, "FailedDiscoveryCheck", api->tls_problem, nullptr);
  auto check = std::make_unique<Check>(*this, api, Backend{endpoint.host, endpoint.port, api->tls});
  Check* raw = check.get();
  {
    std::unique_lock lock(mutex_);
    const auto it = entries_.find(name);
    if (it == entries_.end()) return;
    it->second->check = std::move(check);
  }
  raw->begin(*loop_);
}

void Aggregator::checked(const std::string& name, bool available, std::string_view reason, std::string_view message,
                         const Json* resources) {
  {
    std::unique_lock lock(mutex_);
    const auto it = entries_.find(name);
    if (it == entries_.end()) return;
    Entry& entry = *it->second;
    // Its client is on the stack.
    if (entry.check) loop_->post([old = std::shared_ptr<Check>(std::move(entry.check))] {});
    if (resources) keep_kinds(entry, *resources);
    entry.retry = available ? kFirstRetry : std::min(entry.retry * 2, kLastRetry);
    const bool again = std::exchange(entry.again, false);
    const Duration wait = again ? kFirstRetry : available ? kWhileWell : entry.retry;
    if (entry.timer != 0) loop_->cancel(entry.timer);
    entry.timer = loop_->run_after(wait, [this, name] {
      {
        std::unique_lock lock(mutex_);
        const auto found = entries_.find(name);
        if (found == entries_.end()) return;
        found->second->timer = 0;
      }
      check(name);
    });
  }
  write_condition(name, available, reason, message);
}

void Aggregator::keep_kinds(Entry& entry, const Json& resources) {
  std::string text = kube::to_json(resources);
  if (text == entry.discovery) return;
  entry.discovery = std::move(text);
  entry.kinds.clear();
  for (kube::KindInfo& kind : kinds_of_resource_list(resources)) {
    if (kind.group != entry.api->group || kind.version != entry.api->version) continue;
    entry.kinds.push_back(&all_kinds_.emplace_back(std::move(kind)));
  }
  version_++;
}

void Aggregator::write_condition(const std::string& name, bool available, std::string_view reason,
                                 std::string_view message) {
  const Resource* r = api_.find(kGroup, "v1", "apiservices");
  RequestContext ctx = internal_context("apiserver");
  ctx.field_manager = "kube-apiserver";
  const std::string now = format_time(api_.clock().wall_now());
  const auto change = [&](Json& live) -> kube::ApiResult<bool> {
    JsonObject& status = kube::ensure_object(live, "status");
    if (!status["conditions"].is_array()) status["conditions"] = JsonArray();
    JsonArray& conditions = status["conditions"].as_array();
    const std::string_view value = available ? "True" : "False";
    const auto old = std::find_if(conditions.begin(), conditions.end(),
                                  [](const Json& c) { return text_of(c, "type") == "Available"; });
    std::string since = now;
    if (old != conditions.end()) {
      const bool same = text_of(*old, "status") == value;
      if (same && text_of(*old, "reason") == reason && text_of(*old, "message") == message) return false;
      if (same) since = text_of(*old, "lastTransitionTime");
      conditions.erase(old);
    }
    conditions.push_back(JsonObject{{"type", "Available"},
                                    {"status", value},
                                    {"lastTransitionTime", since},
                                    {"reason", reason},
                                    {"message", message}});
    return true;
  };
  const kube::ApiResult<WriteOutcome> done = api_.modify(*r, "", name, "status", change, ctx);
  if (!done.ok()) log_warn("apiserver", "condition of " + name + " not written: " + done.error().message);
}

std::shared_ptr<const RemoteApi> Aggregator::find(std::string_view group, std::string_view version) const {
  if (count_.load(std::memory_order_relaxed) == 0) return nullptr;
  std::shared_ptr<const RemoteApi> found;
  {
    std::shared_lock lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (entry->api->group == group && entry->api->version == version) found = entry->api;
    }
  }
  if (!found) return nullptr;
  for (const Resource* r : api_.resources()) {
    if (r->info.group == group && r->info.version == version) return nullptr;
  }
  return found;
}

kube::KindList Aggregator::kinds() const {
  kube::KindList out;
  if (count_.load(std::memory_order_relaxed) == 0) return out;
  std::shared_lock lock(mutex_);
  std::vector<const Entry*> order;
  for (const auto& [name, entry] : entries_) order.push_back(entry.get());
  std::stable_sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::make_pair(a->group_priority, a->version_priority) >
           std::make_pair(b->group_priority, b->version_priority);
  });
  for (const Entry* entry : order) out.insert(out.end(), entry->kinds.begin(), entry->kinds.end());
  return out;
}

namespace {

// "GROUP" and "VERSION" of /apis/GROUP/VERSION[/...].
bool group_version_of(std::string_view path, std::string_view* group, std::string_view* version) {
  constexpr std::string_view kApis = "/apis/";
  if (!path.starts_with(kApis)) return false;
  path.remove_prefix(kApis.size());
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return false;
  *group = path.substr(0, slash);
  path.remove_prefix(slash + 1);
  *version = path.substr(0, path.find('/'));
  return !group->empty() && !version->empty();
}

}  // namespace

bool serve_aggregated_api(const CallRef& call) {
  std::string_view group, version;
  Aggregator* aggregator = call->parts.aggregator;
  if (!aggregator || !group_version_of(call->info.path, &group, &version)) return false;
  const std::shared_ptr<const RemoteApi> api = aggregator->find(group, version);
  if (!api) return false;
  constexpr const char* kUnavailable = "service unavailable\n";
  if (!api->available) {
    send_text(*call, 503, kUnavailable);
    return true;
  }
  const ServiceEndpoint endpoint =
      resolve_service(call->parts.api, api->service_ns, api->service_name, api->service_port);
  if (!endpoint.found() || !api->tls) {
    send_text(*call, 503, kUnavailable);
    return true;
  }
  PassPlan plan;
  plan.backend = Backend{endpoint.host, endpoint.port, api->tls};
  plan.style = PassStyle::kAggregated;
  plan.upgrade = !kube::http::requested_upgrade(call->request()).empty() && !call->request().http2;
  plan.method = call->info.method;
  plan.target = call->request().target;
  plan.headers = forwarded_headers(call->request(), plan.upgrade);
  add_user_headers(call->ctx.user, &plan.headers);
  plan.headers.set("audit-id", call->audit_id);
  pass_through(call, std::move(plan));
  return true;
}

}  // namespace ghostfleet::controlplane
